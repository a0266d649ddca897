/**
 * Decodes a stream: events with pieces of an answer, or the same pieces in one JSON list (Google's form without `alt=sse`). The answer
 * is complete when the body ends and a candidate has a finish reason. Only then are its calls and its usage known.
 */
import type { AnswerView, StreamDecoder, StreamItem } from '#contract'
import { isEmptyValue } from '../failure.ts'
import { BRACE_OPEN, BRACKET_OPEN } from '../json-bytes.ts'
import { parseAnswer } from '../json-exact.ts'
import { SseReader } from '../sse.ts'
import { ChunkWriter } from '../translate/completion.ts'
import {
  BLOCKED_PROMPT,
  blockedPrompt,
  CandidateError,
  CandidateReader,
  isFields,
  NOTHING_USED,
  usageOf,
} from './candidate.ts'
import { type Fail, failedInside } from './failures.ts'
import { JsonValues, JsonValuesError } from './json-values.ts'

const NONE: readonly StreamItem[] = []

export class GeminiStream implements StreamDecoder {
  readonly #fail: Fail
  readonly #writer: ChunkWriter
  readonly #reader: CandidateReader
  #events: SseReader | null = null
  #values: JsonValues | null = null
  #begun = false
  #over = false

  constructor(view: AnswerView, fail: Fail) {
    this.#fail = fail
    this.#writer = new ChunkWriter(view)
    this.#reader = new CandidateReader(this.#writer)
  }

  push(bytes: Buffer): readonly StreamItem[] {
    if (this.#over) return NONE
    this.#pieces(() => this.#cut(bytes))
    return this.#writer.take()
  }

  end(): readonly StreamItem[] {
    if (this.#over) return NONE
    this.#pieces(() => this.#events?.end().map(event => event.data) ?? [])
    if (!this.#over) this.#finish()
    this.#over = true
    return this.#writer.take()
  }

  /** The first byte that is not a space shows which of the two forms it is. */
  #cut(bytes: Buffer): readonly Buffer[] {
    if (!this.#events && !this.#values) {
      const first = bytes.find(byte => byte > 0x20)
      if (first === undefined) return []
      if (first === BRACKET_OPEN || first === BRACE_OPEN) this.#values = new JsonValues()
      else this.#events = new SseReader()
    }
    return this.#values?.push(bytes) ?? this.#events!.push(bytes).map(event => event.data)
  }

  #pieces(cut: () => readonly Buffer[]): void {
    try {
      for (const piece of cut()) this.#piece(piece)
    } catch (error) {
      if (error instanceof JsonValuesError) for (const data of error.values) this.#pieces(() => [data])
      // A RangeError: the arguments are nested too deeply to be written.
      else if (!(error instanceof CandidateError || error instanceof RangeError)) throw error
      this.#broken((error as Error).message)
    }
  }

  #broken(detail: string): void {
    this.#over = true
    this.#writer.fail({ code: 'upstream_invalid', detail })
  }

  #piece(data: Buffer): void {
    if (this.#over) return
    let parsed: unknown
    try {
      parsed = parseAnswer(data.toString('utf8'), 'args')
    } catch {
      this.#broken('a piece of the stream is not JSON')
      return
    }
    const value = Array.isArray(parsed) ? parsed[0] : parsed
    if (!isFields(value)) {
      this.#broken('a piece of the stream is not an object')
      return
    }
    if (!isEmptyValue(value['error'])) {
      this.#over = true
      this.#writer.fail(failedInside(parsed, this.#fail))
      return
    }
    const isFirst = !this.#begun
    this.#begun = true
    this.#writer.identify(value['responseId'], value['modelVersion'])
    const blocked = blockedPrompt(value['promptFeedback'])
    const usage = usageOf(value['usageMetadata']) ?? (blocked === undefined ? null : NOTHING_USED)
    // Needed if this event fails, and by formats that send the prompt's tokens first.
    if (usage && isFirst) this.#writer.usageSoFar(usage)
    else if (usage) this.#writer.usage(usage)
    this.#read(value['candidates'], blocked)
    // Every piece has a count, so an answer that breaks off is charged by the provider's own count.
    if (usage) this.#writer.usageSoFar(usage)
  }

  #read(candidates: unknown, blocked: string | null | undefined): void {
    if (blocked !== undefined) {
      this.#reader.finishWith(BLOCKED_PROMPT)
      this.#reader.message = blocked
    }
    if (!Array.isArray(candidates)) return
    // A stream never has more than one choice.
    for (const candidate of candidates) if (isFields(candidate) && !candidate['index']) this.#reader.read(candidate)
  }

  #finish(): void {
    const { finish, message } = this.#reader
    // The pump reports an empty stream.
    if (!this.#begun) return
    if (finish === null || this.#values?.isWhole === false) {
      // Reported here and not by the pump, so that the usage so far is known.
      this.#writer.fail({ code: 'upstream_truncated', detail: 'the stream ended without a finish reason' })
    } else {
      if (finish === 'content_filter' && message !== null) this.#writer.refusal(message)
      this.#writer.finish(finish)
      this.#writer.done()
    }
  }
}
