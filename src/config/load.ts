/**
 * Loads gateway.yaml with its policies and plugins: the result is a checked configuration, or all problems at once. A single
 * problem rejects the configuration, and the caller keeps the running one.
 */

import { readdir } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { asksModel, type RouteKind } from '#contract'
import type { PriceCatalog } from '../catalog/price-catalog.ts'
import { systemClock } from '../common/clock.ts'
import { buildAlerts } from './alerts-section.ts'
import type { RoutePath } from './conditions/truth.ts'
import type { Configuration, PluginRegistry, RouteConfig } from './configuration.ts'
import { deriveRoutes } from './derived-routes.ts'
import type { GatewayShape } from './file-shapes.ts'
import { buildServer } from './gateway-section.ts'
import { urlHost } from './listen-address.ts'
import { buildCatalog } from './models.ts'
import type { Listeners } from './own-listeners.ts'
import { buildPlans, declaredPlans } from './plan-section.ts'
import type { LoadedPolicy } from './policy/loaded-policy.ts'
import { loadPolicy, type PolicyOptions } from './policy/policy.ts'
import { checkFit } from './policy/route-policy.ts'
import type { ModelNames } from './policy/when-models.ts'
import { loadPrices, type ReplacementList } from './price-lists.ts'
import { buildProviders } from './providers.ts'
import { CATALOG_POLICY, type Plan, type PlannedRoute, planRoutes } from './routes.ts'
import { GATEWAY_SCHEMA } from './schema.ts'
import { buildTelemetry } from './telemetry-section.ts'
import { type WarnOptions, warnAbout } from './warnings.ts'
import { isWildcard } from './wildcards.ts'
import { checkShape } from './yaml/ajv.ts'
import { freeze } from './yaml/freeze.ts'
import { didYouMean, ordered, type Problem } from './yaml/problem.ts'
import { type Reads, recordReads } from './yaml/reads.ts'
import { entriesOf, type Reading, readSource, type Source } from './yaml/source.ts'
import { reasonOf } from './yaml/substitute.ts'
import { readTextFile } from './yaml/text-file.ts'

export interface LoadOptions {
  /** The variables for `${NAME}`: usually `process.env`. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Reads a text file and rejects like `fs.readFile`. Default: from disk (text-file.ts). */
  readonly readFile?: Reading['readFile']
  readonly registry: PluginRegistry
  /** Options for warnings. Without them the result has no warnings. */
  readonly warn?: WarnOptions
  /** The day whose prices apply. Default: today. */
  readonly today?: Date
  /** Replaces the price list of the configuration; null: the built-in list only. */
  readonly priceList?: ReplacementList | null | undefined
}

export type LoadResult =
  | {
      readonly configuration: Configuration
      /** Null: the configuration has no list and no model needs one. */
      readonly catalog: PriceCatalog | null
      /** Probable mistakes, in reading order. */
      readonly warnings: readonly Problem[]
      /** The text of each YAML file, by absolute path. */
      readonly sources: ReadonlyMap<string, string>
      readonly reads: Reads
    }
  | {
      readonly problems: readonly Problem[]
      /** The text of each file, by its name in the problems, for `formatProblem`. */
      readonly sources: ReadonlyMap<string, string>
      /** The files in which a problem may be fixed. */
      readonly reads: Reads
    }

/** The policy of the default routes if gateway.yaml has no such file beside it. */
const PACKAGED_CATALOG = fileURLToPath(new URL('../../policies/catalog.yaml', import.meta.url))

