/** A policy file: its steps with their plugins and settings. Whether their order works is checked in `policy-order.ts`. */

import { dirname, resolve } from 'node:path'
import type { AnyPlugin, FactName, RouteKind } from '#contract'
import { FACT_NAMES, mistakeText } from '#contract'
import type { RoutePath } from '../conditions/truth.ts'
import type { CompiledWhen, PluginRegistry, StepConfig } from '../configuration.ts'
import type { PolicyShape, StepShape } from '../file-shapes.ts'
import { POLICY_SCHEMA } from '../policy-schema.ts'
import { checkShape } from '../yaml/ajv.ts'
import { freeze } from '../yaml/freeze.ts'
import { didYouMean, listed } from '../yaml/problem.ts'
import { NeedsRestart } from '../yaml/reads.ts'
import { type Reading, readSource, type Source } from '../yaml/source.ts'
import type { LoadedPolicy, LoadedStep } from './loaded-policy.ts'
import { checkOrder, compileConditions } from './order.ts'
import { checkPlans } from './plan-names.ts'
import { pathOfPlugin } from './plugin-beside.ts'
import { checkReach } from './reach.ts'
import { askPlugin, checkSettings } from './step-settings.ts'
import { checkTags } from './tag-names.ts'
import { checkThenOfSteps } from './then-models.ts'
import { checkModels, type ModelNames } from './when-models.ts'

export interface PolicyOptions {
  readonly reading: Reading
  readonly registry: PluginRegistry
  readonly configFile: string
  /** The kinds of the routes that use the policy: what a step needs may depend on it. */
  readonly kinds: readonly RouteKind[]
  /** Where requests to it come in; null when not all of its routes are known. */
  readonly routePaths: readonly RoutePath[] | null
  /** The models that conditions can name. */
  readonly models: ModelNames
  /** The plans that gateway.yaml declares; null: any name is one. */
  readonly plans: readonly string[] | null
}

/** Builds a policy from its file's text; what is wrong stands in its source's problems. */
export async function loadPolicy(
  name: string,
  file: string,
  text: string,
  options: PolicyOptions,
): Promise<LoadedPolicy> {
  const source = await readSource(file, text, options.reading)
  const steps: LoadedStep[] = []
  const shape = source.usable
    ? (checkShape(source, '', source.value, POLICY_SCHEMA) as Partial<PolicyShape> | null)
    : null
  const entries: readonly unknown[] = Array.isArray(shape?.steps) ? shape.steps : []
  for (const [i, entry] of entries.entries()) {
    const loaded = await loadStep(source, `/steps/${i}`, entry as StepShape, { ...options, policy: name })
    if (loaded !== null) steps.push(loaded)
  }
  // Two steps in one entry are one step to YAML.
  const isMerged = source.problems.some(({ rule }) => rule === 'duplicate-key')
  const complete = source.usable && !isMerged && entries.length > 0 && steps.length === entries.length
  checkNames(source, steps)
  const missed = new Set<FactName>()
  const asked = { registry: options.registry, missed }
  const whens = compileConditions(source, steps, complete, { ...asked, kind: options.kinds[0] ?? 'chat' })
  if (complete) for (const kind of options.kinds) checkOrder(source, steps, { ...asked, kind })
  checkModels(source, steps, options.models)
  checkThenOfSteps(source, steps, options.models)
  checkTags(source, steps)
  if (options.plans !== null) checkPlans(source, steps, options.plans)
  checkReach(source, steps, routePathsOf(steps, options.routePaths))
  const tracesContent = shape?.telemetry?.content === true
  const configured = () => steps.map((step, i) => configOf(step, whens[i] ?? null))
  const config = source.problems.length > 0 ? null : { name, tracesContent, steps: configured() }
  return { name, source, steps, complete, missed, config }
}

/** Where a step is a Koa middleware, OPTIONS requests come in too. */
function routePathsOf(
  steps: readonly LoadedStep[],
  routePaths: readonly RoutePath[] | null,
): readonly RoutePath[] | null {
  if (!steps.some(step => step.foreign)) return routePaths
  return routePaths?.flatMap(routePath => [routePath, { ...routePath, method: 'OPTIONS' }]) ?? null
}

function configOf(step: LoadedStep, when: CompiledWhen | null): StepConfig {
  const { id, plugin, builtIn, foreign, settings, mode, onError, position } = step
  // The plugin, and what a stranger's middleware makes of its settings, are not ours to freeze.
  return Object.freeze({
    id,
    plugin,
    builtIn,
    foreign,
    settings: foreign ? settings : freeze(settings),
    when,
    mode,
    onError,
    position,
  })
}

