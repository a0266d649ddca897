/**
 * Inbound dialects: formats other than chat completions that clients may use. They are the reverse of a provider dialect, so all steps,
 * prices and providers work the same for all clients. No network, no clock, no Koa.
 */
import type { ChatCompletion, Chunk, WireUsage } from './chat.ts'
import type { Refusal } from './errors.ts'
import type { Model } from './model.ts'
import type { Sliced } from './slices.ts'

/** Sealed texts that clients keep for the gateway: encrypted, authenticated, and readable only for the same account. */
export interface Boxes {
  /** Returns characters that need no escape in JSON. */
  seal(text: string): string
  /** Null: the box was changed, or belongs to another account. */
  open(box: string): string | null
}

/** An item of a conversation, in the client's format. */
export type KeptItem = Readonly<Record<string, unknown>>

/** An answer that is kept for a while, so that later requests can refer to it or its items. */
export interface KeptAnswer {
  readonly id: string
  /** The request's own items, each with an id. */
  readonly input: readonly KeptItem[]
  readonly output: readonly KeptItem[]
  /** The id of the preceding answer. */
  readonly previous: string | null
}

/** The kept answers of the requesting account. */
export interface KeptAnswers {
  /**
   * Reads one half of an answer ahead, in slices, so that `find` and `item` have it at once. Resolves with the preceding answer's id.
   * Undefined, and refusals, as for `find`.
   */
  load(answer: string, half: 'input' | 'output'): Sliced<Pick<KeptAnswer, 'previous'> | undefined>
  /**
   * Undefined: this account has no such answer, or it has expired. Throws a refusal if the request and everything that it names are too
   * large together.
   */
  find(id: string): KeptAnswer | undefined
  /**
   * Returns one item of an answer, as in `find`; only this half is read. An item that is requested again counts again.
   * @param answer the answer's id
   */
  item(answer: string, half: 'input' | 'output', id: string): KeptItem | undefined
  /**
   * Registers an answer that is to be stored once it was sent.
   * @param response as it is sent; its `output` is the answer's
   */
  keep(answer: KeptAnswer, response: Readonly<Record<string, unknown>>): void
}

/** The facts about a model that a format needs. */
export type ModelLimits = Pick<Model, 'maxOutput'> & Partial<Pick<Model, 'allow' | 'searches' | 'context'>>

/** The exchange as an inbound dialect sees it. */
export interface InboundView {
  /** The exchange's id: unique, for parts that need an id. */
  readonly exchange: string
  /** Seconds since the epoch. */
  readonly createdAt: number
  /**
   * Finds a model of the catalog by the id or alias that the client sent; undefined: none. A format with a mandatory cap lowers it to the
   * model's, and sends web searches to models that support them. Left out: the `schema` step refuses a cap that is too high, and a search.
   */
  readonly findModel?: (id: string) => ModelLimits | undefined
  /** The gateway's estimate of the prompt, for an error that states its length. Left out: the error omits it. */
  readonly promptTokens?: () => number
  /** Left out (in a replay): nothing is sealed or unsealed. */
  readonly boxes?: Boxes
  /** Left out: the route keeps no answers. */
  readonly kept?: KeptAnswers | undefined
}

/** Writes one stream in the client's format. It holds all of its state. */
export interface StreamEncoder {
  /** The frames of one canonical chunk, as bytes of the body; may be empty. */
  chunk(chunk: Chunk): Buffer
  /** The end of a successful stream, after all chunks. */
  finish(): Buffer
  /** The end of a failed stream: one error event. The connection is closed after it. */
  fail(refusal: Refusal): Buffer
}

/** One request in a client format, and the encoders of its answer. */
export interface InboundRequest {
  /**
   * The request as a body of chat completions, which the `schema` step validates like any other. A stream asks for its usage
   * (`stream_options.include_usage`), because the encoder needs it.
   */
  readonly body: Readonly<Record<string, unknown>>
  /** Dropped parameters, reported to the client in `x-tollgate-dropped`. */
  readonly dropped?: readonly string[]
  /** Whether the answer hides reasoning: a provider is then not asked to show it. */
  readonly hidesReasoning?: boolean
  encodeAnswer(completion: ChatCompletion): Buffer
  /**
   * @param soFar returns the usage known at the first chunk: the provider's count of the prompt, or an estimate; null or left out: none
   */
  encodeStream(soFar?: () => WireUsage | null): StreamEncoder
  /**
   * The JSON body of an error answer. It replaces the dialect's own once the request was read, because it maps places of the canonical
   * body to the client's.
   */
  encodeError?(refusal: Refusal): string
}

/** A format for clients. */
export interface InboundDialect {
  readonly name: string
  /** The header in which its clients expect the id of an answer, besides `x-request-id`. */
  readonly idHeader?: string
  /**
   * Reads a body (any JSON value). Refuses content that the canonical format does not support, if the answer would be wrong without it.
   * Message and `param` are in terms of the client's format.
   */
  decodeRequest(body: unknown, view: InboundView): InboundRequest
  /**
   * Reads ahead what a request refers to. Missing answers are refused by `decodeRequest`. Left out: requests refer to nothing that is kept.
   */
  readAhead?(body: unknown, kept: KeptAnswers): Sliced<void>
  /** The JSON body of an error answer. */
  encodeError(refusal: Refusal, view: Pick<InboundView, 'exchange'>): string
}
