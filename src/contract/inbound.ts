/**
 * An inbound dialect is a format in which clients may speak to the gateway beside chat completions: the reverse moves of
 * a dialect, between that format and the canonical one. So every step, every price and every provider is the same for
 * all clients. No network, no clock, no Koa.
 */
import type { ChatCompletion, Chunk, WireUsage } from './chat.ts'
import type { Refusal } from './errors.ts'
import type { Model } from './model.ts'
import type { Sliced } from './slices.ts'

/** Texts that clients keep for the gateway: encrypted, authenticated, and of use to the account alone that got them. */
export interface Boxes {
  /** In characters that need no escape in JSON. */
  seal(text: string): string
  /** Null: it was cut or changed, or it is another account's. */
  open(box: string): string | null
}

/** An item of a conversation, in the client's format. */
export type KeptItem = Readonly<Record<string, unknown>>

/** An answer that is kept for a while, so that later requests may name it or its items. */
export interface KeptAnswer {
  readonly id: string
  /** The request's own items, each with an id. */
  readonly input: readonly KeptItem[]
  readonly output: readonly KeptItem[]
  /** The id of the answer that it follows. */
  readonly previous: string | null
}

/** The answers that are kept for the account that asks. */
export interface KeptAnswers {
  /**
   * Reads one half of an answer ahead, in slices, so that `find` and `item` have it at once; answers with what the answer
   * follows. Undefined, and refusals, as for `find`.
   */
  load(answer: string, half: 'input' | 'output'): Sliced<Pick<KeptAnswer, 'previous'> | undefined>
  /**
   * Undefined: there is none by this id for this account, or its time is over. Throws a refusal when the request and all
   * that it names are too large together.
   */
  find(id: string): KeptAnswer | undefined
  /**
   * One item of an answer, as `find` gives them: only this half is read. An item that is asked for again is counted again.
   * @param answer the answer's id
   */
  item(answer: string, half: 'input' | 'output', id: string): KeptItem | undefined
  /**
   * Takes an answer that is to be kept once it has been sent.
   * @param response as it is sent; its `output` is the answer's
   */
  keep(answer: KeptAnswer, response: Readonly<Record<string, unknown>>): void
}

/** What a format must know of a model. */
export type KnownModel = Pick<Model, 'maxOutput'> & Partial<Pick<Model, 'allow' | 'searches' | 'context'>>

/** What an inbound dialect may know of the exchange. */
export interface InboundView {
  /** The exchange's id: unique, for what needs an id of its own. */
  readonly exchange: string
  /** Seconds since the epoch. */
  readonly createdAt: number
  /**
   * What a model of the catalog can give, by the id or alias that the client sent; undefined when there is none. A format
   * in which every client must name a cap fits it to the model, and a search of the web goes to models that make one. Left out:
   * the `schema` step refuses a cap that is too high, and a search.
   */
  readonly findModel?: (id: string) => KnownModel | undefined
  /** The gateway's estimate of the prompt, for an error that says how long it is. Left out: the error does not say. */
  readonly promptTokens?: () => number
  /** Left out (a replay): nothing is sealed, and what comes back sealed is not looked into. */
  readonly boxes?: Boxes
  /** Left out: the route keeps no answers. */
  readonly kept?: KeptAnswers | undefined
}

/** Writes one stream in the client's format. All its memory is inside. */
export interface StreamEncoder {
  /** The frames for one canonical chunk, as bytes of the body; may be empty. */
  chunk(chunk: Chunk): Buffer
  /** What ends a stream that went well; after all chunks. */
  finish(): Buffer
  /** What ends one that did not: one error event. Behind it the connection is cut. */
  fail(refusal: Refusal): Buffer
}

/** One request in a format of its own, and how its answer is written. */
export interface InboundRequest {
  /**
   * The same as a body of chat completions, which the `schema` step checks like any other. A stream asks for its usage
   * (`stream_options.include_usage`), because the encoder needs it.
   */
  readonly body: Readonly<Record<string, unknown>>
  /** What was left out of it: told to the client in `x-tollgate-dropped`. */
  readonly dropped?: readonly string[]
  /** Whether the answer's thoughts are not shown: then a provider is not asked to show them. */
  readonly hidesThoughts?: boolean
  encodeAnswer(completion: ChatCompletion): Buffer
  /**
   * @param soFar the usage as far as it is known when the first chunk leaves: the provider's count of the prompt, or the
   * gateway's estimate; null or left out: neither
   */
  encodeStream(soFar?: () => WireUsage | null): StreamEncoder
  /**
   * The JSON body of an error answer, in place of the dialect's own once the request was read: only the request knows
   * which place of the client's body a place of the canonical one came from.
   */
  encodeError?(refusal: Refusal): string
}

/** A format for clients. */
export interface InboundDialect {
  readonly name: string
  /** Where its clients look for the id of an answer, beside `x-request-id`. */
  readonly idHeader?: string
  /**
   * Reads a body (any JSON value). What the canonical format cannot carry and would make the answer wrong is refused with
   * a sentence and a `param` in the client's own terms.
   */
  decodeRequest(body: unknown, view: InboundView): InboundRequest
  /** Left out: requests name nothing that is kept. Reads it ahead; who finds nothing is refused by `decodeRequest`. */
  readAhead?(body: unknown, kept: KeptAnswers): Sliced<void>
  /** The JSON body of an error answer. */
  encodeError(refusal: Refusal, view: Pick<InboundView, 'exchange'>): string
}