async function loadStep(
  source: Source,
  address: string,
  entry: StepShape,
  { registry, configFile, kinds, policy }: PolicyOptions & { readonly policy: string },
): Promise<LoadedStep | null> {
  const use: unknown = (entry as { use?: unknown } | null)?.use
  if (typeof use !== 'string' || !source.sound(`${address}/use`)) return null
  const found = await findPlugin(source, `${address}/use`, use, registry, configFile)
  if (found === null) return null
  const { plugin, foreign } = found
  const at = `${address}/with`
  const given = entry.with ?? {}
  const builtIn = found.origin === 'built-in'
  const settings = foreign ? given : checkSettings(source, address, given, { plugin, builtIn, file: found.file })
  const id = typeof entry.id === 'string' ? entry.id : plugin.name
  const factsOf = (word: 'needs' | 'before') =>
    new Map(
      kinds.map(kind => [kind, source.sound(at) ? factsIn(word, { source, address, plugin, settings, kind }) : []]),
    )
  const step: LoadedStep = {
    address,
    id,
    plugin,
    builtIn,
    foreign,
    settings,
    needs: factsOf('needs'),
    before: factsOf('before'),
    precedes: source.sound(at) ? precededBy(source, address, plugin, settings) : [],
    gives: plugin.gives ?? [],
    ends: plugin.ends === true,
    mode: entry.mode,
    onError: entry.onError,
    when: typeof entry.when === 'string' ? entry.when : null,
    weakness: weaknessOf(entry, plugin),
    position: source.position(`${address}/use`),
  }
  // What only writes down looks at the machine that it is to run on, and that may be another one: see `cli/check.ts`.
  const isAsked = !foreign && entry.mode !== 'off' && !plugin.records
  if (isAsked && source.sound(at) && source.sound(`${address}/use`)) {
    const place = { policy, id, mode: entry.mode, folder: resolve(dirname(source.file)) }
    askPlugin(source, address, { plugin, settings, place })
  }
  return step
}

async function findPlugin(source: Source, at: string, use: string, registry: PluginRegistry, configFile: string) {
  const builtIn = registry.find(use)
  if (builtIn !== undefined) return { plugin: builtIn, origin: 'built-in' as const, foreign: false, file: null }
  const place = { saidIn: source.file, configFile }
  const path = /^(\.\.?\/|npm:)/.test(use) ? undefined : await pathOfPlugin(use, place)
  const meant = path === undefined ? undefined : `did you mean ${JSON.stringify(path)}?`
  if (/^[A-Za-z0-9_-]+$/.test(use)) {
    const known = registry.names.length === 0 ? undefined : `there are ${listed(registry.names, 'and')}`
    const suggestion = meant ?? didYouMean(use, registry.names) ?? known
    source.report(at, `there is no plugin ${source.show(at, use)}`, { rule: 'unknown-plugin', suggestion })
    return null
  }
  try {
    return await registry.load(use, place)
  } catch (error) {
    const rule = error instanceof NeedsRestart ? 'needs-restart' : 'broken-plugin'
    source.report(at, (error as Error).message, { rule, suggestion: meant })
    return null
  }
}

interface FactsAsked {
  readonly source: Source
  readonly address: string
  readonly plugin: AnyPlugin
  readonly settings: unknown
  readonly kind: RouteKind
}

/** What a plugin says of its place: the facts that it needs, or stands before. */
function factsIn(
  word: 'needs' | 'before',
  { source, address, plugin, settings, kind }: FactsAsked,
): readonly FactName[] {
  const said = plugin[word]
  if (typeof said !== 'function') return said ?? []
  const verb = word === 'needs' ? 'needs' : 'stands before'
  try {
    const facts = said(settings as never, kind)
    const unknown = facts.find(fact => !FACT_NAMES.includes(fact))
    if (unknown === undefined) return facts
    const message = `the plugin "${plugin.name}" ${verb} "${unknown}", and there is no such fact`
    source.report(`${address}/use`, message, { rule: 'broken-plugin', suggestion: didYouMean(unknown, FACT_NAMES) })
  } catch (error) {
    const reason = mistakeText(error, source.file)
    source.report(`${address}/use`, `the plugin "${plugin.name}" failed when asked what it ${verb}: ${reason}`, {
      rule: 'broken-plugin',
    })
  }
  return []
}

/** The plugins behind whose steps this one cannot stand. */
function precededBy(source: Source, address: string, plugin: AnyPlugin, settings: unknown): readonly string[] {
  const { precedes = [] } = plugin
  if (typeof precedes !== 'function') return precedes
  try {
    return precedes(settings as never)
  } catch (error) {
    const reason = mistakeText(error, source.file)
    const message = `the plugin "${plugin.name}" failed when asked which plugins it precedes: ${reason}`
    source.report(`${address}/use`, message, { rule: 'broken-plugin' })
    return []
  }
}

/** A switch that the step cannot have is reported as such, and does not count besides. */
function weaknessOf({ when, mode, onError }: StepShape, { critical = false, gives = [] }: AnyPlugin): string | null {
  if (mode === 'off' && !critical) return 'it is off'
  if (when !== undefined) return 'it has a "when"'
  if (mode === 'shadow' && !critical && gives.length === 0) return 'it is in shadow mode'
  if (onError === 'skip' && !critical) return 'it says onError: skip'
  return null
}

/** A step's id names its state, its metrics and its line in the trail. */
function checkNames(source: Source, steps: readonly LoadedStep[]): void {
  const first = new Map<string, LoadedStep>()
  for (const step of steps) {
    const other = first.get(step.id)
    if (other === undefined) {
      first.set(step.id, step)
      continue
    }
    const at = source.has(`${step.address}/id`) ? `${step.address}/id` : `${step.address}/use`
    const message = `a step is called "${step.id}" already (line ${other.position.line})`
    source.report(at, message, { rule: 'duplicate-id', suggestion: 'give this one an id of its own' })
  }
}
