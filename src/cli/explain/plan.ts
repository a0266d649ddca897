/** `tollgate explain`: the plan of each route with its steps in order, the upstream call or lookup, and the facts. */
import { resolve } from 'node:path'
import { parse } from 'yaml'
import { asksModel, type FactName, type RouteKind } from '#contract'
import type { Configuration, RouteConfig, StepConfig } from '../../config/configuration.ts'
import { listed, nearest } from '../../config/yaml/problem.ts'
import { json, table } from '../format.ts'
import { loadSimulated, type SimulatedConfiguration } from '../simulated.ts'
import { CommandError, type ExitCode, type Terminal } from '../terminal.ts'
import { wrapped } from './text.ts'

/** One step of a route's plan. */
export interface StepPlan {
  readonly nr: number
  readonly id: string
  readonly plugin: string
  readonly critical: boolean
  readonly mode: StepConfig['mode']
  readonly onError: StepConfig['onError']
  readonly when: string | null
  readonly needs: readonly FactName[]
  readonly gives: readonly FactName[]
  /** As written in the policy: references to secrets stay references. */
  readonly settings: unknown
}

/** The plan of one route. */
export interface RoutePlan {
  readonly path: string
  readonly methods: readonly string[]
  readonly kind: RouteKind
  readonly policy: string
  readonly public: boolean
  readonly unmetered: boolean
  /** Whether traces contain the text of prompts and answers. */
  readonly content: boolean
  readonly steps: readonly StepPlan[]
  /** The upstream call or lookup after the last step, in words. */
  readonly behind: string
  readonly facts: readonly FactName[]
  /** Facts that exist only if the step that gives them runs. */
  readonly perhaps: readonly FactName[]
}

/** Prints the plan of every route, or of the one whose path is given. */
export async function explainPlans(
  path: string | null,
  { config, json: asJson }: { readonly config: string; readonly json: boolean },
  terminal: Terminal,
): Promise<ExitCode> {
  const loaded = await loadSimulated(terminal, config, 'cannot be explained')
  if (loaded === null) return 1
  const { configuration } = loaded
  const routes = path === null ? configuration.routes : [routeAt(configuration, path)]
  const plans = routes.map(route => planOf(route, loaded))
  if (asJson) terminal.out(json({ routes: plans.map(planJson) }))
  else terminal.out(plansText(plans))
  return 0
}

/** The route of a path. Throws a `CommandError` with the existing paths if the path is unknown. */
function routeAt({ routes }: Configuration, path: string): RouteConfig {
  const found = findRoute(routes, path)
  if (found) return found
  throw new CommandError(`no route has the path ${path}; ${otherPaths(routes, path)}`)
}

/** The route of a path. Matches `{id}` and ignores the query. */
export function findRoute(routes: readonly RouteConfig[], target: string): RouteConfig | undefined {
  const [path = ''] = target.split('?', 1)
  return routes.find(route => route.path === path) ?? routes.find(route => fits(route.path, path))
}

/** A suggestion for an unknown path. */
export function otherPaths(routes: readonly RouteConfig[], path: string): string {
  const paths = routes.map(route => route.path)
  const near = paths.find(each => each === `/v1${path}`) ?? nearest(path, paths)
  return near ? `did you mean ${near}?` : `the paths are ${listed(paths, 'and')}`
}

function fits(pattern: string, path: string): boolean {
  const [before, behind] = pattern.split('{id}') as [string, string?]
  if (behind === undefined) return false
  return path.length > before.length + behind.length && path.startsWith(before) && path.endsWith(behind)
}

export function planOf(
  route: RouteConfig,
  { configuration: { telemetry }, sources }: SimulatedConfiguration,
): RoutePlan {
  const { path, methods, kind, policy, steps } = route
  const sure = new Set(steps.steps.filter(isSure).flatMap(step => step.plugin.gives ?? []))
  const all = steps.steps.filter(step => step.mode !== 'off').flatMap(step => step.plugin.gives ?? [])
  return {
    path,
    methods,
    kind,
    policy,
    public: route.public,
    unmetered: route.unmetered,
    content: telemetry !== null && steps.tracesContent && asksModel(kind) && !route.counts,
    steps: steps.steps.map((step, at) => stepPlan(step, at, kind, settingsIn(sources, step, at))),
    behind: behindSteps(route),
    facts: [...sure],
    perhaps: [...new Set(all)].filter(fact => !sure.has(fact)),
  }
}

function stepPlan(step: StepConfig, at: number, kind: RouteKind, settings: unknown): StepPlan {
  const { id, plugin, mode, onError, when } = step
  const needs = typeof plugin.needs === 'function' ? plugin.needs(step.settings as never, kind) : (plugin.needs ?? [])
  return {
    nr: at + 1,
    id,
    plugin: plugin.name,
    critical: plugin.critical === true,
    mode,
    onError,
    when: when?.source ?? null,
    needs,
    gives: plugin.gives ?? [],
    settings,
  }
}

