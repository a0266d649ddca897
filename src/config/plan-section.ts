/** `plans`: the models, limits, budgets and weight of each plan's accounts. */
import {
  BUDGET_SCHEMA,
  type Budget,
  fitsPattern,
  isInModels,
  LIMIT_SETTINGS,
  PER_SETTING,
  type Plan,
  type PlanLimit,
  problemsOfBudgets,
} from '#contract'
import type { Configuration } from './configuration.ts'
import type { GatewayShape, PlanShape } from './file-shapes.ts'
import { checkThen } from './policy/then-models.ts'
import type { ModelNames } from './policy/when-models.ts'
import { map, whole } from './schema-parts.ts'
import { didYouMean, listed } from './yaml/problem.ts'
import { pointer, type Source } from './yaml/source.ts'

/** The plan of accounts created without one. */
export const DEFAULT_PLAN = 'default'
/** The weight of a plan under `overload.prefer` without its own. */
const PREFERRED = 4

const PLAN_NAME = {
  pattern: '^[A-Za-z0-9]([A-Za-z0-9._ -]{0,98}[A-Za-z0-9._-])?$',
  sentence: 'must be up to 100 letters, digits, blanks and . _ -',
}

const LIMIT = map(
  'A limit for each account, key, caller or value of a tag.',
  {
    per: {
      ...PER_SETTING,
      description:
        'Each one has a separate limit: account, key, caller (a key, or the subject of a token) or tag NAME (each value of that tag within an account).',
    },
    ...LIMIT_SETTINGS,
  },
  {
    required: ['per'],
    anyOf: [{ required: ['requests'] }, { required: ['tokens'] }],
    dependentRequired: { burst: ['requests'] },
  },
)

const PLAN = map('A plan.', {
  models: {
    type: 'array',
    uniqueItems: true,
    description:
      'The models that its accounts can use and see, by id or with one `*`; models that are not public need their exact id. The list of a key narrows it further. Default: all public models.',
    items: {
      type: 'string',
      pattern: '^[!-~]{1,200}$',
      sentence: 'must be 1 to 200 printable characters without blanks',
    },
  },
  limits: {
    type: 'array',
    description: 'Limits that a step `rate-limit` with `limits: plan` enforces, across all policies.',
    items: LIMIT,
    default: [],
  },
  budgets: {
    type: 'array',
    maxItems: 20,
    description: 'Limits on the spending of each account in a period, across all policies.',
    items: BUDGET_SCHEMA,
    default: [],
  },
  weight: whole(
    "An account's share of a busy gateway, relative to the weights of others. Default: 4 for a plan under overload.prefer, else 1.",
    1,
    100,
  ),
})

export const PLANS_SCHEMA = {
  type: 'object',
  description:
    'The plans of accounts, by name. With this section, any other plan is an error; `default` always exists. Without it, any name is a plan, and only conditions use it.',
  propertyNames: { ...PLAN_NAME },
  additionalProperties: PLAN,
}

/** The names that `plans` declares, including plans with problems; null without that section. */
export function declaredPlans({ plans }: { readonly plans?: unknown }): readonly string[] | null {
  if (typeof plans !== 'object' || plans === null || Array.isArray(plans)) return null
  return [...new Set([DEFAULT_PLAN, ...Object.keys(plans)])]
}

/** The plans without problems; null without that section. Checks every mention of a plan in gateway.yaml. */
export function buildPlans(source: Source, shape: GatewayShape, names: ModelNames): Configuration['plans'] {
  const declared = declaredPlans(shape)
  if (declared === null) return null
  const prefer: readonly string[] = Array.isArray(shape.overload?.prefer) ? shape.overload.prefer : []
  checkPlanName(source, '/registration/plan', shape.registration?.plan, declared)
  checkPreferred(source, shape, prefer, declared)
  const plans = new Map<string, Plan>()
  const standard = (name: string) => (prefer.includes(name) ? PREFERRED : 1)
  const shapes: Readonly<Record<string, PlanShape>> = { [DEFAULT_PLAN]: { limits: [], budgets: [] }, ...shape.plans }
  for (const [name, plan] of Object.entries(shapes)) {
    const at = pointer('plans', name)
    const remains = source.remains<PlanShape>(at, plan)
    if (remains === null) continue
    checkPlanModels(source, `${at}/models`, remains.models, names, shape.routes)
    checkPlanLimits(source, `${at}/limits`, remains.limits)
    checkPlanBudgets(source, at, remains, names)
    const { models = null, limits, budgets, weight = standard(name) } = plan
    if (source.sound(at)) plans.set(name, { name, models, limits, budgets, weight })
  }
  return plans
}

