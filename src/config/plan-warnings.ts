/** Warnings about declared plans: accounts whose plan is not there, and limits that nothing enforces. */
import { asksModel, type Plan } from '#contract'
import type { Configuration } from './configuration.ts'
import type { LoadedPolicy, LoadedStep } from './policy/loaded-policy.ts'
import { surelyGiven } from './policy/order.ts'
import type { PlannedRoute } from './routes.ts'
import { listed } from './yaml/problem.ts'
import { pointer, type Source } from './yaml/source.ts'

interface Declared {
  readonly declared: Configuration['plans']
  /** The plans that accounts of the store have; null: not known. */
  readonly used: readonly string[] | null
  readonly routes: readonly PlannedRoute[]
  readonly policies: readonly LoadedPolicy[]
}

/** Leaves the warnings at gateway.yaml, and at the policies that enforce limits. */
export function warnOfDeclared(source: Source, { declared, used, routes, policies }: Declared): void {
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

/** Each kind of limit has to be enforced somewhere; one per tag only where the request has tags. */
function warnOfPlan(source: Source, { name, limits }: Plan, policies: readonly LoadedPolicy[]): void {
  for (const [i, limit] of limits.entries()) {
    const at = `${pointer('plans', name)}/limits/${i}`
    const wanted = (['requests', 'tokens'] as const).filter(kind => limit[kind] !== undefined)
    const lacking = wanted.filter(kind => !policies.some(({ steps }) => steps.some(step => enforces(step, kind))))
    if (lacking.length > 0) {
      source.warn(at, `no policy enforces this limit of ${listed(lacking, 'and')}`, {
        rule: 'no-effect',
        suggestion: 'add "- use: rate-limit" with "limits: plan" to the policies of the routes that it is for',
      })
    } else if (limit.per.startsWith('tag ') && !policies.some(({ steps }) => isTagged(steps))) {
      source.warn(at, 'no policy that enforces this limit gives tags before it, so it is for no request', {
        rule: 'no-effect',
        suggestion: 'add a step that gives tags before "rate-limit"',
      })
    }
  }
}

function enforces({ plugin, builtIn, settings, mode }: LoadedStep, kind: 'requests' | 'tokens'): boolean {
  if (!builtIn || plugin.name !== 'rate-limit' || mode !== 'enforce') return false
  const { limits, only = kind } = settings as { readonly limits?: string; readonly only?: string }
  return limits === 'plan' && only === kind
}

function isTagged(steps: readonly LoadedStep[]): boolean {
  return steps.some(
    (step, i) => (enforces(step, 'requests') || enforces(step, 'tokens')) && surelyGiven(steps.slice(0, i)).has('tags'),
  )
}
