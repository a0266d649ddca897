/**
 * Checks the order of a policy's steps. Steps are never reordered: an order that cannot work is a problem. If the same steps
 * have a working order, it is suggested.
 */

import { asksModel, FACT_NAMES, type FactName, type RouteKind } from '#contract'
import { compileWhen, factsIn } from '../conditions/when.ts'
import type { CompiledWhen, PluginRegistry } from '../configuration.ts'
import { listed } from '../yaml/problem.ts'
import type { Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'
import { declaredTags } from './tag-names.ts'

/** Facts that only a chat request has. */
export const CHAT_ONLY: readonly FactName[] = ['chat', 'model', 'targets']

/** The facts of the steps that always run and finish. */
export function alwaysGiven(steps: readonly LoadedStep[]): Set<FactName> {
  return new Set(steps.filter(step => step.weakness === null).flatMap(step => step.gives))
}

/** Reports facts that no earlier step gives, facts given twice, and switches that a step cannot have. */
export function checkOrder(source: Source, steps: readonly LoadedStep[], policy: PolicyFacts): void {
  const { kind } = policy
  for (const [i, step] of steps.entries()) {
    checkSwitches(source, step)
    checkServices(source, step)
    if (step.mode === 'off') continue
    checkGivenOnce(source, step, steps.slice(0, i))
    checkNeeds(source, steps, i, policy)
    checkBefore(source, steps, i, kind)
    checkPrecedes(source, steps, i, kind)
  }
}

function checkSwitches(source: Source, { address, id, plugin, mode, onError, gives }: LoadedStep): void {
  if (plugin.critical && mode !== 'enforce') {
    const message = `the step "${id}" protects keys or money, so it cannot be in mode ${mode}`
    source.report(`${address}/mode`, message, { rule: 'critical-step', suggestion: 'remove this line' })
  } else if (gives.length > 0 && mode === 'shadow') {
    const message = `the step "${id}" gives ${listed(gives, 'and')}, so it cannot be in shadow mode`
    source.report(`${address}/mode`, message, { rule: 'critical-step', suggestion: 'remove this line' })
  } else if (plugin.records && mode === 'shadow') {
    const message = `the step "${id}" only records, so shadow mode changes nothing`
    source.report(`${address}/mode`, message, { rule: 'useless-key', suggestion: 'remove this line, or write off' })
  }
  if (plugin.critical && onError === 'skip') {
    const message = `the step "${id}" protects keys or money, so its errors cannot be skipped`
    source.report(`${address}/onError`, message, { rule: 'critical-step', suggestion: 'remove this line' })
  }
}

function checkServices(source: Source, { address, plugin, builtIn }: LoadedStep): void {
  if (!plugin.uses?.includes('ledger') || (builtIn && plugin.critical)) return
  const message = `the plugin "${plugin.name}" uses the ledger, which only built-in critical plugins can use`
  source.report(`${address}/use`, message, { rule: 'critical-step' })
}

function checkGivenOnce(source: Source, step: LoadedStep, earlier: readonly LoadedStep[]): void {
  // A duplicate of the whole step is reported elsewhere.
  if (earlier.some(each => each.id === step.id)) return
  for (const fact of step.gives) {
    const other = earlier.find(each => each.mode !== 'off' && each.gives.includes(fact))
    if (other === undefined) continue
    const message = `"${step.id}" gives ${fact}, which the step "${other.id}" (line ${other.position.line}) gives already`
    source.report(`${step.address}/use`, message, { rule: 'given-twice', suggestion: 'remove one of the two' })
    return
  }
}

/** A step that changes the source of a fact must come before the step that gives the fact, even if that step may not run. */
function checkBefore(source: Source, steps: readonly LoadedStep[], index: number, kind: RouteKind): void {
  const step = steps[index]!
  for (const fact of mustPrecedeGivers(step, kind)) {
    const giver = steps.slice(0, index).find(each => each.mode !== 'off' && each.gives.includes(fact))
    if (giver === undefined) continue
    const order = workingOrder(steps, kind)
    const suggestion = order === null ? `move "${step.id}" up` : `this order works: ${order.join(', ')}`
    const where = `the step "${giver.id}" (line ${giver.position.line})`
    const why =
      fact === 'chat' && givesReader(step, kind)
        ? 'it gives the account that opens sealed and kept parts of a Responses request'
        : `it changes the source of ${fact}`
    const message = `"${step.id}" must come before ${where}: ${why}`
    source.report(`${step.address}/use`, message, { rule: 'order', suggestion })
    return
  }
}

function mustPrecedeGivers(step: LoadedStep, kind: RouteKind): readonly FactName[] {
  const own = step.before.get(kind) ?? []
  return givesReader(step, kind) ? [...own, 'chat'] : own
}

/** A Responses request can contain sealed and kept parts, which only the account can open. */
const givesReader = ({ gives }: LoadedStep, kind: RouteKind): boolean =>
  kind === 'responses' && gives.includes('account') && !gives.includes('chat')

/** A step that inspects the client's content must come before steps that add content. Steps in shadow mode add none. */
function checkPrecedes(source: Source, steps: readonly LoadedStep[], index: number, kind: RouteKind): void {
  const step = steps[index]!
  const other = steps.slice(0, index).find(each => each.mode === 'enforce' && mustPrecede(step, each))
  if (other === undefined) return
  const order = workingOrder(steps, kind)
  const suggestion = order === null ? 'remove one of the two' : `this order works: ${order.join(', ')}`
  const where = `the step "${other.id}" (line ${other.position.line})`
  const message = `"${step.id}" must come before ${where}: it would mistake the content of that step for the client's`
  source.report(`${step.address}/use`, message, { rule: 'order', suggestion })
}

function mustPrecede(step: LoadedStep, other: LoadedStep): boolean {
  return step.precedes.includes(other.plugin.name)
}

/** One problem for all facts that are missing for the same reason. */
function checkNeeds(source: Source, steps: readonly LoadedStep[], index: number, policy: PolicyFacts): void {
  const { kind } = policy
  const step = steps[index]!
  const given = alwaysGiven(steps.slice(0, index))
  const reasons = new Map<string, { facts: FactName[]; reason: Reason }>()
  for (const fact of step.needs.get(kind) ?? []) {
    // On routes without a model no step can give the fact, which is reported at the route.
    if (given.has(fact) || (!asksModel(kind) && CHAT_ONLY.includes(fact))) continue
    const reason = reasonFor(fact, steps, index, policy)
    const entry = reasons.get(reason.message) ?? { facts: [], reason }
    entry.facts.push(fact)
    reasons.set(reason.message, entry)
  }
  for (const { facts, reason } of reasons.values()) {
    source.report(`${step.address}/use`, `"${step.id}" needs ${listed(facts, 'and')}, which ${reason.message}`, reason)
  }
}

interface PolicyFacts {
  readonly kind: RouteKind
  readonly registry: Pick<PluginRegistry, 'givers' | 'find'>
  /** Collects the facts that were reported as missing. */
  readonly missingFacts: Set<FactName>
}

interface Reason {
  /** Identifies the mistake, which appears at each step that needs the fact. */
  readonly same: string
  readonly rule: 'order' | 'no-giver'
  readonly message: string
  readonly suggestion?: string
}

/** Explains why a fact is missing at a step's place. */
function reasonFor(
  fact: FactName,
  steps: readonly LoadedStep[],
  index: number,
  { registry, kind, missingFacts }: PolicyFacts,
): Reason {
  missingFacts.add(fact)
  const givers = steps.filter((step, i) => i !== index && step.gives.includes(fact))
  const weak = givers.find(step => step.weakness !== null)
  const later = givers.find(step => step.weakness === null)
  if (later !== undefined) {
    const order = workingOrder(steps, kind)
    const suggestion = order === null ? `move "${later.id}" up` : `this order works: ${order.join(', ')}`
    const message = `the step "${later.id}" gives too late (line ${later.position.line})`
    return { rule: 'order', message, suggestion, same: message }
  }
  if (weak !== undefined) {
    const where = `the step "${weak.id}" (line ${weak.position.line})`
    const message = `${where} may not give: ${weak.weakness}`
    return { rule: 'no-giver', message, same: message }
  }
  const [plugin] = registry.givers(fact)
  if (plugin === undefined) return { rule: 'no-giver', message: 'no step gives', same: fact }
  for (const other of registry.find(plugin)?.gives ?? []) missingFacts.add(other)
  return { rule: 'no-giver', message: 'no step gives', suggestion: `add "- use: ${plugin}" before it`, same: plugin }
}

/** The ids of the steps in a working order, as close to the original as possible; null without one. */
function workingOrder(steps: readonly LoadedStep[], kind: RouteKind): string[] | null {
  const rest = steps.filter(step => step.mode !== 'off')
  const order: LoadedStep[] = []
  while (rest.length > 0) {
    const given = alwaysGiven(order)
    const pending = rest.flatMap(step => mustPrecedeGivers(step, kind))
    const next = rest.findIndex(
      step =>
        factsNeeded(step, kind).every(fact => given.has(fact)) &&
        !step.gives.some(fact => pending.includes(fact)) &&
        !rest.some(other => other !== step && mustPrecede(other, step)),
    )
    if (next < 0) return null
    order.push(...rest.splice(next, 1))
  }
  return order.map(step => step.id)
}

/** The facts that a step and its condition need. */
export function factsNeeded(step: LoadedStep, kind: RouteKind): FactName[] {
  const named = step.when === null ? [] : factsIn(step.when)
  return FACT_NAMES.filter(fact => step.needs.get(kind)?.includes(fact) || named.includes(fact))
}

/**
 * Compiles the `when` of each step for its place. After an unknown plugin, any fact may exist. A step with a wrong condition
 * counts as always running, so that steps that rely on it are not reported too.
 */
export function compileConditions(
  source: Source,
  steps: LoadedStep[],
  complete: boolean,
  policy: PolicyFacts,
): (CompiledWhen | null)[] {
  return steps.map((step, i) => {
    if (step.when === null) return null
    const at = `${step.address}/when`
    if (!source.sound(at)) {
      steps[i] = { ...step, weakness: null }
      return null
    }
    const result = compileWhen(step.when, {
      tags: declaredTags(source, steps.slice(0, i)),
      given: complete ? alwaysGiven(steps.slice(0, i)) : new Set(FACT_NAMES),
      missing: fact => {
        const reason = reasonFor(fact, steps, i, policy)
        return { ...reason, message: `the condition names ${fact}, which ${reason.message}` }
      },
    })
    if ('when' in result) return result.when
    const { message, suggestion, offset, same } = result.error
    // The message may quote a part of the condition, which may be a part of a secret.
    if (source.substituted(at))
      source.report(at, 'the condition has an error after its ${…} are replaced', { rule: 'when' })
    else source.report(at, message, { rule: 'when', offset, suggestion, same })
    steps[i] = { ...step, weakness: null }
    return null
  })
}
