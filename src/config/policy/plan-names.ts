/** Checks the plans in a policy's conditions and settings of `jwt`: each must be declared in gateway.yaml. */
import { parseWhen } from '../conditions/when.ts'
import { checkPlanName, planSuggestion } from '../plan-section.ts'
import { entriesOf, pointer, type Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'
import { comparedIn } from './when-models.ts'

export function checkPlans(source: Source, steps: readonly LoadedStep[], declared: readonly string[]): void {
  for (const step of steps) {
    if (step.mode === 'off') continue
    checkCondition(source, step, declared)
    if (step.builtIn && step.plugin.name === 'jwt') checkTokens(source, step, declared)
  }
}

function checkCondition(source: Source, { address, when }: LoadedStep, declared: readonly string[]): void {
  const at = `${address}/when`
  const root = when === null || !source.sound(at) ? null : parseWhen(when)
  if (root === null) return
  for (const { text, offset } of comparedIn(root, ['account.plan'])) {
    if (declared.includes(text)) continue
    const shown = source.substituted(at) ? 'in this condition' : JSON.stringify(text)
    source.report(at, `the plan ${shown} is not declared under plans in gateway.yaml`, {
      rule: 'unknown-plan',
      offset,
      suggestion: planSuggestion(text, declared),
    })
  }
}

function checkTokens(source: Source, { address, settings }: LoadedStep, declared: readonly string[]): void {
  const { plan, plans } = Object(settings) as { plan?: unknown; plans?: Readonly<Record<string, unknown>> }
  const at = `${address}/with`
  checkPlanName(source, `${at}/plan`, plan, declared)
  for (const [value, name] of entriesOf(plans)) checkPlanName(source, at + pointer('plans', value), name, declared)
}
