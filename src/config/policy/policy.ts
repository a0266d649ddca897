/** Loads a policy file: its steps with their plugins and settings. `order.ts` checks their order. */

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
import { checkReach } from './reach.ts'
import { checkSettings, checkWithPlugin } from './step-settings.ts'
import { suggestedPluginPath } from './suggested-plugin.ts'
import { checkTags } from './tag-names.ts'
import { checkThenOfSteps } from './then-models.ts'
import { checkModels, type ModelNames } from './when-models.ts'

export interface PolicyOptions {
  readonly reading: Reading
  readonly registry: PluginRegistry
  readonly configFile: string
  /** The kinds of the routes that use the policy: a step's needs may depend on the kind. */
  readonly kinds: readonly RouteKind[]
  /** Its routes; null if not all of them are known. */
  readonly routePaths: readonly RoutePath[] | null
  /** The models that conditions can name. */
  readonly models: ModelNames
  /** The plans that gateway.yaml declares; null: any name is a plan. */
  readonly plans: readonly string[] | null
}

/** Builds a policy from its file's text. Problems are in `source.problems` of the result. */
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
  // YAML reads two steps in one entry as one step.
  const isMerged = source.problems.some(({ rule }) => rule === 'duplicate-key')
  const complete = source.usable && !isMerged && entries.length > 0 && steps.length === entries.length
  checkNames(source, steps)
  const missingFacts = new Set<FactName>()
  const facts = { registry: options.registry, missingFacts }
  const whens = compileConditions(source, steps, complete, { ...facts, kind: options.kinds[0] ?? 'chat' })
  if (complete) for (const kind of options.kinds) checkOrder(source, steps, { ...facts, kind })
  checkModels(source, steps, options.models)
  checkThenOfSteps(source, steps, options.models)
  checkTags(source, steps)
  if (options.plans !== null) checkPlans(source, steps, options.plans)
  checkReach(source, steps, routePathsOf(steps, options.routePaths))
  const tracesContent = shape?.telemetry?.content === true
  const configured = () => steps.map((step, i) => configOf(step, whens[i] ?? null))
  const config = source.problems.length > 0 ? null : { name, tracesContent, steps: configured() }
  return { name, source, steps, complete, missingFacts, config }
}

/** With a Koa middleware among the steps, the policy receives OPTIONS requests too. */
function routePathsOf(
  steps: readonly LoadedStep[],
  routePaths: readonly RoutePath[] | null,
): readonly RoutePath[] | null {
  if (!steps.some(step => step.foreign)) return routePaths
  return routePaths?.flatMap(routePath => [routePath, { ...routePath, method: 'OPTIONS' }]) ?? null
}

function configOf(step: LoadedStep, when: CompiledWhen | null): StepConfig {
  const { id, plugin, builtIn, foreign, settings, mode, onError, position } = step
  // Do not freeze the plugin, and not the settings of a foreign middleware, which may change them.
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
  // A plugin that only records may inspect the machine where it will run, which may be another one: see `cli/check.ts`.
  const isChecked = !foreign && entry.mode !== 'off' && !plugin.records
  if (isChecked && source.sound(at) && source.sound(`${address}/use`)) {
    const place = { policy, id, mode: entry.mode, folder: resolve(dirname(source.file)) }
    checkWithPlugin(source, address, { plugin, settings, place })
  }
  return step
}

async function findPlugin(source: Source, at: string, use: string, registry: PluginRegistry, configFile: string) {
  const builtIn = registry.find(use)
  if (builtIn !== undefined) return { plugin: builtIn, origin: 'built-in' as const, foreign: false, file: null }
  const place = { policyFile: source.file, configFile }
  const path = /^(\.\.?\/|npm:)/.test(use) ? undefined : await suggestedPluginPath(use, place)
  const meant = path === undefined ? undefined : `did you mean ${JSON.stringify(path)}?`
  if (/^[A-Za-z0-9_-]+$/.test(use)) {
    const known = registry.names.length === 0 ? undefined : `the plugins are ${listed(registry.names, 'and')}`
    const suggestion = meant ?? didYouMean(use, registry.names) ?? known
    source.report(at, `unknown plugin ${source.show(at, use)}`, { rule: 'unknown-plugin', suggestion })
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

interface FactsQuery {
  readonly source: Source
  readonly address: string
  readonly plugin: AnyPlugin
  readonly settings: unknown
  readonly kind: RouteKind
}

/** The facts that a plugin needs, or must come before. */
function factsIn(
  word: 'needs' | 'before',
  { source, address, plugin, settings, kind }: FactsQuery,
): readonly FactName[] {
  const declared = plugin[word]
  if (typeof declared !== 'function') return declared ?? []
  try {
    const facts = declared(settings as never, kind)
    const unknown = facts.find(fact => !FACT_NAMES.includes(fact))
    if (unknown === undefined) return facts
    const message = `the plugin "${plugin.name}" lists the unknown fact "${unknown}" in "${word}"`
    source.report(`${address}/use`, message, { rule: 'broken-plugin', suggestion: didYouMean(unknown, FACT_NAMES) })
  } catch (error) {
    const reason = mistakeText(error, source.file)
    const message = `the plugin "${plugin.name}" failed in "${word}": ${reason}`
    source.report(`${address}/use`, message, { rule: 'broken-plugin' })
  }
  return []
}

/** The plugins whose steps must come later. */
function precededBy(source: Source, address: string, plugin: AnyPlugin, settings: unknown): readonly string[] {
  const { precedes = [] } = plugin
  if (typeof precedes !== 'function') return precedes
  try {
    return precedes(settings as never)
  } catch (error) {
    const reason = mistakeText(error, source.file)
    const message = `the plugin "${plugin.name}" failed in "precedes": ${reason}`
    source.report(`${address}/use`, message, { rule: 'broken-plugin' })
    return []
  }
}

/** Ignores switches that the step cannot have: they are reported elsewhere. */
function weaknessOf({ when, mode, onError }: StepShape, { critical = false, gives = [] }: AnyPlugin): string | null {
  if (mode === 'off' && !critical) return 'it is off'
  if (when !== undefined) return 'it has a "when"'
  if (mode === 'shadow' && !critical && gives.length === 0) return 'it is in shadow mode'
  if (onError === 'skip' && !critical) return 'it has onError: skip'
  return null
}

/** Ids must be unique: they identify a step's state, metrics and trail entry. */
function checkNames(source: Source, steps: readonly LoadedStep[]): void {
  const first = new Map<string, LoadedStep>()
  for (const step of steps) {
    const other = first.get(step.id)
    if (other === undefined) {
      first.set(step.id, step)
      continue
    }
    const at = source.has(`${step.address}/id`) ? `${step.address}/id` : `${step.address}/use`
    const message = `the id "${step.id}" exists already (line ${other.position.line})`
    source.report(at, message, { rule: 'duplicate-id', suggestion: 'give this step another id' })
  }
}
