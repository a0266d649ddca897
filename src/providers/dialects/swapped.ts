/**
 * Handles providers that send a stream instead of a whole answer, or the reverse. The answer is used: a retry would get the same again
 * and be billed again.
 */

import type { UpstreamFailure, WireUsage } from '#contract'
import {
  AnswerCollector,
  type AnswerView,
  type DecodedAnswer,
  type Dialect,
  type StreamDecoder,
  type StreamItem,
} from '#contract'
import { ByteCollector } from '../../common/bytes.ts'
import { BRACE_OPEN } from './json-bytes.ts'
import { chunksOf } from './translate/chunks.ts'

type Whole = DecodedAnswer | { readonly failure: UpstreamFailure }

/** A field of an event stream, or a comment, at the beginning of a body. */
const EVENT_STREAM = /^\uFEFF?\s*(?:data|event|id|retry)?:/

/** Wraps a dialect so that it also accepts an event stream as a whole answer. */
export function readingEvents(dialect: Dialect): Dialect {
  return {
    ...dialect,
    decodeAnswer: (body, view) =>
      body[0] !== BRACE_OPEN && EVENT_STREAM.test(body.toString('utf8', 0, 64))
        ? gathered(dialect, body, view)
        : dialect.decodeAnswer(body, view),
  }
}

/** Wraps a dialect so that it also accepts a whole answer as a stream, for dialects whose stream decoders cannot. */
export function readingWhole(dialect: Dialect): Dialect {
  return { ...dialect, decodeStream: view => new StreamOrWhole(dialect, view) }
}

function gathered(dialect: Dialect, body: Buffer, view: AnswerView): Whole {
  const decoder = dialect.decodeStream({ ...view, includeUsage: false })
  const collector = new AnswerCollector({ maxCharacters: Number.POSITIVE_INFINITY, onOverflow: 'truncate' })
  let usage: WireUsage | null = null
  for (const item of [...decoder.push(body), ...decoder.end()]) {
    if (item.kind === 'failure') return { failure: item.failure }
    if (item.kind === 'chunk') collector.add(item.chunk)
    if (item.kind === 'chunk' || item.kind === 'usage') usage = item.usage ?? usage
  }
  const completion = collector.completion()
  if (completion === null) return { failure: { code: 'upstream_invalid', detail: 'the stream has no answer' } }
  return { completion: usage === null ? completion : { ...completion, usage }, raw: null }
}

const NONE: readonly StreamItem[] = []

/** White space of JSON. */
const BLANK: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d])

class StreamOrWhole implements StreamDecoder {
  readonly #dialect: Dialect
  readonly #view: AnswerView
  #stream: StreamDecoder | null = null
  /** Set if the first byte begins an object: no stream of these dialects begins with one. */
  #whole: ByteCollector | null = null

  constructor(dialect: Dialect, view: AnswerView) {
    this.#dialect = dialect
    this.#view = view
  }

  push(bytes: Buffer): readonly StreamItem[] {
    if (this.#stream !== null) return this.#stream.push(bytes)
    if (this.#whole === null && bytes.find(byte => !BLANK.has(byte)) !== BRACE_OPEN) {
      this.#stream = this.#dialect.decodeStream(this.#view)
      return this.#stream.push(bytes)
    }
    this.#whole ??= new ByteCollector()
    this.#whole.add(bytes)
    return NONE
  }

  end(): readonly StreamItem[] {
    if (this.#whole === null) return this.#stream?.end() ?? NONE
    const decoded = this.#dialect.decodeAnswer(this.#whole.take(), this.#view)
    if ('failure' in decoded) return [{ kind: 'failure', failure: decoded.failure }]
    const { completion } = decoded
    const usage = completion.usage ?? null
    const chunks = chunksOf(completion, this.#view.includeUsage)
    return [
      ...chunks.map(chunk => ({ kind: 'chunk', chunk, raw: null, usage: chunk.usage ?? null }) as const),
      ...(usage === null || this.#view.includeUsage ? [] : [{ kind: 'usage', usage } as const]),
      { kind: 'done' },
    ]
  }
}
