/**
 * What the account API answers, as TypeScript: the page imports these types, and a test holds every answer of the real
 * server against the JSON Schemas (schemas.ts) that describe the same.
 *
 * Money is a string in dollars with 9 decimals, times are ISO 8601 in UTC, lists are `{ items, next }`.
 */
import type { TrailEntry } from '#contract'

export interface PageView<Item> {
  readonly items: readonly Item[]
  readonly next: string | null
}

/** `GET /api/about`: what everybody may know. */
export interface AboutView {
  readonly version: string
  readonly registration: 'open' | 'invitation' | 'closed'
  /** What `registration: open` gives: "0.000000000" for nothing. */
  readonly starting_credit: string
  /** Where clients reach the gateway, up to /v1. */
  readonly base_url: string
  /** False on plain http, which only loopback may be: the session cookie is not marked Secure. */
  readonly secure: boolean
  /** Whether the request came with a session that lives: then `GET /api/session` tells whose. */
  readonly signed_in: boolean
}

export interface PersonView {
  readonly id: string
  readonly email: string
  readonly role: 'member' | 'operator'
  readonly account_id: string
  /** The name of the account. */
  readonly account: string
  readonly created_at: string
}

export interface AccountView {
  readonly id: string
  readonly name: string
  readonly plan: string
  readonly frozen: boolean
  readonly created_at: string
  /** Credit minus charges. */
  readonly posted: string
  /** Set aside for requests in progress. */
  readonly held: string
  /** posted - held */
  readonly available: string
}

/** `GET /api/session`, and the answer to signing in, registering, joining. */
export interface SessionView {
  readonly person: PersonView
  readonly account: AccountView
  /** When it ends at the latest; half an hour without a request ends it sooner. */
  readonly expires_at: string
}

/** `POST /api/link`: what a link is for, before it is used. */
export interface LinkPurposeView {
  readonly kind: 'invitation' | 'reset'
  /** The only address that may use it; null: any. */
  readonly email: string | null
  /** The name of the account that it lets join; null: one is made. */
  readonly account: string | null
  readonly role: 'member' | 'operator'
  /** What the account that is made begins with, in dollars. */
  readonly credit: string
}

export interface KeyView {
  readonly id: string
  readonly account_id: string
  readonly name: string
  /** Null: every public model. */
  readonly models: readonly string[] | null
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly last_used_at: string | null
  /** What the key may spend in its life; null: whatever the account has. */
  readonly spending_cap: string | null
  readonly spent: string
  /** `playground`: made by the dashboard for its playground. */
  readonly purpose: 'playground' | null
  readonly state: 'live' | 'expired' | 'revoked'
  /** Live secrets, the newest first; an older one has the end of its grace. */
  readonly secrets: readonly { readonly last4: string; readonly expires_at: string | null }[]
}

/** The only answer that has a secret; never cached. */
export interface IssuedKeyView {
  readonly key: KeyView
  readonly token: string
}

export interface EntryView {
  readonly id: string
  readonly kind: 'credit' | 'charge'
  readonly at: string
  /** Negative for charges. */
  readonly amount: string
  /** The account's balance after it; null when more was written since than is summed up. */
  readonly balance: string | null
  readonly actor: string | null
  readonly note: string | null
  readonly reference: string | null
  readonly key_id: string | null
  readonly model: string | null
  readonly outcome: OutcomeName | null
}

export type OutcomeName = 'answered' | 'refused' | 'failed' | 'client_left' | 'cut'

export interface PriceView {
  readonly unit: '1M tokens'
  readonly input: string
  readonly cached_input: string
  readonly cache_write: string
  readonly output: string
  readonly request: string
  readonly web_search: string
}

export interface ReceiptView {
  readonly id: string
  readonly key_id: string
  readonly model: string
  readonly created_at: string
  /** Null while the request is in progress. */
  readonly settled_at: string | null
  readonly outcome: OutcomeName | null
  /** The error that the client was told. */
  readonly code: string | null
  readonly held: string
  readonly charged: string | null
  readonly source: string | null
  readonly price: PriceView
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly cache_write_tokens: number
  readonly completion_tokens: number
  readonly reasoning_tokens: number
  readonly searches: number
  readonly attempts: readonly {
    readonly target: string
    readonly status: number | null
    readonly code: string | null
    readonly ms: number
  }[]
  readonly trail: readonly TrailEntry[]
  readonly idempotency_key: string | null
}

/** One span of time, key and model; without `by`, the fields that were summed over are null. */
export interface UsageRowView {
  readonly at: string
  readonly key_id: string | null
  readonly model: string | null
  readonly requests: number
  readonly failed: number
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly completion_tokens: number
  readonly reasoning_tokens: number
  readonly charged: string
}

/** `GET /api/usage`: rows only where something was used, by time. */
export interface UsageView {
  readonly step: 'hour' | 'day'
  readonly from: string
  readonly to: string
  readonly rows: readonly UsageRowView[]
  readonly total: Omit<UsageRowView, 'at' | 'key_id' | 'model'>
}

export interface ModelView {
  readonly id: string
  readonly description: string | null
  readonly aliases: readonly string[]
  readonly owned_by: string
  readonly context: number
  readonly max_output: number
  readonly reasoning: boolean
  /** Null: free. */
  readonly price: PriceView | null
}

