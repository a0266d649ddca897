/** The exchange: one request and its answer, as the steps of a policy see it in `ctx.exchange`. */

import type { Account, Key } from './account.ts'
import type { Chat, ChatChanges, ChatCompletion, Chunk } from './chat.ts'
import type { ErrorCode } from './errors.ts'
import type { Model, Target } from './model.ts'
import type { NanoUsd } from './quantities.ts'
import type { Cost, Price, Usage } from './units.ts'

/** Facts: results of earlier steps. Exactly one step of a policy gives each. */
export interface Facts {
  /** The client's key; by `api-key`. */
  readonly key: Key
  /** The key's account; by `api-key`. */
  readonly account: Account
  /** The validated chat request; by `schema`. */
  readonly chat: Chat
  /** The catalog's model, alias resolved and allowed for the key; by `schema`. */
  readonly model: Model
  /** The targets, best first; by `route`. */
  readonly targets: readonly Target[]
  /** The held amount in nano-dollars, 0 if the request is free; by `credits`. A step that needs it comes after `credits`. */
  readonly hold: NanoUsd
  /** The claims of the verified token; by `jwt`. */
  readonly claims: Readonly<Record<string, unknown>>
  /** Names and values for limits, budgets and reports; by `tags`. */
  readonly tags: Readonly<Record<string, string>>
}

/** The name of a fact, for `needs` and `gives`. */
export type FactName = keyof Facts
/** All fact names, for checks at run time. */
export const FACT_NAMES: readonly FactName[] = ['key', 'account', 'chat', 'model', 'targets', 'hold', 'claims', 'tags']

/**
 * How an exchange ended; set by the pump or at the refusal. `refused`: rejected before the client received content, so nothing is
 * charged. A rejection during or after a stream is `failed`: delivered content is charged.
 */
export type Outcome = 'answered' | 'refused' | 'failed' | 'client_left' | 'cut'

/** The usage of an exchange, with its source. */
export interface MeteredUsage extends Usage {
  /** `reported` by the provider, `estimated` from what was received, or `cached` (no provider was asked). */
  readonly source: 'reported' | 'estimated' | 'cached'
}

/** The progress of the provider's answer: counters, not text. */
export interface Progress {
  /** Whether the provider has begun to answer (its first event or byte of content). */
  readonly started: boolean
  /** Whether a finish reason was received. */
  readonly finished: boolean
  /**
   * Whether content of a streamed answer was sent to the client: text, reasoning, a refusal, a tool call, sound. A head, a role or a
   * comment does not count, nor does content that a step holds back.
   */
  readonly delivered: boolean
  /** Whether the client disconnected before the end. */
  readonly left: boolean
  /**
   * Whether the gateway abandoned the request because its client disconnected: after it was sent, before a finish reason, and without an
   * error of the provider. The provider may bill it, so at least the prompt was used.
   */
  readonly abandoned: boolean
  /** Output tokens counted over all choices: the larger of content deltas and a quarter of their UTF-8 bytes. */
  readonly countedTokens: number
  /** The usage if the exchange ended now without the provider's figures; `source` is `estimated`. */
  readonly estimate: MeteredUsage
}

/** One attempt at one target. */
export interface Attempt {
  readonly target: string
  readonly status: number | null
  readonly code: ErrorCode | null
  /** Milliseconds from dispatch to the response head, or to the failure. */
  readonly ms: number
}

/** The reason of a verdict, if the verdict does not state it. */
export const TRAIL_WHYS = [
  /** Refused or failed in its `watch` or `edit`, while the answer was being sent. */
  'in_answer',
  /** Failed: its `when` threw. */
  'when_threw',
  /** Failed: it threw, and the exchange continued without it (`onError: skip`). */
  'skipped_on_error',
  /** Failed: it returned while its `next()` was pending. */
  'not_awaited',
  /** Failed: it returned without `next()`, an answer or a refusal. */
  'no_decision',
  /** Failed: it threw its own error after a later step had failed. That step's error ended the exchange. */
  'threw_after_error',
  /** Passed: it caught the error of a later step and did not rethrow it. The error ended the exchange. */
  'kept_error',
] as const
/** The reason of a verdict. */
export type TrailWhy = (typeof TRAIL_WHYS)[number]

/** A suppressed action of a step in shadow. */
export interface TrailDeed {
  readonly deed: 'answer' | 'edit' | 'rewrite' | 'set_header'
  /** The name of the header. */
  readonly header?: string
}

/** One line of the trail: the verdict of a step. Plain JSON: receipts keep it. */
export interface TrailEntry {
  readonly step: string
  /** The name of the step's plugin, if its id is different. */
  readonly plugin?: string
  readonly verdict: 'passed' | 'answered' | 'refused' | 'failed' | 'skipped' | 'off' | 'would_refuse' | 'late'
  readonly code?: ErrorCode
  readonly why?: TrailWhy
  readonly would?: readonly TrailDeed[]
  /** The id of the model before the step replaced it by `exchange.askInstead(model)`. */
  readonly asked?: string
  /** The remarks of the step by `exchange.note(text)`: for people, no code reads them. */
  readonly note?: string
}

/** Handling of the upstream request when the client disconnects: abort it, or read on for the usage. */
export type OnDisconnect = 'cancel' | 'drain'

/** The kind of a route: it determines what runs after the last step, and which facts can exist. */
export type RouteKind =
  | 'chat'
  | 'messages'
  | 'responses'
  | 'response'
  | 'models'
  | 'model'
  | 'receipt'
  | 'budgets'
  | 'raw'

/** Whether such a route calls a model, in any client format: the facts `chat`, `model` and `targets` exist then. */
export function asksModel(kind: RouteKind): boolean {
  return kind === 'chat' || kind === 'messages' || kind === 'responses'
}

