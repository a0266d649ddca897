/** One request and its answer, as the steps of a policy see it: `ctx.exchange`. */

import type { Account, Key } from './account.ts'
import type { Chat, ChatChanges, ChatCompletion, Chunk } from './chat.ts'
import type { ErrorCode } from './errors.ts'
import type { Model, Target } from './model.ts'
import type { NanoUsd } from './quantities.ts'
import type { Cost, Price, Usage } from './units.ts'

/** Facts: what earlier steps found out. Each is given by exactly one step of a policy. */
export interface Facts {
  /** The key that was presented; by `api-key`. */
  readonly key: Key
  /** Whose it is; by `api-key`. */
  readonly account: Account
  /** The validated chat request; by `schema`. */
  readonly chat: Chat
  /** The catalog's model, alias resolved and allowed for the key; by `schema`. */
  readonly model: Model
  /** Where to send it, best first; by `route`. */
  readonly targets: readonly Target[]
  /** What is set aside for it, in nano-dollars, 0 where it is free; by `credits`. Who needs it stands behind the money. */
  readonly hold: NanoUsd
  /** The claims of the verified token; by `jwt`. */
  readonly claims: Readonly<Record<string, unknown>>
  /** Names and values for limits, budgets and reports; by `tags`. */
  readonly tags: Readonly<Record<string, string>>
}

/** The name of a fact, as plugins write it in `needs` and `gives`. */
export type FactName = keyof Facts
/** All of them, for checks at run time. */
export const FACT_NAMES: readonly FactName[] = ['key', 'account', 'chat', 'model', 'targets', 'hold', 'claims', 'tags']

/**
 * How an exchange ended. Set by the pump and at the refusal; never guessed from what surfaces. `refused` is a no before
 * which the client has seen nothing of an answer, so it costs nothing; a no in the middle or behind a stream is `failed`: what
 * has been delivered is charged.
 */
export type Outcome = 'answered' | 'refused' | 'failed' | 'client_left' | 'cut'

/** The usage of an exchange, with its source. */
export interface MeteredUsage extends Usage {
  /** `reported` by the provider, `estimated` from what was received, or `cached` (no provider was asked). */
  readonly source: 'reported' | 'estimated' | 'cached'
}

/** What has come from upstream so far: counters, not text. */
export interface Progress {
  /** Whether the provider has begun to answer (its first event or byte of content). */
  readonly started: boolean
  /** Whether a finish reason was received. */
  readonly finished: boolean
  /**
   * Whether something of a streamed answer has gone to the client: a text, thinking, a refusal, a tool call, sound. A head, a
   * role or a comment is nothing yet, and so is what a step holds back.
   */
  readonly delivered: boolean
  /** Whether the client has gone before the end: what it did not wait for is its own. */
  readonly left: boolean
  /**
   * Whether the gateway gave the request up because its client had left: after it was sent, before a finish reason, and with
   * no error from the provider. The provider may bill it, so the prompt at least was used.
   */
  readonly abandoned: boolean
  /** Output tokens counted over all choices: the larger of content deltas and a quarter of their UTF-8 bytes. */
  readonly countedTokens: number
  /** What the exchange would have used if it ended now without the provider's own figures; `source` is `estimated`. */
  readonly estimate: MeteredUsage
}

/** One try at one target. */
export interface Attempt {
  readonly target: string
  readonly status: number | null
  readonly code: ErrorCode | null
  /** Milliseconds from dispatch to the response head, or to the failure. */
  readonly ms: number
}

/** Why a step has its verdict, where the verdict does not say it. */
export const TRAIL_WHYS = [
  /** Refused or failed: in its `watch` or `edit`, while the answer was on its way. */
  'in_answer',
  /** Failed: its `when` threw. */
  'when_threw',
  /** Failed: it threw, and the exchange went on without it (`onError: skip`). */
  'skipped_on_error',
  /** Failed: it returned while its `next()` was pending. */
  'not_awaited',
  /** Failed: it returned without `next()`, an answer or a refusal. */
  'no_decision',
  /** Failed: it threw an error of its own after a later step had failed. That step's error ended the exchange. */
  'threw_after_error',
  /** Passed: it caught the error of a later step and kept it. The error ended the exchange. */
  'kept_error',
] as const
/** One of them. */
export type TrailWhy = (typeof TRAIL_WHYS)[number]

/** What a step in shadow would have done. */
export interface TrailDeed {
  readonly deed: 'answer' | 'edit' | 'rewrite' | 'set_header'
  /** The name of the header that it would have set. */
  readonly header?: string
}

/** One line of the trail: what a step did. Plain JSON: receipts keep it. */
export interface TrailEntry {
  readonly step: string
  /** The name of the step's plugin, where its id is another. */
  readonly plugin?: string
  readonly verdict: 'passed' | 'answered' | 'refused' | 'failed' | 'skipped' | 'off' | 'would_refuse' | 'late'
  readonly code?: ErrorCode
  readonly why?: TrailWhy
  readonly would?: readonly TrailDeed[]
  /** The id of the model that was asked before the step asked another one, by `exchange.askInstead(model)`. */
  readonly asked?: string
  /** What the step itself said by `exchange.note(text)`: words for people, which no code reads. */
  readonly note?: string
}

/** What happens to the upstream request when the client leaves: abort it, or read on for the usage. */
export type OnDisconnect = 'cancel' | 'drain'

/** What a route is for: it decides what stands behind the last step, and which facts can exist. */
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

/** Whether a model is asked on such a route, in whatever format its clients speak: then there are `chat`, `model`, `targets`. */
export function asksModel(kind: RouteKind): boolean {
  return kind === 'chat' || kind === 'messages' || kind === 'responses'
}

