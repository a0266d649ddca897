/** Checks the models in `then` of budgets, of plans and of steps. */
import { type Budget, fitsPattern } from '#contract'
import { budgetsOfStep } from '../budget-rules.ts'
import { didYouMean } from '../yaml/problem.ts'
import type { Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'
import type { ModelNames } from './when-models.ts'

/** Checks the budgets of a policy's steps. */
export function checkThenOfSteps(source: Source, steps: readonly LoadedStep[], names: ModelNames): void {
  for (const step of steps) checkThen(source, `${step.address}/with/budgets`, budgetsOfStep(step), names)
}

/** Reports models that are not in the catalog. Aliases are allowed. */
export function checkThen(source: Source, at: string, budgets: readonly Budget[], { ids, aliases }: ModelNames): void {
  // Missing models are reported elsewhere.
  if (ids.length === 0) return
  for (const [i, { then = 'refuse' }] of budgets.entries()) {
    const here = `${at}/${i}/then`
    if (then === 'refuse' || aliases.has(then) || !source.sound(here)) continue
    // An id with a * covers several models.
    if (ids.some(id => id === then || fitsPattern(id, then))) continue
    source.report(here, `the catalog has no model ${source.show(here, then)}`, {
      rule: 'unknown-model',
      suggestion: didYouMean(then, ['refuse', ...ids]),
    })
  }
}
