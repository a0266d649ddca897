/** Checks a policy against the route that uses it: authentication, available facts, and charging. */

import { asksModel, type FactName, type RouteKind } from '#contract'
import type { RouteConfig } from '../configuration.ts'
import { listed } from '../yaml/problem.ts'
import type { Rule } from '../yaml/rules.ts'
import type { LoadedPolicy, LoadedStep } from './loaded-policy.ts'
import { alwaysGiven, CHAT_ONLY, factsNeeded } from './order.ts'

export type FittingRoute = Pick<
  RouteConfig,
  'path' | 'kind' | 'counts' | 'public' | 'unmetered' | 'price' | 'keepResponsesMs'
>

/** `key` is the route's key to report at; default: its policy. */
type Report = (
  rule: Rule,
  message: string,
  suggestion?: string,
  key?: 'public' | 'unmetered' | 'keep_responses',
) => void

/** Reports each reason why the policy does not fit. `pricedModels` are the ids that a chat route can reach. */
export function checkFit(
  route: FittingRoute,
  policy: LoadedPolicy,
  pricedModels: readonly string[],
  report: Report,
): void {
  // A fact that a step misses was reported there.
  const given = new Set([...alwaysGiven(policy.steps), ...policy.missingFacts])
  checkOpen(route, policy, given, report)
  if (asksModel(route.kind)) checkChat(policy, given, report)
  else checkKind(route, policy, report)
  checkPaid(route, policy, pricedModels, report)
  checkKeeps(route, policy, given, report)
}

function checkOpen(route: FittingRoute, policy: LoadedPolicy, given: Set<FactName>, report: Report): void {
  if (given.has('key')) {
    const giver = policy.steps.find(step => step.gives.includes('key') && step.weakness === null)
    if (!route.public || giver === undefined) return
    const message = `the step "${giver.id}" of the policy "${policy.name}" requires a key, so "public" has no effect`
    report('useless-key', message, 'remove this line, or use a policy without that step', 'public')
    return
  }
  const { reason, remedy } = explainMissing(policy, step => step.gives.includes('key'), 'api-key')
  const start = `the policy "${policy.name}" gives no key${reason}`
  const owned = OWNED[route.kind]
  if (owned !== undefined) report('open-route', `${start}, and ${owned} for the owner of a key`, remedy)
  else if (!route.public) {
    const suggestion = `${remedy}, or write "public: true" on the route to allow this`
    report('open-route', `${start}, so ${route.path} would be open to anyone`, suggestion)
  }
}

/** Answers that only the owner of a key can read. */
const OWNED: Readonly<Partial<Record<RouteKind, string>>> = {
  receipt: 'a receipt is',
  response: 'a response is',
  budgets: 'budgets are',
}

function checkChat(policy: LoadedPolicy, given: Set<FactName>, report: Report): void {
  for (const [fact, plugin] of [
    ['chat', 'schema'],
    ['targets', 'route'],
  ] as const) {
    if (given.has(fact)) continue
    const { reason, remedy } = explainMissing(policy, step => step.gives.includes(fact), plugin)
    report('unfit-policy', `the policy "${policy.name}" gives no ${fact}${reason}, and a chat route needs it`, remedy)
  }
}

/** Facts of a chat request cannot exist on other routes, in any order of steps. */
function checkKind(route: FittingRoute, policy: LoadedPolicy, report: Report): void {
  for (const step of policy.steps) {
    if (step.mode === 'off') continue
    const facts = CHAT_ONLY.filter(fact => step.gives.includes(fact) || factsNeeded(step, route.kind).includes(fact))
    if (facts.length === 0) continue
    const { file, line } = step.position
    const message = `the step "${step.id}" (${file}:${line}) uses or gives ${listed(facts, 'and')}, which only a chat route has`
    report('unfit-policy', message, `use a policy without this step for ${route.path}`)
  }
}

/** A kept response without an owner could be read by all clients. */
function checkKeeps(route: FittingRoute, policy: LoadedPolicy, given: Set<FactName>, report: Report): void {
  if (route.keepResponsesMs === null || given.has('account')) return
  const { reason, remedy } = explainMissing(policy, step => step.gives.includes('account'), 'api-key')
  const message = `the policy "${policy.name}" gives no account${reason}, and responses are kept for an account`
  report('unfit-policy', message, `${remedy}, or remove this line`, 'keep_responses')
}

function checkPaid(route: FittingRoute, policy: LoadedPolicy, pricedModels: readonly string[], report: Report): void {
  if (route.counts) return
  const priced = asksModel(route.kind) ? pricedModels.length > 0 : route.kind === 'raw' && route.price !== null
  const charges = (step: LoadedStep) => step.plugin.uses?.includes('ledger') ?? false
  const charging = policy.steps.find(step => charges(step) && step.weakness === null)
  if (priced && route.unmetered && charging !== undefined) {
    const message = `the step "${charging.id}" of the policy "${policy.name}" charges, so "unmetered" has no effect`
    report('useless-key', message, 'remove this line, or use a policy without that step', 'unmetered')
  }
  if (!priced || route.unmetered || charging !== undefined) return
  const what = asksModel(route.kind) ? `models with a price (${few(pricedModels)})` : 'answers with a price'
  const { reason, remedy } = explainMissing(policy, charges, 'credits')
  report(
    'uncharged-route',
    `the policy "${policy.name}" does not charge${reason}, so ${route.path} would give away ${what}`,
    `${remedy}, or write "unmetered: true" on the route to allow this`,
  )
}

/** Explains why a step that would do it does not count, and how to fix it: change that step, or add one. */
function explainMissing(policy: LoadedPolicy, does: (step: LoadedStep) => boolean, plugin: string) {
  const step = policy.steps.find(each => does(each) && each.weakness !== null)
  if (step === undefined) return { reason: '', remedy: `add "- use: ${plugin}"` }
  return { reason: ` (the step "${step.id}" does not count: ${step.weakness})`, remedy: `let "${step.id}" always run` }
}

function few(words: readonly string[]): string {
  return words.length <= 3 ? words.join(', ') : `${words.slice(0, 3).join(', ')} and ${words.length - 3} more`
}
