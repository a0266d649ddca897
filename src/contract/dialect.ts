/**
 * A dialect is a wire format of a provider: four pure moves between it and the canonical chat-completions format.
 * No network, no clock, no Koa. Every move may be made again for another attempt, so none changes its input.
 */
import type { Chat, ChatCompletion, Chunk } from './chat.ts'
import type { ErrorCode } from './errors.ts'
import type { Target } from './exchange.ts'

/** A request as it goes to the provider. */
export interface EncodedRequest {
  /** Relative to the provider's `base_url`: `/chat/completions`. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** Names of parameters that this dialect cannot carry. */
  readonly dropped: readonly string[]
}

/** What a provider's failure means to the client; the provider's own words stay in the log. */
export interface UpstreamFailure {
  readonly code: ErrorCode
  /** For the client: cleaned of addresses and secrets, or undefined for the table's sentence. */
  readonly message?: string
  readonly param?: string | null
  readonly retryAfterMs?: number
  /** For the log. */
  readonly detail: string
}

/** One canonical event of a decoded stream. */
export type StreamItem =
  /** `raw` is the event's JSON in canonical form, when the dialect's own bytes can be passed on. */
  | { readonly kind: 'chunk'; readonly chunk: Chunk; readonly raw: Buffer | null }
  | { readonly kind: 'failure'; readonly failure: UpstreamFailure }
  | { readonly kind: 'done' }

/** One event of a `text/event-stream`. */
export interface SseEvent {
  /** The `event:` field, or an empty string. */
  readonly event: string
  readonly data: Buffer
}

/** A machine with all its memory inside: the same items come out however the bytes were split. */
export interface StreamDecoder {
  event(event: SseEvent): readonly StreamItem[]
}

/** A whole answer; `raw` as in a stream item. */
export interface DecodedAnswer {
  readonly completion: ChatCompletion
  readonly raw: Buffer | null
}

export interface Dialect {
  readonly name: string
  encodeRequest(chat: Chat, target: Target): EncodedRequest
  /** Throws an `UpstreamFailure`-carrying error (see `failure()` in dialects) when the body is no answer. */
  decodeAnswer(body: Buffer): DecodedAnswer
  decodeStream(): StreamDecoder
  decodeError(status: number, headers: Readonly<Record<string, string>>, body: Buffer): UpstreamFailure
}