/** The part of a route that steps may look at. */
export interface RouteView {
  readonly path: string
  readonly kind: RouteKind
  /**
   * The route only counts the tokens of what it is asked (`/v1/messages/count_tokens`, `/v1/responses/input_tokens`): no model
   * answers, so nothing is held, charged or kept. `kind` is the format. Left out: false.
   */
  readonly counts?: boolean
  readonly policy: string
  /** Raw routes: what a request costs; null when free or not raw. */
  readonly price: Price | null
  /** Raw routes: the most that one request costs, where the configuration says it; so much is held. */
  readonly hold?: NanoUsd | null
}

/** What an edit makes of a chunk: one, several, or null for none. */
export type Edited = Chunk | readonly Chunk[] | null

/** One request and its answer: `ctx.exchange`. */
export interface Exchange {
  /** `req_…`: time-ordered, unguessable; the `x-request-id` of the answer and the id of its receipt. */
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly startedAt: number
  readonly route: RouteView
  /** The client's address; behind `trust_proxy` hops the forwarded one. */
  readonly address: string
  /** The body as it arrived (empty without one). */
  readonly bytes: Buffer
  /** Raw routes: the provider's model that the body names, when the route lists it under `models`. */
  readonly rawModel?: string | null
  /**
   * The body as JSON, scanned for depth, width and duplicate keys before it was parsed. Throws the refusal
   * (`invalid_json`, `request_too_complex`) for a bad one.
   */
  json(): unknown
  /**
   * What is asked of a model, in the canonical format: the body itself on a chat route, its translation on a route of
   * another format (`messages`, `responses`). Throws the refusal for a bad one, in the client's own terms.
   */
  request(): AskedRequest
  /** Aborts when the client leaves, a deadline passes or shutdown cuts. Not for store calls after `next()`. */
  readonly signal: AbortSignal

  readonly key?: Key | undefined
  readonly account?: Account | undefined
  readonly chat?: Chat | undefined
  readonly model?: Model | undefined
  readonly targets?: readonly Target[] | undefined
  readonly hold?: NanoUsd | undefined
  readonly claims?: Facts['claims'] | undefined
  readonly tags?: Facts['tags'] | undefined
  /** Sets a fact that this plugin declares in `gives`; anything else throws. */
  give<F extends FactName>(name: F, value: Facts[F]): void

  /**
   * Changes what is asked of the model: these fields take the place of the request's own, in `chat.body` and `chat.bytes`
   * together. Before `next()` only, behind the step that gives `chat`, and before credit is held: the hold is for the
   * request that goes up. A step that rewrites says `before: ['hold']`.
   *
   * Errors name places of the client's own request. So keep the objects of a list that stay, and the length of a list whose
   * objects you replace.
   * @param own messages that the step has added: errors about them name no place
   */
  rewrite(changes: ChatChanges, own?: readonly object[]): void
  /**
   * Asks another model in place of the one that was asked for. Before `next()` only, and before `targets` and `hold` are given.
   * Throws the refusal when that model cannot answer the request.
   */
  askInstead(model: Model): void
  /** Reads every chunk of the answer (a whole answer comes as one chunk a choice, with its finish). Before `next()` only. */
  watch(fn: (chunk: Chunk) => void): void
  /**
   * Changes chunks: return the chunk, several, or null to drop it. Before `next()` only. An edit costs a re-encode of
   * every chunk; to only look, `watch`. An edit may return a promise, as for work in slices: the answer waits for it, and
   * the next chunk comes only after it.
   */
  edit(fn: (chunk: Chunk) => Edited | Promise<Edited>): void
  /**
   * Answers without a provider (a cache, a mock). Instead of `next()`; resolves when the answer is over. It passes the
   * edits of the outer steps and is sent whole or as a stream, as the client asked.
   * @param price what its `usage` is charged by, within the hold; left out: nothing
   */
  answer(completion: ChatCompletion, price?: Price): Promise<void>
  /** The price that came with an answer of a step's own; null: there was none. For the step that settles. */
  readonly answerPrice: Price | null

  /** What the provider reported, else what was counted; null until the answer is over, or when nothing was used. */
  readonly usage: MeteredUsage | null
  /** Null until the exchange is over. */
  readonly outcome: Outcome | null
  readonly progress: Progress
  readonly attempts: readonly Attempt[]
  readonly trail: readonly TrailEntry[]
  /** What was charged, once it is committed: for the log and the metrics. Set by the step that settles. */
  charge: { readonly amount: NanoUsd; readonly overrun: NanoUsd; readonly cost?: Cost } | null
  /** A remark of this step for the trail. */
  note(text: string): void
  /** Set before `next()` by the step that decides on retries: how many attempts there may be, all targets together. */
  attemptsAtMost: number
  /**
   * Set before `next()` by the same step: whether a target that cannot carry every parameter is asked without them, which a
   * header tells, or passed over (`refuse`). `refuse_tools` does the latter for tools that the client runs and the former for the
   * rest. Default: refuse_tools.
   */
  onDropped: 'tell' | 'refuse_tools' | 'refuse'
  /** Set before `next()` by the step that knows what an abandoned answer is worth. Default: cancel. */
  onDisconnect: OnDisconnect
  /** The `Idempotency-Key` header, or null. Recorded in the receipt. */
  readonly idempotencyKey: string | null
}

/** An exchange in which the named facts are known to be there. */
export type ExchangeWith<F extends FactName> = Exchange & Pick<Facts, F>

/** A request in the canonical format. */
export interface AskedRequest {
  readonly body: unknown
  readonly bytes: Buffer
  /** Names of parameters that could not be translated. */
  readonly dropped?: readonly string[]
  /** Whether the client does not see thoughts. */
  readonly hidesThoughts?: boolean
}
