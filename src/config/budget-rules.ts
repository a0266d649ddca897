/** The budgets of a configuration, by the place where each is written: `plan pro`, `policy standard/credits`. */
import type { Budget } from '#contract'
import type { Configuration, StepConfig } from './configuration.ts'

export function budgetsOfStep({
  plugin,
  builtIn,
  settings,
}: Pick<StepConfig, 'plugin' | 'builtIn' | 'settings'>): readonly Budget[] {
  if (!builtIn || plugin.name !== 'credits') return []
  return (settings as { readonly budgets?: readonly Budget[] } | null)?.budgets ?? []
}

/** The ledger uses the same place names. */
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
