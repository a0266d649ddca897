/** The models that budgets name in `then`: those of a plan, and of steps. */
import { type Budget, fitsPattern } from '#contract'
import { budgetsOfStep } from '../budget-rules.ts'
import { didYouMean } from '../yaml/problem.ts'
import type { Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'
import type { ModelNames } from './when-models.ts'

/** The same for the steps of a policy. */
export function checkThenOfSteps(source: Source, steps: readonly LoadedStep[], names: ModelNames): void {
  for (const step of steps) checkThen(source, `${step.address}/with/budgets`, budgetsOfStep(step), names)
}

/** Reports a model that the catalog lacks. Aliases are names too: the catalog finds a model by either. */
export function checkThen(source: Source, at: string, budgets: readonly Budget[], { ids, aliases }: ModelNames): void {
  // That there are no models at all is reported by itself.
  if (ids.length === 0) return
  for (const [i, { then = 'refuse' }] of budgets.entries()) {
    const here = `${at}/${i}/then`
    if (then === 'refuse' || aliases.has(then) || !source.sound(here)) continue
    // An id with a * is of many models.
    if (ids.some(id => id === then || fitsPattern(id, then))) continue
    source.report(here, `the catalog has no model ${source.show(here, then)}`, {
      rule: 'unknown-model',
      suggestion: didYouMean(then, ['refuse', ...ids]),
    })
  }
}
