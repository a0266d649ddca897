/** Plans: the models, limits and share of work of their accounts. */
import type { Account } from './account.ts'
import type { Budget, BudgetPer } from './budget.ts'
import { type Rate, unit } from './quantities.ts'

/** A limit of a plan; the step `rate-limit` with `limits: plan` enforces it. */
export interface PlanLimit {
  readonly per: BudgetPer
  readonly requests?: Rate
  /** Requests that may arrive at once; left out: one window of `requests`. */
  readonly burst?: number
  readonly tokens?: Rate
}

/** The rates of a limit in YAML, for the settings schema. */
export const LIMIT_SETTINGS = {
  requests: { ...unit('rate'), description: 'Requests per time: "60 per minute".' },
  burst: {
    type: 'integer',
    minimum: 1,
    description: 'Requests that may arrive at once. Default: one window of `requests`.',
  },
  tokens: { ...unit('rate'), description: 'Tokens of prompts and answers per time: "200k per minute".' },
} as const

/** A plan of gateway.yaml. */
export interface Plan {
  readonly name: string
  /** Ids of models, or patterns; null: all public ones. */
  readonly models: readonly string[] | null
  readonly limits: readonly PlanLimit[]
  /** Budgets that count the requests of its accounts. */
  readonly budgets: readonly Budget[]
  /** The relative share of an account in the gateway's work during overload. */
  readonly weight: number
}

/** The service `plans`: the plans of the configuration in which the step was created. */
export interface Plans {
  /** Undefined: gateway.yaml declares no such plan. */
  find(name: string): Plan | undefined
  /**
   * The plan of an account. Undefined if gateway.yaml declares no plans. Throws the refusal `plan_not_declared` if it declares others.
   */
  of(account: Pick<Account, 'plan'>): Plan | undefined
}
