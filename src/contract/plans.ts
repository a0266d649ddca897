/** Plans: what the accounts of each may use, how fast, and their share of the gateway's work. */
import type { Account } from './account.ts'
import type { Budget, BudgetPer } from './budget.ts'
import { type Rate, unit } from './quantities.ts'

/** A limit of a plan; the step `rate-limit` with `limits: plan` enforces it. */
export interface PlanLimit {
  readonly per: BudgetPer
  readonly requests?: Rate
  /** How many requests may come at once; left out: one window of `requests`. */
  readonly burst?: number
  readonly tokens?: Rate
}

/** The rates of a limit in YAML, for the schema of settings. */
export const LIMIT_SETTINGS = {
  requests: { ...unit('rate'), description: 'Requests per time: "60 per minute".' },
  burst: {
    type: 'integer',
    minimum: 1,
    description: 'How many requests may come at once. Default: one window of `requests`.',
  },
  tokens: { ...unit('rate'), description: 'Tokens of prompts and answers per time: "200k per minute".' },
} as const

/** A plan of gateway.yaml. */
export interface Plan {
  readonly name: string
  /** Ids of models, or patterns; null: all public ones. */
  readonly models: readonly string[] | null
  readonly limits: readonly PlanLimit[]
  /** In which requests of its accounts count. */
  readonly budgets: readonly Budget[]
  /** The share of an account in the gateway's work while there is more work than time, relative to others. */
  readonly weight: number
}

/** The service `plans`: the plans of the configuration in which the step was built. */
export interface Plans {
  /** Undefined: gateway.yaml declares no plan of this name. */
  find(name: string): Plan | undefined
  /**
   * The plan of an account. Undefined where gateway.yaml declares no plans at all; throws the refusal `plan_not_declared`
   * where it declares others.
   */
  of(account: Pick<Account, 'plan'>): Plan | undefined
}
