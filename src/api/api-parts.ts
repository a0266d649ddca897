/** The parts of the gateway that the account API needs. */
import type { Clock, Log, Model, NanoUsd } from '#contract'
import type { BudgetRules } from '../budgets/left.ts'
import type { Store } from '../store/store.ts'
import type { DeclaredPlans } from './declared-plans.ts'
import type { ConfigurationView, ExchangeView, PastExchangeView, ProviderView, ShadowView } from './views.ts'

export interface Registration {
  /** `open`: anyone may register. `closed`: only invitations to existing accounts work. */
  readonly mode: 'open' | 'invitation' | 'closed'
  /** The credit of an account that a person registers. */
  readonly credit: NanoUsd
  readonly plan: string
}

/** The last exchanges, in the memory of a running gateway. */
export interface RecentTrails {
  /** An exchange without its receipt; undefined: it is not one of the last. */
  exchange(id: string): Promise<PastExchangeView | undefined>
  /** Verdicts of steps in shadow mode. */
  shadow(): ShadowView
  /** The maximum number of exchanges in memory. */
  readonly most: number
}

export interface ApiParts {
  readonly store: Store
  readonly clock: Clock
  readonly log: Log
  readonly version: string
  readonly startedAt: number
  readonly registration: Registration
  /**
   * The origins of the page, as in the header `Origin`: `https://gate.example.com`. Links use the first one. On loopback without a
   * `dashboard_url`, the others are its other names.
   */
  origins(): readonly string[]
  /** The base URL of clients, up to /v1. */
  baseUrl(): string
  /** The budgets of plans and policies. */
  budgetRules(): BudgetRules
  models(): readonly Model[]
  plans(): DeclaredPlans
  /** The other names of a model. */
  aliases(id: string): readonly string[]
  readiness(): { readonly ready: boolean; readonly reason?: string }
  /** Exchanges in progress, the oldest first. */
  exchanges(): Promise<readonly ExchangeView[]>
  /** The numbers of exchanges in progress and of open holds. */
  counts(): Promise<{ readonly inflight: number; readonly openHolds: number }>
  readonly past: RecentTrails
  providers(): Promise<readonly ProviderView[]>
  /** Reads the configuration files again, and reports changes and problems. */
  configuration(): Promise<ConfigurationView>
  /** The chat route for the playground; null: no chat route accepts a key. */
  playground(): PlaygroundRoute | null
}

/** A chat route of the gateway's own listener. */
export interface PlaygroundRoute {
  readonly host: string
  readonly port: number
  readonly path: string
  /** The value of the `Host` header. */
  readonly hostHeader: string
}