/** Operators. */
export interface LinkView {
  readonly id: string
  readonly kind: 'invitation' | 'reset'
  readonly role: 'member' | 'operator'
  /** Of the account that it lets join; null: none, or one that is made. */
  readonly account_id: string | null
  /** Its name. */
  readonly account: string | null
  readonly email: string | null
  readonly plan: string | null
  readonly credit: string
  readonly created_at: string
  readonly expires_at: string
  readonly created_by: string
}

/** The address is shown this once; its secret stands behind `#`, which browsers do not send to servers. */
export interface IssuedLinkView {
  readonly link: LinkView
  readonly url: string
}

export interface AccountDetailView {
  readonly account: AccountView
  readonly people: readonly PersonView[]
  readonly keys: readonly KeyView[]
}

export interface CreditView {
  /** False: this reference had been credited before, and nothing has changed. */
  readonly granted: boolean
  readonly reference: string
  readonly account: AccountView
}

export interface PlanView {
  readonly plan: string
  readonly accounts: number
}

/** `GET /api/operator/receipts/{id}` */
export interface FoundReceiptView {
  readonly receipt: ReceiptView
  readonly account: AccountView
}

/** `GET /api/operator/summary` */
export interface SummaryView {
  readonly accounts: number
  readonly posted: string
  readonly held: string
  readonly inflight: number
  readonly open_holds: number
  readonly ready: boolean
  readonly reason: string | null
  readonly started_at: string
  readonly version: string
}

/** An exchange under way. */
export interface ExchangeView {
  readonly id: string
  readonly started_at: string
  readonly route: string
  readonly policy: string
  /** Null until a step has found them out. */
  readonly account_id: string | null
  readonly account: string | null
  readonly key_id: string | null
  readonly model: string | null
  readonly stream: boolean | null
  /** Target of the attempt under way, or the last one. */
  readonly target: string | null
  readonly attempts: number
  /** Tokens that have come so far, counted. */
  readonly tokens: number
  readonly address: string
}

/** `GET /api/operator/exchanges/{id}`: an exchange that is over, whole. */
export interface PastExchangeView {
  readonly id: string
  /** `memory`: one of the last; `receipt`: what its receipt says, the rest is null. */
  readonly kept: 'memory' | 'receipt'
  readonly started_at: string
  readonly ms: number | null
  readonly route: string | null
  readonly policy: string | null
  readonly method: string | null
  readonly account_id: string | null
  readonly account: string | null
  readonly key_id: string | null
  readonly key: string | null
  readonly model: string | null
  readonly stream: boolean | null
  /** Null: the client had left before. */
  readonly status: number | null
  readonly outcome: OutcomeName | null
  readonly code: string | null
  /** The step that refused, failed or answered; `send` or `gateway` where no step did; null: a provider answered. */
  readonly decided_by: string | null
  readonly trail: readonly TrailEntry[]
  readonly attempts: readonly ReceiptView['attempts'][number][]
  /** Its money; null: nothing was held. */
  readonly receipt: ReceiptView | null
}

/** `GET /api/operator/shadow`, since the start of the gateway. */
export interface ShadowView {
  readonly since: string
  readonly steps: readonly ShadowStepView[]
}

/** A step in shadow: what it would have refused. */
export interface ShadowStepView {
  readonly policy: string
  readonly step: string
  /** Whether the configuration that runs has it in shadow. */
  readonly now: boolean
  /** When it ran first; null: not yet. */
  readonly since: string | null
  readonly ran: number
  readonly would_refuse: number
  readonly refusals: readonly {
    /** `answered`: it would have answered by itself. */
    readonly code: string
    readonly count: number
    readonly accounts: TouchedView
    readonly keys: TouchedView
    readonly examples: readonly { readonly id: string; readonly at: string }[]
  }[]
}

/** Who was touched, the ones most often first. */
export interface TouchedView {
  readonly distinct: number
  readonly more: boolean
  readonly top: readonly { readonly id: string; readonly name: string; readonly count: number }[]
}

export interface TargetHealthView {
  readonly target: string
  readonly models: readonly string[]
  readonly state: 'well' | 'limited' | 'ejected' | 'half_open'
  /** Until when it is put behind the others. */
  readonly until: string | null
  readonly inflight: number
  readonly failures_in_a_row: number
  /** Of the last 30 seconds. */
  readonly attempts: number
  readonly failed: number
  /** Milliseconds to the first event of streams; null: not measured lately. */
  readonly latency_ms: number | null
}

export interface ProviderView {
  readonly name: string
  readonly dialect: string
  readonly base_url: string | null
  /** How many credentials it has, and how many of them are good. */
  readonly credentials: { readonly total: number; readonly good: number }
  readonly targets: readonly TargetHealthView[]
}

export interface ProblemView {
  readonly file: string
  readonly line: number
  readonly column: number
  readonly message: string
  readonly suggestion: string | null
}

/** `GET /api/operator/configuration` */
export interface ConfigurationView {
  /** The files as the gateway runs them, secrets taken out. */
  readonly files: readonly { readonly path: string; readonly text: string; readonly changed: boolean }[]
  readonly loaded_at: string
  /** What `tollgate check` would say of the files as they are now. */
  readonly problems: readonly ProblemView[]
  readonly routes: readonly {
    readonly path: string
    readonly kind: string
    readonly policy: string
    readonly steps: readonly {
      readonly id: string
      readonly use: string
      readonly mode: string
      readonly when: string | null
    }[]
  }[]
}

export interface TokenView {
  readonly id: string
  readonly name: string
  readonly last4: string
  readonly created_at: string
  readonly expires_at: string | null
  readonly created_by: string
}

export interface IssuedTokenView {
  readonly token: TokenView
  readonly secret: string
}
