/**
 * A dialect is a wire format of a provider: four pure moves between it and the canonical chat-completions format.
 * No network, no clock, no Koa. Every move may be made again for another attempt, so none changes its input.
 */
import type { Chat, ChatCompletion, Chunk, WireUsage } from './chat.ts'
import type { ErrorCode } from './errors.ts'
import type { Target } from './model.ts'

/** A request as it goes to the provider. */
export interface EncodedRequest {
  /** Relative to the provider's `base_url`: `/chat/completions`. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Names of parameters that this dialect cannot carry. */
  readonly dropped: readonly string[]
}

/**
 * Where the outermost object of a JSON text stands: its opening and its closing brace, then three numbers for each member in
 * their order: the opening quote of its key, its value, and what follows the value. Offsets are bytes. A flat list, because
 * it lives as long as a request.
 */
export type Spans = readonly number[]

/** What a provider's failure means to the client; the provider's own words stay in the log. */
export interface UpstreamFailure {
  readonly code: ErrorCode
  /** For the client: cleaned of addresses and secrets, or undefined for the table's sentence. */
  readonly message?: string
  readonly param?: string | null
  readonly retryAfterMs?: number
  /** Of a spent quota: milliseconds until it comes back, where the provider says when. */
  readonly restMs?: number
  /** For the log. */
  readonly detail: string
}

/** How the client is to see an answer. */
export interface AnswerView {
  /** The catalog's id, which answers carry in place of the provider's name for the model. */
  readonly model: string
  /** Whether the client asked for usage in the stream; it is always asked for upstream. */
  readonly includeUsage: boolean
  /** The exchange's id: unique, for answers and calls to which the provider gives none. */
  readonly exchange: string
  /** Seconds since the epoch, for answers that do not say when they were made. */
  readonly createdAt: number
  /** Whether the client offered its tools as `functions`, the older parameter: it looks for `function_call` then. */
  readonly functions?: boolean
  /** The names of the custom tools that the request offers: a provider that has functions only calls one as a function. */
  readonly customTools?: ReadonlySet<string> | undefined
  /** Whether the request has Anthropic's search of the web: what it did is told in `anthropic_content` then. */
  readonly searches?: boolean
  /** Where the dialect notes what the provider calls its answer, as far as it sees that; null or left out: nobody asks. */
  readonly identity?: AnswerIdentity | null
}

/** What a provider calls its answer and the model that has given it, in its own words: anything, or null. */
export interface AnswerIdentity {
  id: unknown
  model: unknown
}

/** A chunk that only adds text, or thinking, to a choice. */
export interface TextPiece {
  /** Of the choice, as the provider has said it. */
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
      /** As the client sees it: the catalog's model, usage only when asked for. */
      readonly chunk: Chunk
      /** The same as JSON bytes, when the provider's own could be used; null: encode the chunk. */
      readonly raw: Buffer | null
      /** What the event said of usage, shown to the client or not. */
      readonly usage: WireUsage | null
      /** Set where it does nothing but add text to a choice. Who needs no more than this spares the parsing of `chunk`. */
      readonly text?: TextPiece
    }
  /** Usage that the client did not ask for, in an event of its own. */
  | { readonly kind: 'usage'; readonly usage: WireUsage }
  | { readonly kind: 'failure'; readonly failure: UpstreamFailure }
  | { readonly kind: 'done' }

/**
 * A machine with all its memory inside: the same items come out however the bytes were split. It takes bytes, not
 * events, because framing is the dialect's business too (SSE, NDJSON, binary event streams).
 */
export interface StreamDecoder {
  push(bytes: Buffer): readonly StreamItem[]
  /** The body is over: what an unterminated last event still holds. Whether the answer was whole is the pump's question. */
  end(): readonly StreamItem[]
}

/** A whole answer as the client sees it; `raw` as in a stream item. */
export interface DecodedAnswer {
  readonly completion: ChatCompletion
  readonly raw: Buffer | null
  /** Set where all of it is text. A reader of these figures only does not need to parse `completion`. */
  readonly plain?: PlainAnswer
}

/** The figures of a whole answer that has only text. */
export interface PlainAnswer {
  /** In their order: the bytes of each text in UTF-8, and the finish reason. */
  readonly choices: readonly { readonly bytes: number; readonly finish: string }[]
  readonly usage: WireUsage | null
  /** The class of service. */
  readonly tier: string | undefined
}

/** How a provider is asked how many tokens a prompt has. */
export interface TokenCounting {
  /** Null: it counts none for this model. Throws a refusal for what the dialect cannot carry, as `encodeRequest` does. */
  encodeRequest(chat: Chat, target: Target): EncodedRequest | null
  /** The member of its answer that is the count. */
  readonly field: string
}

/** The four moves, and the name that providers are configured with. */
export interface Dialect {
  readonly name: string
  /** @param spans of the members of `chat.bytes`; empty or left out: nobody has looked yet */
  encodeRequest(chat: Chat, target: Target, spans?: Spans): EncodedRequest
  /** Left out: the provider does not count. */
  readonly counting?: TokenCounting
  /** A 200 whose body is an error, or no answer at all, is a failure. */
  decodeAnswer(body: Buffer, view: AnswerView): DecodedAnswer | { readonly failure: UpstreamFailure }
  decodeStream(view: AnswerView): StreamDecoder
  decodeError(status: number, headers: Readonly<Record<string, string>>, body: Buffer): UpstreamFailure
}
