/**
 * Dialects: the wire format of a provider, as four pure functions between it and the canonical chat-completions format. No network, no
 * clock, no Koa. Further attempts repeat the calls, so none changes its input.
 */
import type { Chat, ChatCompletion, Chunk, WireUsage } from './chat.ts'
import type { ErrorCode } from './errors.ts'
import type { Target } from './model.ts'

/** A request as it is sent to the provider. */
export interface EncodedRequest {
  /** Relative to the provider's `base_url`: `/chat/completions`. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Names of parameters that this dialect does not support. */
  readonly dropped: readonly string[]
}

/**
 * Positions in the outermost object of a JSON text: its opening and closing brace, then three numbers for each member in order. These are
 * the opening quote of its key, its value, and the end of the value. Offsets are bytes. It is a flat list because it lives as long as a
 * request.
 */
export type Spans = readonly number[]

/** A provider's failure as the client sees it; the provider's text stays in the log. */
export interface UpstreamFailure {
  readonly code: ErrorCode
  /** For the client: without addresses and secrets. Undefined: the message of the error table. */
  readonly message?: string
  readonly param?: string | null
  readonly retryAfterMs?: number
  /** After a used-up quota: milliseconds until it is renewed, if the provider states it. */
  readonly restMs?: number
  /** For the log. */
  readonly detail: string
}

/** How to present an answer to the client. */
export interface AnswerView {
  /** The catalog's id, which replaces the provider's name of the model in answers. */
  readonly model: string
  /** Whether the client asked for usage in the stream; the gateway always asks the provider for it. */
  readonly includeUsage: boolean
  /** The exchange's id: unique, for answers and calls without an id of the provider. */
  readonly exchange: string
  /** Seconds since the epoch, for answers without a creation time. */
  readonly createdAt: number
  /** Whether the client sent its tools as `functions`, the older parameter: it then expects `function_call`. */
  readonly functions?: boolean
  /** The names of the request's custom tools. A provider with functions only returns them as functions. */
  readonly customTools?: ReadonlySet<string> | undefined
  /** Whether the request has Anthropic's web search: the answer then has its blocks in `anthropic_content`. */
  readonly searches?: boolean
  /** Receives the provider's id and model of its answer, as far as the dialect sees them; null or left out: not recorded. */
  readonly identity?: AnswerIdentity | null
}

/** A provider's id of its answer and of the model, unchecked: any value, or null. */
export interface AnswerIdentity {
  id: unknown
  model: unknown
}

/** A chunk that only adds text, or reasoning, to a choice. */
export interface TextPiece {
  /** The choice's index, as the provider sent it. */
  readonly index: number
  /** The length of the text in UTF-8. */
  readonly bytes: number
  /** The chunk's `raw` as an event of an event stream. */
  readonly event: Buffer
}

/** One canonical event of a decoded stream. */
export type StreamItem =
  | {
      readonly kind: 'chunk'
      /** As the client sees it: the catalog's model, usage only on request. */
      readonly chunk: Chunk
      /** The same as JSON bytes, if the provider's own are usable; null: encode the chunk. */
      readonly raw: Buffer | null
      /** The usage in the event, whether shown to the client or not. */
      readonly usage: WireUsage | null
      /** Set if the chunk only adds text to a choice. Readers that need no more avoid parsing `chunk`. */
      readonly text?: TextPiece
    }
  /** Usage that the client did not request, in its own event. */
  | { readonly kind: 'usage'; readonly usage: WireUsage }
  | { readonly kind: 'failure'; readonly failure: UpstreamFailure }
  | { readonly kind: 'done' }

/**
 * A decoder that holds all of its state: the result does not depend on how the bytes were split. It takes bytes, not events, because
 * framing differs by dialect (SSE, NDJSON, binary event streams).
 */
export interface StreamDecoder {
  push(bytes: Buffer): readonly StreamItem[]
  /** The body is over: returns the content of an unterminated last event. The pump decides whether the answer is complete. */
  end(): readonly StreamItem[]
}

/** A whole answer as the client sees it; `raw` as in a stream item. */
export interface DecodedAnswer {
  readonly completion: ChatCompletion
  readonly raw: Buffer | null
  /** Set if the answer is text only. Readers of these figures avoid parsing `completion`. */
  readonly plain?: PlainAnswer
}

/** The figures of a whole answer that has only text. */
export interface PlainAnswer {
  /** In order: the bytes of each text in UTF-8, and the finish reason. */
  readonly choices: readonly { readonly bytes: number; readonly finish: string }[]
  readonly usage: WireUsage | null
  /** The service tier. */
  readonly tier: string | undefined
}

/** How to ask a provider for the number of tokens of a prompt. */
export interface TokenCounting {
  /** Null: the provider does not count for this model. Throws a refusal for unsupported content, like `encodeRequest`. */
  encodeRequest(chat: Chat, target: Target): EncodedRequest | null
  /** The member of the answer that has the count. */
  readonly field: string
}

/** The four functions of a provider's format, and its name in the configuration. */
export interface Dialect {
  readonly name: string
  /** @param spans positions of the members of `chat.bytes`; empty or left out: not scanned yet */
  encodeRequest(chat: Chat, target: Target, spans?: Spans): EncodedRequest
  /** Left out: the provider does not count. */
  readonly counting?: TokenCounting
  /** A 200 whose body is an error, or not an answer, is a failure. */
  decodeAnswer(body: Buffer, view: AnswerView): DecodedAnswer | { readonly failure: UpstreamFailure }
  decodeStream(view: AnswerView): StreamDecoder
  decodeError(status: number, headers: Readonly<Record<string, string>>, body: Buffer): UpstreamFailure
}