/** The part of a route that steps can read. */
export interface RouteView {
  readonly path: string
  readonly kind: RouteKind
  /**
   * Whether the route only counts tokens (`/v1/messages/count_tokens`, `/v1/responses/input_tokens`): no model answers, and nothing is
   * held, charged or kept. `kind` is the format. Left out: false.
   */
  readonly counts?: boolean
  readonly policy: string
  /** Raw routes: the price of a request; null if free or not raw. */
  readonly price: Price | null
  /** Raw routes: the maximum cost of one request, if configured; it is the hold. */
  readonly hold?: NanoUsd | null
}

/** The result of an edit: one chunk, several, or null for none. */
export type EditResult = Chunk | readonly Chunk[] | null

/** One request and its answer: `ctx.exchange`. */
export interface Exchange {
  /** `req_…`: time-ordered, unguessable; the `x-request-id` of the answer and the id of its receipt. */
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly route: RouteView
  /** The client's address; with `trust_proxy`, the forwarded one. */
  readonly address: string
  /** The body as it arrived (empty without one). */
  readonly bytes: Buffer
  /** Raw routes: the provider's model that the body names, if the route lists it under `models`. */
  readonly rawModel?: string | null
  /**
   * The body as JSON, scanned for depth, width and duplicate keys before parsing. Throws the refusal (`invalid_json`,
   * `request_too_complex`) of an invalid one.
   */
  json(): unknown
  /**
   * The request in the canonical format: the body itself on a chat route, its translation on a route of another format (`messages`,
   * `responses`). Throws the refusal of an invalid one, in terms of the client's format.
   */
  request(): CanonicalRequest
  /** Aborts when the client disconnects, a deadline passes or the shutdown cuts. Do not use it for store calls after `next()`. */
  readonly signal: AbortSignal

  readonly key?: Key | undefined
  readonly account?: Account | undefined
  readonly chat?: Chat | undefined
  readonly model?: Model | undefined
  readonly targets?: readonly Target[] | undefined
  readonly hold?: NanoUsd | undefined
  readonly claims?: Facts['claims'] | undefined
  readonly tags?: Facts['tags'] | undefined
  /** Sets a fact that this plugin declares in `gives`; throws for other facts. */
  give<F extends FactName>(name: F, value: Facts[F]): void

  /**
   * Replaces fields of the request, in `chat.body` and `chat.bytes`. Call it before `next()`, after the step that gives `chat`, and before
   * credit is held, because the hold must cover the request that is sent. A plugin that rewrites declares `before: ['hold']`.
   *
   * Errors refer to places of the client's request. So keep the same objects for unchanged members of a list, and the length of a list
   * whose members you replace.
   * @param own messages that the step added: errors about them name no place
   */
  rewrite(changes: ChatChanges, own?: readonly object[]): void
  /**
   * Replaces the requested model. Call it before `next()`, and before `targets` and `hold` are given. Throws a refusal if that model
   * cannot answer the request.
   */
  askInstead(model: Model): void
  /** Reads every chunk of the answer; a whole answer comes as one chunk per choice, with its finish. Call it before `next()`. */
  watch(fn: (chunk: Chunk) => void): void
  /**
   * Changes chunks: return the chunk, several, or null to drop it. Call it before `next()`. An edit costs encoding every chunk again; to
   * only read, use `watch`. An edit may return a promise, as for sliced work: the answer waits for it, and the next chunk comes only
   * afterwards.
   */
  edit(fn: (chunk: Chunk) => EditResult | Promise<EditResult>): void
  /**
   * Answers without a provider (a cache, a mock), instead of `next()`. Resolves when the answer is over. The outer steps' edits change the
   * answer, which is sent whole or as a stream, as the client requested.
   * @param price the price of its `usage`, within the hold; left out: free
   */
  answer(completion: ChatCompletion, price?: Price): Promise<void>
  /** The price of a step's own answer, for the step that settles; null: none. */
  readonly answerPrice: Price | null

  /** The usage that the provider reported, else the count; null until the answer is over, or if nothing was used. */
  readonly usage: MeteredUsage | null
  /** Null until the exchange is over. */
  readonly outcome: Outcome | null
  readonly progress: Progress
  readonly attempts: readonly Attempt[]
  readonly trail: readonly TrailEntry[]
  /** The committed charge, for the log and the metrics. Set by the step that settles. */
  charge: { readonly amount: NanoUsd; readonly overrun: NanoUsd; readonly cost?: Cost } | null
  /** Adds a remark of this step to the trail. */
  note(text: string): void
  /** Maximum number of attempts, over all targets. Set before `next()` by the step that decides on retries. */
  attemptsAtMost: number
  /**
   * Handling of targets that do not support every parameter. `tell`: send the request without them, and name them in a header. `refuse`:
   * skip the target. `refuse_tools`: skip it for tools that the client runs, and drop the rest. Set before `next()` by the step that
   * decides on retries. Default: refuse_tools.
   */
  onDropped: 'tell' | 'refuse_tools' | 'refuse'
  /** Handling of disconnects. Set before `next()` by the step that charges. Default: cancel. */
  onDisconnect: OnDisconnect
  /** The `Idempotency-Key` header, or null. Recorded in the receipt. */
  readonly idempotencyKey: string | null
}

/** An exchange that has the named facts. */
export type ExchangeWith<F extends FactName> = Exchange & Pick<Facts, F>

/** A request in the canonical format. */
export interface CanonicalRequest {
  readonly body: unknown
  readonly bytes: Buffer
  /** Names of parameters that could not be translated. */
  readonly dropped?: readonly string[]
  /** Whether the client hides reasoning. */
  readonly hidesReasoning?: boolean
}
