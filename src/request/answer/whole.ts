/** The pump of a whole answer: collects and decodes it, sends it through the taps, and withholds it until the steps have returned. */
import type { AnswerView, ChatCompletion, DecodedAnswer, Dialect, MeteredUsage, UpstreamFailure } from '#contract'
import { ByteCollector } from '../../common/bytes.ts'
import { isPromise } from '../../common/promises.ts'
import { wireUsageOf } from '../../common/usage.ts'
import { Pump, type PumpParts } from './pump.ts'
import { carries, hasCalls } from './stream.ts'
import { completionThroughTaps, onlyWatched, type Tap } from './taps.ts'

/** How a whole answer is decoded and encoded. */
export interface WholeFormat {
  readonly dialect: Dialect
  readonly view: AnswerView
  readonly taps: readonly Tap[]
  /** Left out: unchanged. */
  readonly write?: WriteWhole | undefined
}

export class WholePump extends Pump {
  /** Nothing is sent before the answer is over. */
  readonly begun = false
  readonly #format: WholeFormat
  #bytes: ByteCollector | null = null
  /** An answer that arrived in one piece. It is decoded at once, so it need not be copied out of the socket's buffer. */
  #only: Buffer | null = null
  /** The answer as it will be sent; set when `over` reports `complete`. */
  body: Buffer | null = null
  /** The usage; set when the answer was counted. */
  usage: MeteredUsage | null = null

  constructor(parts: PumpParts, format: WholeFormat) {
    super(parts)
    this.#format = format
  }

  data(bytes: Buffer): boolean {
    if (this.isOver) return true
    if (this.#bytes === null && bytes.length === this.source?.expectedBytes) {
      this.#only = bytes
      this.keep(bytes.length)
      return true
    }
    this.#bytes ??= new ByteCollector()
    if (this.#only !== null) this.#bytes.add(this.#only)
    this.#only = null
    this.#bytes.add(bytes)
    this.keep(this.#bytes.size)
    if (this.isOver) this.#bytes.clear()
    return true
  }

  end(): void {
    if (this.isOver) return
    const decoded = this.#counted(this.#only ?? this.#bytes?.take() ?? NOTHING)
    if ('failure' in decoded) {
      this.fail(decoded.failure)
      return
    }
    if (this.parts.client.left) {
      this.finish({ ending: 'client_left' })
      return
    }
    try {
      const body = bodyOf(decoded, this.#format.taps, this.#format.write ?? this.#writeChat())
      if (isPromise(body)) void this.#wait(body)
      else this.#complete(body)
    } catch (error) {
      this.tapped(error)
    }
  }

  async #wait(promised: PromiseLike<Buffer>): Promise<void> {
    try {
      const body = await promised
      if (this.parts.client.left) this.finish({ ending: 'client_left' })
      else this.#complete(body)
    } catch (error) {
      this.tapped(error)
    }
  }

  #complete(body: Buffer): void {
    if (this.isOver) return
    this.body = body
    this.finish({ ending: 'complete' })
  }

  /** The provider's own answer. If it reported no credible usage, the usage that is charged is added. */
  #writeChat(): WriteWhole {
    const { usage } = this
    if (usage?.source !== 'estimated') return writeJson
    return ({ completion }) => Buffer.from(JSON.stringify({ ...completion, usage: wireUsageOf(usage) }))
  }

  /** Decodes and counts the answer. If a hostile answer makes the decoder throw, only this answer ends. */
  #counted(bytes: Buffer): DecodedAnswer | { readonly failure: UpstreamFailure } {
    const { meter } = this.parts
    try {
      const decoded = this.#format.dialect.decodeAnswer(bytes, this.#format.view)
      if ('failure' in decoded) return decoded
      if (decoded.plain) {
        meter.started = true
        meter.plain(decoded.plain)
        if (decoded.plain.usage) meter.reported(decoded.plain.usage)
        this.usage = meter.spent(true)
        return decoded
      }
      const unfinished = decoded.completion.choices.filter(choice => !choice.finish_reason)
      const isFinished = unfinished.length === 0
      // As with streams: an empty choice without a finish reason is incomplete.
      const isFilled = this.parts.fillsFinish && unfinished.every(choice => carries(choice.message))
      if (!isFinished && !isFilled) return { failure: UNFINISHED }
      meter.started = true
      const answer = isFinished ? decoded : { completion: withFinishes(decoded.completion), raw: null }
      meter.whole(answer.completion)
      if (answer.completion.usage) meter.reported(answer.completion.usage)
      this.usage = meter.spent(true)
      return answer
    } catch (error) {
      return { failure: { code: 'upstream_invalid', detail: `the answer could not be read: ${error}` } }
    }
  }
}

/** Encodes a whole answer for a client. `raw` is the provider's encoding; null if a step has edited the answer. */
export type WriteWhole = (answer: DecodedAnswer) => Buffer

const writeJson: WriteWhole = answer => answer.raw ?? Buffer.from(JSON.stringify(answer.completion))

/** The bytes of a whole answer after the taps; the provider's own bytes if no tap edits. A promise only if a tap returned one. */
export function bodyOf(
  answer: DecodedAnswer,
  taps: readonly Tap[],
  write: WriteWhole = writeJson,
): Buffer | Promise<Buffer> {
  if (taps.length === 0) return write(answer)
  const seen = completionThroughTaps(taps, answer.completion)
  const raw = onlyWatched(taps) ? answer.raw : null
  return isPromise(seen) ? seen.then(completion => write({ completion, raw })) : write({ completion: seen, raw })
}

const NOTHING: Buffer = Buffer.alloc(0)

const UNFINISHED: UpstreamFailure = {
  code: 'upstream_truncated',
  detail: 'the answer has no finish reason (missing_finish)',
}

function withFinishes(completion: ChatCompletion): ChatCompletion {
  const choices = completion.choices.map(choice => ({
    ...choice,
    finish_reason: choice.finish_reason || (hasCalls(choice.message) ? 'tool_calls' : 'stop'),
  }))
  return { ...completion, choices }
}