/** The suggestion for a plan that is not declared. */
export function planSuggestion(name: string, declared: readonly string[]): string {
  return didYouMean(name, declared) ?? `the declared plans are ${listed(declared, 'and')}`
}

/** Reports a plan that `plans` does not declare. */
export function checkPlanName(source: Source, at: string, name: unknown, declared: readonly string[]): void {
  if (typeof name !== 'string' || !source.sound(at) || declared.includes(name)) return
  source.report(at, `the plan ${source.show(at, name)} is not declared under plans in gateway.yaml`, {
    rule: 'unknown-plan',
    suggestion: planSuggestion(name, declared),
  })
}

function checkPreferred(
  source: Source,
  { plans }: GatewayShape,
  prefer: readonly string[],
  declared: readonly string[],
): void {
  for (const [i, name] of prefer.entries()) {
    const at = `/overload/prefer/${i}`
    checkPlanName(source, at, name, declared)
    if (!source.sound(at) || plans?.[name]?.weight === undefined) continue
    source.report(at, `the plan ${source.show(at, name)} has its own weight, so this entry has no effect`, {
      rule: 'useless-key',
      suggestion: 'remove it here, or the weight there',
    })
  }
}

function checkPlanModels(
  source: Source,
  at: string,
  models: readonly string[] | undefined,
  { ids, aliases }: ModelNames,
  routes: GatewayShape['routes'],
): void {
  // Missing models are reported elsewhere.
  if (!Array.isArray(models) || ids.length === 0) return
  const raw = (Array.isArray(routes) ? routes : []).flatMap(route => route?.models ?? [])
  const known = [...ids, ...raw]
  for (const [i, model] of models.entries()) {
    const here = `${at}/${i}`
    if (typeof model !== 'string' || !source.sound(here)) continue
    // An id with a * may be a wildcard whose provider has a problem of its own.
    if (known.some(id => id === model || fitsPattern(model, id) || fitsPattern(id, model))) continue
    const id = aliases.get(model)
    const shown = source.show(here, model)
    const message =
      id === undefined
        ? `the catalog has no model ${shown}`
        : `${shown} is an alias, and a plan needs the ids of models`
    const suggestion = id === undefined ? didYouMean(model, known) : `write ${JSON.stringify(id)}`
    source.report(here, message, { rule: 'unknown-model', suggestion })
  }
}

/** Checks beyond the schema: names, time zones, and the models of `then`, which the plan must have. */
function checkPlanBudgets(
  source: Source,
  plan: string,
  { budgets, models }: Partial<PlanShape>,
  names: ModelNames,
): void {
  const at = `${plan}/budgets`
  if (!Array.isArray(budgets) || budgets.some((_, i) => !source.sound(`${at}/${i}`))) return
  for (const { at: place, message } of problemsOfBudgets(budgets)) {
    source.report(at + place, message, { rule: 'wrong-value' })
  }
  checkThen(source, at, budgets, names)
  if (!Array.isArray(models)) return
  for (const [i, { then = 'refuse' }] of (budgets as readonly Budget[]).entries()) {
    const here = `${at}/${i}/then`
    if (then === 'refuse' || !source.sound(here) || isInModels(models, names.aliases.get(then) ?? then)) continue
    source.report(
      here,
      `the models of this plan do not include ${source.show(here, then)}, so it would never be used`,
      {
        rule: 'wrong-value',
        suggestion: 'add it to models, or write refuse',
      },
    )
  }
}

/** Two limits with the same kind, `per` and window would share one bucket with two sizes. */
function checkPlanLimits(source: Source, at: string, limits: readonly PlanLimit[] | undefined): void {
  const seen = new Map<string, number>()
  for (const [i, limit] of (Array.isArray(limits) ? (limits as readonly PlanLimit[]) : []).entries()) {
    for (const kind of ['requests', 'tokens'] as const) {
      const rate = limit?.[kind]
      if (typeof rate !== 'object' || !source.sound(`${at}/${i}`)) continue
      const name = `${limit.per} ${kind} ${rate.perMs}`
      const other = seen.get(name)
      seen.set(name, i)
      if (other === undefined) continue
      const { line } = source.position(`${at}/${other}`)
      const message = `a limit of ${kind} per ${limit.per} in this time exists already (line ${line})`
      source.report(`${at}/${i}/${kind}`, message, { rule: 'duplicate-entry', suggestion: 'remove one of the two' })
    }
  }
}

/** The weight of an account with this plan. */
export function weightOf({ plans, preferredPlans }: Pick<Configuration, 'plans' | 'preferredPlans'>, plan: string) {
  if (plans === null) return preferredPlans.includes(plan) ? PREFERRED : 1
  return plans.get(plan)?.weight ?? 1
}