/** Loads and checks a configuration. Never throws for the content of a file. */
export async function loadConfiguration(file: string, options: LoadOptions): Promise<LoadResult> {
  const { reads, readFile, registry } = recordReads(options.readFile ?? readTextFile, options.registry)
  const reading: Reading = { env: options.env, readFile }
  const text = await readFile(resolve(file)).catch((error: NodeJS.ErrnoException) => error)
  if (typeof text !== 'string') return { ...unreadable(file, text), reads }
  const source = await readSource(file, text, reading)
  if (!source.usable || !isConfiguration(source)) return { ...refused([source]), reads }

  const shape = checkShape(source, '', source.value, GATEWAY_SCHEMA) as GatewayShape
  if (typeof shape !== 'object' || shape === null || Array.isArray(shape)) return { ...refused([source]), reads }
  const server = buildServer(source, shape)
  const outside = buildOutside(source, shape)
  const providers = buildProviders(source, shape.providers, listenersOf(server))
  const providerNames = namesOf(shape.providers)
  const today = options.today ?? new Date(systemClock.now())
  const prices = await loadPrices(source, shape, reading, { ...options, today })
  const parts = { source, providers, shapes: shape.providers, catalog: prices.catalog, faults: prices.faults }
  const { models, origins, aliases } = buildCatalog(shape.models, parts)
  const { routes: planned, uses } = planRoutes(source, shape.routes, { built: providers, names: providerNames })
  const names = modelNames(shape.models, models)
  const plans = buildPlans(source, shape, names)
  const policies = await loadPolicies({ routes: planned, uses }, source, {
    reading,
    registry,
    configFile: file,
    models: names,
    plans: declaredPlans(shape),
  })
  const ofFiles = [...policies.values()]
  const routes = deriveRoutes(planned, policies)
  const offered = offeredOf(models)
  // A wildcard whose provider has a problem has no models.
  const isComplete =
    source.sound('/models') && (source.sound('/providers') || !Object.keys(shape.models ?? {}).some(isWildcard))
  checkRoutes(source, routes, policies, { offered, isComplete })

  const list = prices.sourceOf()
  const sources = [source, ...(list === null ? [] : [list]), ...ofFiles.map(policy => policy.source)]
  if (server === null || sources.some(each => each.problems.length > 0)) return { ...refused(sources), reads }
  const secrets = new Set(sources.flatMap(each => [...each.secrets]))
  const listeners = Object.values(listenersOf(server)).flatMap(each =>
    each ? `${urlHost(each.host)}:${each.port}` : [],
  )
  const configuration = freeze({
    file: resolve(file),
    ...server,
    ...outside!,
    providers,
    models,
    origins,
    priceList: prices.named,
    plans,
    aliases,
    routes: routes.map(route => routeConfig(route, policies.get(route.policy)!)),
    // An address from a variable may be a "secret" too, but the log must show where the gateway listens.
    secrets: [...secrets].filter(secret => secret.length > 7 && !listeners.some(each => each.includes(secret))),
    files: [...reads.keys()],
  })
  if (options.warn) {
    const named = { reading, registry, configFile: file, models: names, plans: declaredPlans(shape) }
    sources.push(...(await readUnnamed(policies, named)))
    warnAbout({ source, configuration, routes, policies: ofFiles, catalog: prices.catalog, today }, options.warn)
  }
  return {
    configuration,
    catalog: prices.catalog,
    warnings: options.warn
      ? ordered(
          sources.flatMap(each => [...each.problems.map(unnamedProblem), ...each.warnings]),
          sources.map(each => each.file),
        )
      : [],
    sources: new Map(sources.map(each => [resolve(each.file), each.text])),
    reads,
  }
}

/** The sections about other programs, which receive traces, metrics and alerts. */
function buildOutside(source: Source, shape: GatewayShape): Pick<Configuration, 'telemetry' | 'alerts'> | null {
  const telemetry = buildTelemetry(source, shape.telemetry)
  const alerts = buildAlerts(source, shape.alerts)
  return alerts && { telemetry, alerts }
}

