/** The plans of gateway.yaml: which of them an account may have, and the models of each. */
import { type Model, mayUse, type Plan, refuse } from '#contract'
import { nearest } from '../common/nearest.ts'
import type { Store } from '../store/store.ts'

/** By name; null: gateway.yaml declares none, and any name is a plan. */
export type DeclaredPlans = ReadonlyMap<string, Plan> | null

/** The names of plans. */
export interface PlanNames {
  has(name: string): boolean
  keys(): Iterable<string>
}

/** The reason why an account cannot have this plan, as the rest of a sentence; null: it can. */
export function whyNotPlan(plans: PlanNames | null, name: string | undefined): string | null {
  if (plans === null || name === undefined || plans.has(name)) return null
  const names = [...plans.keys()]
  const near = nearest(name, names)
  const help = near === undefined ? `there are ${names.join(', ')}` : `did you mean ${JSON.stringify(near)}?`
  return `${JSON.stringify(name)} is not declared under plans in gateway.yaml; ${help}`
}

/** Throws a refusal for a plan that is not declared. */
export function checkPlan(plans: PlanNames | null, name: string | undefined): void {
  const why = whyNotPlan(plans, name)
  if (why !== null) throw refuse('invalid_value', { param: 'plan', message: `Invalid value for 'plan': ${why}` })
}

interface Parts {
  readonly store: Store
  models(): readonly Model[]
  plans(): DeclaredPlans
}

/**
 * The models that an account may use with a key without a list of models. None if gateway.yaml declares plans, but not the
 * account's.
 */
export async function modelsOfAccount({ store, models, plans }: Parts, accountId: string): Promise<readonly Model[]> {
  const declared = plans()
  if (declared === null) return models().filter(model => mayUse(model, undefined))
  const account = await store.findAccount(accountId)
  const plan = declared.get(account?.plan ?? '')
  return plan === undefined ? [] : models().filter(model => mayUse(model, undefined, plan))
}
