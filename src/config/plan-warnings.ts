/** Warnings about declared plans: accounts with undeclared plans, and limits and budgets that no policy enforces. */
import { asksModel, type Plan, tagOf } from '#contract'
import type { Configuration } from './configuration.ts'
import type { LoadedPolicy, LoadedStep } from './policy/loaded-policy.ts'
import { canHaveTag } from './policy/tag-names.ts'
import type { PlannedRoute } from './routes.ts'
import { listed } from './yaml/problem.ts'
import { pointer, type Source } from './yaml/source.ts'

interface PlanUse {
  readonly declared: Configuration['plans']
  /** The plans of the store's accounts; null: unknown. */
  readonly used: readonly string[] | null
  readonly routes: readonly PlannedRoute[]
  readonly policies: readonly LoadedPolicy[]
}

/** Adds the warnings to the source of gateway.yaml. */
export function warnAboutPlans(source: Source, { declared, used, routes, policies }: PlanUse): void {
  if (declared === null) return
  const missing = (used ?? []).filter(name => !declared.has(name))
  if (missing.length > 0) {
    const shown = listed(
      missing.map(name => JSON.stringify(name)),
      'and',
    )
    source.warn('/plans', `accounts have the plan ${shown}, which is not declared: their requests are refused`, {
      rule: 'unknown-plan',
      key: true,
      suggestion: 'declare it here, or give them another plan with tollgate account plan',
    })
  }
  const asking = new Set(
    routes.filter(({ kind, counts }) => (asksModel(kind) && !counts) || kind === 'raw').map(({ policy }) => policy),
  )
  for (const plan of declared.values())
    warnOfPlan(
      source,
      plan,
      policies.filter(({ name }) => asking.has(name)),
    )
}

/** Some policy must enforce each kind of limit; for a limit or budget per tag, a policy where requests have that tag. */
function warnOfPlan(source: Source, { name, limits, budgets }: Plan, policies: readonly LoadedPolicy[]): void {
  for (const [i, limit] of limits.entries()) {
    const at = `${pointer('plans', name)}/limits/${i}`
    const wanted = (['requests', 'tokens'] as const).filter(kind => limit[kind] !== undefined)
    const lacking = wanted.filter(kind => !policies.some(({ steps }) => steps.some(step => enforces(step, kind))))
    if (lacking.length > 0) {
      source.warn(at, `no policy enforces this limit of ${listed(lacking, 'and')}`, {
        rule: 'no-effect',
        suggestion: 'add "- use: rate-limit" with "limits: plan" to the policies of its routes',
      })
    } else if (lacksTag(policies, limit.per, step => enforces(step, 'requests') || enforces(step, 'tokens'))) {
      const message =
        'no policy that enforces this limit sets its tag first: all requests of an account share the limit'
      source.warn(at, message, {
        rule: 'no-effect',
        suggestion: 'declare the tag in a step "tags" before "rate-limit"',
      })
    }
  }
  for (const [i, { per }] of budgets.entries()) {
    if (!lacksTag(policies, per, charges)) continue
    const at = `${pointer('plans', name)}/budgets/${i}`
    const message = 'no policy that charges sets the tag of this budget: all requests of an account share the budget'
    source.warn(at, message, { rule: 'no-effect', suggestion: 'declare the tag in a step "tags" before "credits"' })
  }
}

/** Whether the tag is missing before every step that counts by it. */
function lacksTag(policies: readonly LoadedPolicy[], per: string, counts: (step: LoadedStep) => boolean): boolean {
  const tag = tagOf(per)
  if (tag === null) return false
  return !policies.some(({ steps }) => steps.some((step, i) => counts(step) && canHaveTag(steps.slice(0, i), tag)))
}

function charges({ plugin, builtIn, mode }: LoadedStep): boolean {
  return builtIn && plugin.name === 'credits' && mode !== 'off'
}

function enforces({ plugin, builtIn, settings, mode }: LoadedStep, kind: 'requests' | 'tokens'): boolean {
  if (!builtIn || plugin.name !== 'rate-limit' || mode !== 'enforce') return false
  const { limits, only = kind } = settings as { readonly limits?: string; readonly only?: string }
  return limits === 'plan' && only === kind
}