/** Whether a step always runs and finishes, so that its facts always exist. */
function isSure({ when, mode, onError, plugin }: StepConfig): boolean {
  return when === null && mode === 'enforce' && (onError === 'refuse' || plugin.critical === true)
}

/** The settings as written in the policy's file: loaded settings are numbers without units. */
function settingsIn(sources: ReadonlyMap<string, string>, { position }: StepConfig, at: number): unknown {
  const text = sources.get(resolve(position.file))
  const policy = text === undefined ? null : (parse(text) as { steps?: readonly { with?: unknown }[] } | null)
  return policy?.steps?.[at]?.with ?? null
}

function behindSteps({ kind, raw, path }: RouteConfig): string {
  if (raw) {
    const models = raw.models ? `, for ${listed(raw.models, 'and')} only` : ''
    return `the bytes go to the provider "${raw.provider.name}" unchanged (${raw.path || path})${models}`
  }
  if (asksModel(kind)) return 'the request is sent to the first available target'
  if (kind === 'receipt') return 'the receipt is looked up in the ledger, without a provider'
  if (kind === 'budgets') return 'the budgets are looked up in the ledger, without a provider'
  if (kind === 'response') return 'the response is looked up in the store, without a provider'
  return 'the catalog answers from this configuration, without a provider'
}

function planJson(plan: RoutePlan): object {
  const { steps, ...rest } = plan
  return { ...rest, steps: steps.map(({ onError, ...step }) => ({ ...step, on_error: onError })) }
}

const COLUMNS = [
  { title: 'NR', right: true },
  { title: 'STEP' },
  { title: 'PLUGIN' },
  { title: 'MODE' },
  { title: 'NEEDS' },
  { title: 'GIVES' },
]

/** Routes of one policy usually have the same plan, which is shown once. */
function plansText(plans: readonly RoutePlan[]): string {
  const shown = new Map<string, string>()
  return plans
    .map(plan => {
      const text = stepsText(plan)
      const before = shown.get(text)
      if (before === undefined) shown.set(text, plan.path)
      return `${headText(plan)}\n${before === undefined ? text : `  as ${before}\n`}`
    })
    .join('\n')
}

function headText({ path, methods, kind, policy, ...plan }: RoutePlan): string {
  const marks = [
    plan.public ? 'public (no key)' : '',
    plan.unmetered ? 'unmetered (no charge)' : '',
    plan.content ? 'content in traces' : '',
  ]
  const shown = marks.filter(mark => mark !== '')
  return wrapped([`${methods.join(', ')} ${path}`, kind, `policy ${policy}`, ...shown].join(' · '), '')
}

function stepsText(plan: RoutePlan): string {
  const { steps } = plan
  const rows = steps.map(step => [
    String(step.nr),
    step.id,
    step.plugin,
    modeOf(step),
    step.needs.join(', '),
    step.gives.join(', '),
  ])
  const [titles = '', ...lines] = table(COLUMNS, rows).trimEnd().split('\n')
  const body = steps.flatMap((step, at) => [lines[at]!, ...detailsOf(step)])
  return [titles, ...body, ...behindText(plan), ''].join('\n')
}

/** Texts that are too long for a column are below their step. */
function detailsOf({ when, settings }: StepPlan): string[] {
  return [
    ...(when === null ? [] : [wrapped(`when ${oneLine(when)}`, '      ')]),
    ...(settings === null ? [] : [wrapped(`with ${settingsText(settings)}`, '      ')]),
  ]
}

function behindText({ behind, facts, perhaps }: RoutePlan): string[] {
  const known = facts.length > 0 ? facts.join(', ') : 'none'
  const unsure = perhaps.length > 0 ? ` (${perhaps.join(', ')} only if the step runs)` : ''
  return [wrapped(`then  ${behind}`, '  '), wrapped(`facts there: ${known}${unsure}`, '        ')]
}

function modeOf({ mode, onError, critical }: StepPlan): string {
  const word = mode === 'enforce' && critical ? 'enforce (critical)' : mode
  return onError === 'skip' ? `${word}, skip on error` : word
}

/** Settings as a flow map of YAML, on one line. */
export function settingsText(settings: unknown): string {
  if (Array.isArray(settings)) return `[${settings.map(settingsText).join(', ')}]`
  if (typeof settings === 'object' && settings !== null) {
    const entries = Object.entries(settings).map(([name, value]) => `${name}: ${settingsText(value)}`)
    return `{ ${entries.join(', ')} }`
  }
  if (typeof settings !== 'string') return String(settings)
  const text = oneLine(settings)
  return /^[\w$./@][\w$./ :@+-]*$/.test(text) && !/: |:$/.test(text) ? text : JSON.stringify(text)
}

const oneLine = (text: string) => text.replaceAll(/\s+/g, ' ').trim()
