/** What the account API needs of the gateway around it; `main.ts` introduces them. */
import type { Clock, Log, Model, NanoUsd } from '#contract'
import type { BudgetRules } from '../budgets/left.ts'
import type { Store } from '../store/store.ts'
import type { DeclaredPlans } from './declared-plans.ts'
import type { ConfigurationView, ExchangeView, PastExchangeView, ProviderView, ShadowView } from './views.ts'

export interface Registration {
  /** Who may make an account: anybody, those with an invitation, nobody (invitations to accounts that exist still work). */
  readonly mode: 'open' | 'invitation' | 'closed'
  /** What an account begins with that somebody made by themselves. */
  readonly credit: NanoUsd
  readonly plan: string
}

/** What a running gateway knows beyond its store of exchanges that are over. */
export interface RecentTrails {
  /** One of the last, without its receipt; undefined when it is not remembered. */
  exchange(id: string): Promise<PastExchangeView | undefined>
  /** What steps in shadow would have done. */
  shadow(): ShadowView
  /** How many exchanges are remembered at most. */
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
   * Where people reach the page, as their browser says it in `Origin`: `https://gate.example.com`. The first one is for
   * links; on loopback without a `dashboard_url` the others are its other names.
   */
  origins(): readonly string[]
  /** Where clients reach the gateway, up to /v1. */
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
  /** How many exchanges are in progress, and how many holds are open. */
  counts(): Promise<{ readonly inflight: number; readonly openHolds: number }>
  readonly past: RecentTrails
  providers(): Promise<readonly ProviderView[]>
  /** Reads the files again, to say what has changed and what is wrong with them. */
  configuration(): Promise<ConfigurationView>
  /** How the playground reaches the clients' door; null when no chat route takes a key. */
  playground(): PlaygroundRoute | null
}

/** A chat route of the gateway's own listener. */
export interface PlaygroundRoute {
  readonly host: string
  readonly port: number
  readonly path: string
  /** What the `Host` header has to say. */
  readonly hostHeader: string
}