/** Reads policies that no route names, so that problems are found before a route needs them. */
async function readUnnamed(
  policies: ReadonlyMap<string, LoadedPolicy>,
  options: Omit<PolicyOptions, 'kinds' | 'routePaths'>,
): Promise<Source[]> {
  const folder = join(dirname(options.configFile), 'policies')
  const unnamed = (await namesOfFiles(folder, '.yaml')).filter(name => !policies.has(name)).sort()
  const sources: Source[] = []
  for (const name of unnamed) {
    const found = await readPolicy(name, options.configFile, options.reading.readFile)
    if ('reason' in found) continue
    // The kind of its future routes is unknown: take the kind with fewer problems.
    const read = (kind: RouteKind) =>
      loadPolicy(name, found.file, found.text, { ...options, kinds: [kind], routePaths: null })
    const [chat, raw] = [await read('chat'), await read('raw')]
    sources.push((raw.source.problems.length < chat.source.problems.length ? raw : chat).source)
  }
  return sources
}

/** In a valid configuration only policies without a route can have problems. */
function unnamedProblem(problem: Problem): Problem {
  return { ...problem, message: `${problem.message} (no route names this policy)`, level: 'warning' }
}

function listenersOf(server: ReturnType<typeof buildServer>): Listeners {
  if (server === null) return {}
  const { listen, dashboard, admin } = server
  return { listen, dashboard, admin }
}

function routeConfig(route: PlannedRoute, policy: LoadedPolicy): RouteConfig {
  const { address, beside: _, ...rest } = route
  return { ...rest, derived: address === null, steps: policy.config! }
}

function checkRoutes(
  source: Source,
  routes: readonly PlannedRoute[],
  policies: ReadonlyMap<string, LoadedPolicy>,
  { offered, isComplete }: { readonly offered: ReturnType<typeof offeredOf>; readonly isComplete: boolean },
): void {
  const priced = offered.filter(model => model.price !== null).map(model => model.id)
  for (const route of routes) {
    // Added beside a route of the same policy and kind, which is checked.
    if (route.counts && route.address === null) continue
    checkRoute(route, policies.get(route.policy) ?? null, source, priced)
    if (asksModel(route.kind) && offered.length === 0 && isComplete) {
      source.report(`${route.address}/path`, 'no model is enabled', {
        rule: 'no-model',
        same: 'no model',
        suggestion: 'add one under models:',
      })
    }
  }
}

function checkRoute(route: PlannedRoute, policy: LoadedPolicy | null, source: Source, priced: readonly string[]): void {
  if (!policy?.complete) return
  checkFit(route, policy, priced, (rule, message, suggestion, key) => {
    if (route.address === null) policy.source.report('', `${message} (a default route)`, { rule, suggestion })
    else {
      // A gap in the policy is reported once for all of its routes.
      const same = key === undefined ? `${route.policy} ${rule} ${suggestion}` : undefined
      source.report(`${route.address}/${key ?? 'policy'}`, message, { rule, suggestion, key: key !== undefined, same })
    }
  })
}

/** Reports a policy or a test file as such, instead of each of its keys. */
function isConfiguration(source: Source): boolean {
  if (source.has('/version') || source.has('/routes')) return true
  const [message, suggestion] = source.has('/steps')
    ? ['this is a policy, not a configuration', 'check the configuration whose routes use it']
    : source.has('/tests')
      ? ['these are policy tests, not a configuration', 'run them with tollgate test']
      : []
  if (message === undefined) return true
  source.report('', message, { rule: 'wrong-value', suggestion })
  return false
}

/** The policies that the routes name. An unreadable policy is reported at each route that names it. */
async function loadPolicies(
  { routes, uses }: Plan,
  source: Source,
  options: Omit<PolicyOptions, 'kinds' | 'routePaths'>,
): Promise<Map<string, LoadedPolicy>> {
  const policies = new Map<string, LoadedPolicy>()
  const unread = new Map<string, string>()
  for (const name of new Set(uses.map(use => use.policy))) {
    const found = await readPolicy(name, source.file, options.reading.readFile)
    const routePaths = routePathsTo(name, { routes, uses })
    const kinds = uses.flatMap(use => (use.policy === name && use.kind !== null ? [use.kind] : []))
    if ('reason' in found) unread.set(name, found.reason)
    else
      policies.set(
        name,
        await loadPolicy(name, found.file, found.text, { ...options, routePaths, kinds: [...new Set(kinds)] }),
      )
  }
  const folder = join(dirname(source.file), 'policies')
  for (const { policy, address } of uses) {
    const reason = unread.get(policy)
    if (reason === undefined) continue
    const message = `policies/${policy}.yaml beside ${basename(source.file)} cannot be read: ${reason}`
    const suggestion = await meantPolicy(policy, folder)
    const at = address === null ? '/routes' : `${address}/policy`
    source.report(at, message, { rule: 'unknown-policy', suggestion, same: `policy ${policy}` })
  }
  return policies
}

