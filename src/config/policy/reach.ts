/** Reports steps that can never run, and conditions without effect: an author would not notice them by reading the policy. */

import { type RoutePath, truthOf } from '../conditions/truth.ts'
import { listed } from '../yaml/problem.ts'
import type { Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'

/** @param routePaths the routes to this policy; null if unknown */
export function checkReach(
  source: Source,
  steps: readonly LoadedStep[],
  routePaths: readonly RoutePath[] | null,
): void {
  for (const [i, step] of steps.entries()) {
    if (step.mode === 'off') continue
    checkBehind(source, step, steps.slice(0, i))
    if (step.when !== null && source.sound(`${step.address}/when`)) checkCondition(source, step, step.when, routePaths)
  }
}

function checkBehind(source: Source, step: LoadedStep, earlier: readonly LoadedStep[]): void {
  const end = earlier.find(each => each.ends && each.weakness === null)
  if (end === undefined) return
  const message = `"${step.id}" never runs: the step "${end.id}" (line ${end.position.line}) answers or refuses every request before it`
  const suggestion = `move it before "${end.id}", or remove it`
  source.report(`${step.address}/use`, message, { rule: 'unreachable-step', suggestion })
}

function checkCondition(
  source: Source,
  { address, id }: LoadedStep,
  when: string,
  routePaths: readonly RoutePath[] | null,
) {
  const at = `${address}/when`
  const always = truthOf(when, null)
  if (always === true) {
    source.report(at, 'the condition is always true', { rule: 'constant-when', suggestion: 'remove this line' })
  } else if (always === false) {
    source.report(at, `the condition is never true, so "${id}" never runs`, {
      rule: 'unreachable-step',
      suggestion: 'remove the step, or write "mode: off"',
    })
  } else if (
    routePaths !== null &&
    routePaths.length > 0 &&
    routePaths.every(routePath => truthOf(when, routePath) === false)
  ) {
    const where = listed([...new Set(routePaths.map(({ method, path }) => `${method} ${path}`))], 'and')
    source.report(at, `the condition is never true on ${where}, where this policy is used, so "${id}" never runs`, {
      rule: 'unreachable-step',
      suggestion: 'change the condition, or remove the step',
    })
  }
}
