/** Whether a policy fits the route that uses it: who may come in, what can be known there, and who pays. */

import { asksModel, type FactName, type RouteKind } from '#contract'
import type { RouteConfig } from '../configuration.ts'
import { listed } from '../yaml/problem.ts'
import type { Rule } from '../yaml/rules.ts'
import type { LoadedPolicy, LoadedStep } from './loaded-policy.ts'
import { CHAT_ONLY, surelyGiven, wants } from './order.ts'

export type FittingRoute = Pick<
  RouteConfig,
  'path' | 'kind' | 'counts' | 'public' | 'unmetered' | 'price' | 'keepResponsesMs'
>

/** `key` is that of the route which is meant, if not its policy. */
type Complain = (
  rule: Rule,
  message: string,
  suggestion?: string,
  key?: 'public' | 'unmetered' | 'keep_responses',
) => void

/** Complains about each reason why the policy does not fit. `pricedModels` are the ids that a chat route can reach. */
export function checkFit(
  route: FittingRoute,
  policy: LoadedPolicy,
  pricedModels: readonly string[],
  complain: Complain,
): void {
  // A fact that a step misses is told there.
  const given = new Set([...surelyGiven(policy.steps), ...policy.missed])
  checkOpen(route, policy, given, complain)
  if (asksModel(route.kind)) checkChat(policy, given, complain)
  else checkKind(route, policy, complain)
  checkPaid(route, policy, pricedModels, complain)
  checkKeeps(route, policy, given, complain)
}

function checkOpen(route: FittingRoute, policy: LoadedPolicy, given: Set<FactName>, complain: Complain): void {
  if (given.has('key')) {
    const giver = policy.steps.find(step => step.gives.includes('key') && step.weakness === null)
    if (!route.public || giver === undefined) return
    const message = `the step "${giver.id}" of the policy "${policy.name}" asks for a key, so "public" says nothing`
    complain('useless-key', message, 'remove this line, or use a policy without that step', 'public')
    return
  }
  const { why, remedy } = missing(policy, step => step.gives.includes('key'), 'api-key')
  const start = `the policy "${policy.name}" gives no key${why}`
  const owned = OWNED[route.kind]
  if (owned !== undefined) complain('open-route', `${start}, and ${owned} for the owner of a key`, remedy)
  else if (!route.public) {
    const suggestion = `${remedy}, or say "public: true" on the route if that is meant`
    complain('open-route', `${start}, so ${route.path} would be open to anyone`, suggestion)
  }
}

/** Answers that are for the owner of a key alone. */
const OWNED: Readonly<Partial<Record<RouteKind, string>>> = {
  receipt: 'a receipt is',
  response: 'a response is',
  budgets: 'budgets are',
}

function checkChat(policy: LoadedPolicy, given: Set<FactName>, complain: Complain): void {
  for (const [fact, plugin] of [
    ['chat', 'schema'],
    ['targets', 'route'],
  ] as const) {
    if (given.has(fact)) continue
    const { why, remedy } = missing(policy, step => step.gives.includes(fact), plugin)
    complain('unfit-policy', `the policy "${policy.name}" gives no ${fact}${why}, and a chat route needs it`, remedy)
  }
}

/** Facts of a chat request cannot exist elsewhere, whatever the order. */
function checkKind(route: FittingRoute, policy: LoadedPolicy, complain: Complain): void {
  for (const step of policy.steps) {
    if (step.mode === 'off') continue
    const facts = CHAT_ONLY.filter(fact => step.gives.includes(fact) || wants(step, route.kind).includes(fact))
    if (facts.length === 0) continue
    const { file, line } = step.position
    const message = `the step "${step.id}" (${file}:${line}) is about ${listed(facts, 'and')}, which only a chat route has`
    complain('unfit-policy', message, `use a policy without it for ${route.path}`)
  }
}

/** What nobody owns could be read by everybody. */
function checkKeeps(route: FittingRoute, policy: LoadedPolicy, given: Set<FactName>, complain: Complain): void {
  if (route.keepResponsesMs === null || given.has('account')) return
  const { why, remedy } = missing(policy, step => step.gives.includes('account'), 'api-key')
  const message = `the policy "${policy.name}" gives no account${why}, and responses are kept for an account`
  complain('unfit-policy', message, `${remedy}, or remove this line`, 'keep_responses')
}

function checkPaid(
  route: FittingRoute,
  policy: LoadedPolicy,
  pricedModels: readonly string[],
  complain: Complain,
): void {
  if (route.counts) return
  const priced = asksModel(route.kind) ? pricedModels.length > 0 : route.kind === 'raw' && route.price !== null
  const charges = (step: LoadedStep) => step.plugin.uses?.includes('ledger') ?? false
  const charging = policy.steps.find(step => charges(step) && step.weakness === null)
  if (priced && route.unmetered && charging !== undefined) {
    const message = `the step "${charging.id}" of the policy "${policy.name}" charges, so "unmetered" says nothing`
    complain('useless-key', message, 'remove this line, or use a policy without that step', 'unmetered')
  }
  if (!priced || route.unmetered || charging !== undefined) return
  const what = asksModel(route.kind) ? `models with a price (${few(pricedModels)})` : 'what has a price'
  const { why, remedy } = missing(policy, charges, 'credits')
  complain(
    'uncharged-route',
    `the policy "${policy.name}" charges nobody${why}, so ${route.path} would give away ${what}`,
    `${remedy}, or say "unmetered: true" on the route if that is meant`,
  )
}

/** Why the step that would do it does not count, and what to do: change it, or add one. */
function missing(policy: LoadedPolicy, does: (step: LoadedStep) => boolean, plugin: string) {
  const step = policy.steps.find(each => does(each) && each.weakness !== null)
  if (step === undefined) return { why: '', remedy: `add "- use: ${plugin}"` }
  return { why: ` (the step "${step.id}" does not count: ${step.weakness})`, remedy: `let "${step.id}" always run` }
}

function few(words: readonly string[]): string {
  return words.length <= 3 ? words.join(', ') : `${words.slice(0, 3).join(', ')} and ${words.length - 3} more`
}