/** The routes to a policy; null if a route that names it has a problem. */
function routePathsTo(policy: string, { routes, uses }: Plan): RoutePath[] | null {
  const known = routes.filter(route => route.policy === policy)
  if (known.length < uses.filter(use => use.policy === policy).length) return null
  return known.flatMap(({ path, methods }) => methods.map(method => ({ method, path })))
}

async function readPolicy(
  name: string,
  configFile: string,
  readFile: Reading['readFile'],
): Promise<{ file: string; text: string } | { reason: string }> {
  const file = join(dirname(configFile), 'policies', `${name}.yaml`)
  try {
    return { file, text: await readFile(resolve(file)) }
  } catch (error) {
    const reason = reasonOf(error as NodeJS.ErrnoException)
    if (name !== CATALOG_POLICY || (error as NodeJS.ErrnoException).code !== 'ENOENT') return { reason }
    return { file: PACKAGED_CATALOG, text: await readTextFile(PACKAGED_CATALOG) }
  }
}

async function namesOfFiles(folder: string, ending: '.yaml' | '.yml'): Promise<string[]> {
  const entries = await readdir(folder).catch(() => [])
  return entries.flatMap(entry => {
    const name = entry.slice(0, -ending.length)
    return entry.endsWith(ending) && name !== '' && !name.includes('.') ? [name] : []
  })
}

async function meantPolicy(policy: string, folder: string): Promise<string | undefined> {
  if ((await namesOfFiles(folder, '.yml')).includes(policy)) return `rename policies/${policy}.yml to ${policy}.yaml`
  return didYouMean(policy, await namesOfFiles(folder, '.yaml'))
}

type LoadFailure = Omit<Extract<LoadResult, { readonly problems: unknown }>, 'reads'>

/** The names of all models in the file, including those with problems: each problem is reported once. */
function modelNames(shapes: GatewayShape['models'], models: Configuration['models']): ModelNames {
  const aliases = entriesOf(shapes).flatMap(([id, shape]) =>
    Array.isArray(shape?.aliases) ? shape.aliases.map(alias => [alias, id] as const) : [],
  )
  const names = namesOf(shapes)
  const found = new Set([...models.values()].map(({ id, wildcard }) => wildcard ?? id))
  const ids = [...new Set([...names.filter(name => !isWildcard(name) || !found.has(name)), ...models.keys()])]
  const named = { ids, aliases: new Map(aliases) }
  // A model with a problem may have any size.
  return names.some(name => !found.has(name)) ? named : { ...named, sizes: offeredOf(models) }
}

const offeredOf = (models: Configuration['models']) => [...models.values()].filter(model => model.enabled)

const namesOf = (map: unknown) => (typeof map === 'object' && map !== null ? Object.keys(map) : [])

function unreadable(file: string, error: NodeJS.ErrnoException): LoadFailure {
  const message = `the configuration cannot be read: ${reasonOf(error)}`
  const isMissing = error.code === 'ENOENT'
  const help = isMissing ? { suggestion: 'tollgate init writes a configuration' } : {}
  const problem = { file, line: 1, column: 1, rule: 'unreadable-file', message, ...help } as const
  return { problems: [problem], sources: new Map() }
}

function refused(sources: readonly Source[]): LoadFailure {
  const files = sources.map(source => source.file)
  return {
    problems: ordered(
      sources.flatMap(source => source.problems),
      files,
    ),
    sources: new Map(sources.map(source => [source.file, source.text])),
  }
}
