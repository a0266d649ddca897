/** The budgets that a configuration has, by the place that each is written in: `plan pro`, `policy standard/credits`. */
import type { Budget } from '#contract'
import type { Configuration, StepConfig } from './configuration.ts'

/** The budgets of a step. */
export function budgetsOfStep({
  plugin,
  builtIn,
  settings,
}: Pick<StepConfig, 'plugin' | 'builtIn' | 'settings'>): readonly Budget[] {
  if (!builtIn || plugin.name !== 'credits') return []
  return (settings as { readonly budgets?: readonly Budget[] } | null)?.budgets ?? []
}

/** The places are those of the names in the ledger. */
export function budgetRules({
  plans,
  routes,
}: Pick<Configuration, 'plans' | 'routes'>): Map<string, readonly Budget[]> {
  const rules = new Map<string, readonly Budget[]>()
  for (const [name, { budgets = [] }] of plans ?? []) rules.set(`plan ${name}`, budgets)
  for (const { steps: policy } of routes) {
    for (const step of policy.steps) rules.set(`policy ${policy.name}/${step.id}`, budgetsOfStep(step))
  }
  return rules
}
