/** The operators' views of a running gateway: exchanges in progress, the state of providers, and the running configuration. */

import { readFile } from 'node:fs/promises'
import { basename, dirname, relative } from 'node:path'
import type { PlaygroundRoute } from '../api/api-parts.ts'
import type { ConfigurationView, ExchangeView, ProblemView, ProviderView, TargetHealthView } from '../api/views.ts'
import type { Configuration } from '../config/configuration.ts'
import { urlHost } from '../config/listen-address.ts'
import type { LoadResult } from '../config/load.ts'
import { targetsOf } from '../config/target-entries.ts'
import type { Problem } from '../config/yaml/problem.ts'
import type { Generation } from '../request/generation.ts'
import type { LiveExchange } from '../request/send/live-exchange.ts'

/** An exchange in progress. */
export function exchangeView(exchange: LiveExchange): ExchangeView {
  const { key, account, chat, model, attempts, live, currentTarget } = exchange
  return {
    id: exchange.id,
    started_at: timeView(exchange.startedAt),
    route: live.config.path,
    policy: exchange.plan.name,
    account_id: account?.id ?? null,
    account: account?.name ?? null,
    key_id: key?.id ?? null,
    model: model?.id ?? null,
    stream: chat?.stream ?? null,
    target: currentTarget ?? attempts.at(-1)?.target ?? null,
    attempts: attempts.length + (currentTarget === null ? 0 : 1),
    tokens: exchange.meter.countedTokens,
    address: exchange.address,
    replica: null,
  }
}

/** Every provider with its targets. @param nowMs milliseconds since the epoch */
export function providerViews({ configuration, upstreams, healthTracker }: Generation, nowMs: number): ProviderView[] {
  const targets = targetsOf(configuration)
  return [...configuration.providers.values()].map(provider => ({
    name: provider.name,
    dialect: provider.dialect,
    base_url: provider.dialect === 'demo' ? null : provider.baseUrl,
    credentials: {
      total: provider.dialect === 'demo' ? 0 : provider.credentials.length,
      good: upstreams.get(provider.name)?.goodCredentials() ?? 0,
      refused: upstreams.get(provider.name)?.refusedCredentials() ?? 0,
    },
    targets: targets
      .filter(target => target.provider === provider.name)
      .map(({ id, models }) => targetView(id, models, healthTracker, nowMs)),
  }))
}

function targetView(
  target: string,
  models: readonly string[],
  healthTracker: Generation['healthTracker'],
  nowMs: number,
): TargetHealthView {
  const health = healthTracker.look(target)
  return {
    target,
    models,
    state: health?.state ?? 'well',
    until: health && health.forMs > 0 ? timeView(nowMs + health.forMs) : null,
    inflight: health?.inflight ?? 0,
    failures_in_a_row: health?.failuresInARow ?? 0,
    attempts: health?.attempts ?? 0,
    failed: health?.failed ?? 0,
    latency_ms: health?.latencyMs == null ? null : Math.round(health.latencyMs),
  }
}

export interface LoadedConfiguration {
  readonly configuration: Configuration
  /** The texts of its YAML files when it was loaded, by absolute path. */
  readonly sources: ReadonlyMap<string, string>
  /** Milliseconds since the epoch. */
  readonly at: number
  /** Loads the files in their current state. */
  again(): Promise<LoadResult>
  /** Removes secrets from a text. */
  redact(text: string): string
}

/** The files of the running configuration, their differences from those on disk, and problems of the latter. */
export async function configurationView(loaded: LoadedConfiguration): Promise<ConfigurationView> {
  const { configuration, sources, redact } = loaded
  const home = dirname(configuration.file)
  const files = [...sources].map(async ([path, text]) => {
    const now = await readFile(path, 'utf8').catch(() => null)
    return { path: relative(home, path) || basename(path), text: redact(text), changed: now !== text }
  })
  const result = await loaded.again()
  return {
    files: await Promise.all(files),
    loaded_at: timeView(loaded.at),
    problems: 'problems' in result ? result.problems.map(problem => problemView(problem, home, redact)) : [],
    routes: configuration.routes.map(({ path, kind, policy, steps }) => ({
      path,
      kind,
      policy,
      steps: steps.steps.map(({ id, plugin, mode, when }) => ({
        id,
        use: plugin.name,
        mode,
        when: when?.source ?? null,
      })),
    })),
  }
}

function problemView(problem: Problem, home: string, redact: (text: string) => string): ProblemView {
  const { file, line, column, message, suggestion } = problem
  const path = relative(home, file)
  return {
    file: path === '' || path.startsWith('..') ? file : path,
    line,
    column,
    message: redact(message),
    suggestion: suggestion === undefined ? null : redact(suggestion),
  }
}

/**
 * The route for the playground's requests: the first chat route with a key, on the clients' own listener. Null: none exists.
 * @param port the actual port
 */
export function playgroundRoute({ configuration }: Generation, port: number): PlaygroundRoute | null {
  const route = configuration.routes.find(
    ({ kind, steps }) => kind === 'chat' && steps.steps.some(({ plugin }) => plugin.gives?.includes('key')),
  )
  if (route === undefined) return null
  const { host } = configuration.listen
  const reached = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return {
    host: reached,
    port,
    path: route.path,
    hostHeader: configuration.hosts?.[0] ?? `${urlHost(reached)}:${port}`,
  }
}

function timeView(ms: number): string {
  return new Date(ms).toISOString()
}

/** Combines the views of a provider from several threads: sums of figures, and the worst state of each target. */
export function mergeProviders(all: readonly (readonly ProviderView[])[]): ProviderView[] {
  return together(all.flat(), ({ name }) => name).map(same => {
    const [provider] = same
    const good = Math.min(...same.map(({ credentials }) => credentials.good))
    const refused = Math.max(...same.map(({ credentials }) => credentials.refused))
    const targets = together(
      same.flatMap(each => each.targets),
      ({ target }) => target,
    )
    return {
      ...provider!,
      credentials: { ...provider!.credentials, good, refused },
      targets: targets.map(mergeTargets),
    }
  })
}

/** Groups items by name, in the order of first occurrence. */
function together<Item>(all: readonly Item[], nameOf: (item: Item) => string): Item[][] {
  return [...Map.groupBy(all, nameOf).values()]
}

const STATES: readonly TargetHealthView['state'][] = ['well', 'half_open', 'limited', 'ejected']

function mergeTargets(same: readonly TargetHealthView[]): TargetHealthView {
  const sum = (value: (each: TargetHealthView) => number) => same.reduce((total, each) => total + value(each), 0)
  return {
    ...same.reduce(worse),
    inflight: sum(each => each.inflight),
    failures_in_a_row: Math.max(...same.map(each => each.failures_in_a_row)),
    attempts: sum(each => each.attempts),
    failed: sum(each => each.failed),
    latency_ms: latencyOf(same),
  }
}

function worse(one: TargetHealthView, other: TargetHealthView): TargetHealthView {
  const step = STATES.indexOf(other.state) - STATES.indexOf(one.state)
  return step > 0 || (step === 0 && (other.until ?? '') > (one.until ?? '')) ? other : one
}

/** The mean latency, weighted by attempts. */
function latencyOf(same: readonly TargetHealthView[]): number | null {
  let [sum, attempts] = [0, 0]
  for (const { latency_ms: latency, attempts: made } of same) {
    if (latency === null) continue
    sum += latency * Math.max(1, made)
    attempts += Math.max(1, made)
  }
  return attempts === 0 ? null : Math.round(sum / attempts)
}
