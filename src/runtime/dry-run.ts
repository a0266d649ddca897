/**
 * The dry run: sends test requests through each policy of a configuration before it serves, to find broken steps. One request has no key;
 * another is accepted with a made-up key and account. Nothing is sent upstream or held. Authentication and billing are simulated, and a
 * step that does not allow dry runs lets both requests pass.
 */
import { type AnyPlugin, asksModel, type Catalog, isRefusal, mistakeText, refuse, type StepMiddleware } from '#contract'
import type { Position, RouteConfig } from '../config/configuration.ts'
import { createPlan, type Plan, PlanError } from '../loader/plan.ts'
import type { Generation } from '../request/generation.ts'
import { mistakeSentence, REMEDIES } from '../request/pipeline/step-report.ts'
import { Contexts } from '../simulate/context.ts'
import { SimulatedExchange } from '../simulate/exchange.ts'
import { ACCOUNT, KEY, type RealServices, servicesFor, standInServices } from '../simulate/services.ts'
import { identifies, identify, passOn, roleOf, standIn } from '../simulate/steps.ts'

/** How long the steps may take to decide, and each to return. Limited, because a step may hang. */
const GRACE_MS = 1000

/** A mistake that the dry run found in a policy. */
export interface Mistake {
  readonly policy: string
  /** The id of the step; null: the mistake is not a single step's. */
  readonly step: string | null
  /** One sentence without the place in the policy. */
  readonly message: string
  /** The remedy, which follows that sentence after a semicolon. */
  readonly suggestion?: string | undefined
  /** The position of the step, or of the policy's first one. */
  readonly position: Position
}

/**
 * Runs every policy that a route uses: `reload` does so before a changed configuration serves, `check` for a test. Returns the first
 * mistake of each policy.
 *
 * @param services the real services; others are simulated
 * @param run the `run` that steps see
 */
export async function runDry(
  routes: readonly RouteConfig[],
  services: RealServices,
  run: 'check' | 'reload',
): Promise<Mistake[]> {
  // A new clock object, because steps use it as the key of shared data.
  const own: RealServices = { ...services, clock: { now: () => services.clock.now() } }
  const contexts = new Contexts()
  const tried = new Set<string>()
  const mistakes: Mistake[] = []
  for (const route of routes) {
    if (tried.has(route.policy)) continue
    tried.add(route.policy)
    const mistake = await tryRoute(contexts, route, own, run)
    if (mistake !== null) mistakes.push(mistake)
  }
  contexts.dispose()
  return mistakes
}

/** The steps that the dry run skips, as `policy/step`: whether they let a request pass is unknown. */
export function skippedByDryRun({ routes }: Pick<Generation, 'routes'>): string[] {
  const plans = [...new Set(routes.map(({ plan }) => plan))]
  return plans.flatMap(({ name, steps }) =>
    steps.filter(step => step.mode !== 'off' && roleOf(step) === 'decides').map(({ id }) => `${name}/${id}`),
  )
}

async function tryRoute(
  contexts: Contexts,
  route: RouteConfig,
  services: RealServices,
  run: 'check' | 'reload',
): Promise<Mistake | null> {
  const policy = route.steps.name
  let plan: Plan
  try {
    plan = dryRunPlan(route.steps, services, run)
  } catch (error) {
    if (!(error instanceof PlanError)) throw error
    return { policy, step: error.step, message: error.reason, position: positionOf(route, error.step) }
  }
  const body = bodyFor(route, services.catalog)
  const hasAuthentication = plan.steps.some(step => identifies(step.plugin))
  const identified = plan.steps.map(step =>
    identifies(step.plugin) ? { ...step, handle: acceptMadeUpKey(step.plugin), decide: null, after: null } : step,
  )
  try {
    // First without a key, at most up to the authentication; then with the made-up key.
    const mistake = await tryPlan(contexts, route, plan, body)
    if (mistake !== null || !hasAuthentication) return mistake
    return await tryPlan(contexts, route, { ...plan, steps: identified }, body)
  } finally {
    await plan.dispose().catch(() => {})
  }
}

function positionOf({ steps: { steps } }: RouteConfig, id: string | null): Position {
  return (steps.find(step => step.id === id) ?? steps[0]!).position
}

/** Creates a policy's steps again, with services that keep nothing, and with replacements of the steps that may not run here. */
function dryRunPlan({ name, steps }: RouteConfig['steps'], services: RealServices, run: 'check' | 'reload'): Plan {
  const tried = steps.map(step => standIn(step, insteadOf(step)))
  return createPlan(name, tried, ({ plugin }) => servicesFor(plugin, standInServices(services)), run)
}

function insteadOf(step: RouteConfig['steps']['steps'][number]): StepMiddleware | null {
  switch (roleOf(step)) {
    case 'runs':
      return null
    case 'identifies':
      return acceptMadeUpKey(step.plugin)
    // Without the facts of this step, the results of later steps mean nothing.
    case 'decides':
      return step.plugin.gives?.length ? endRun : passOn
    case 'records':
      return passOn
  }
}

function acceptMadeUpKey(plugin: AnyPlugin): StepMiddleware {
  return ({ exchange }, next) => {
    identify(plugin, exchange, KEY, ACCOUNT)
    return next()
  }
}

const endRun: StepMiddleware = async () => {
  throw refuse('shutting_down')
}

/** A minimal body, for the first model if the route calls one. */
function bodyFor({ kind }: RouteConfig, catalog: Catalog): Buffer {
  if (!asksModel(kind)) return Buffer.from('{}')
  const models = catalog.list().filter(model => model.enabled)
  const model = models.find(each => each.public) ?? models[0]
  return Buffer.from(JSON.stringify({ model: model?.id, messages: [{ role: 'user', content: 'Hello' }] }))
}

async function tryPlan(contexts: Contexts, route: RouteConfig, plan: Plan, body: Buffer): Promise<Mistake | null> {
  const headers = { 'content-type': 'application/json' }
  const exchange = new SimulatedExchange({
    id: 'req_dry_run',
    route,
    plan,
    ctx: contexts.koa({ method: route.methods[0] ?? 'GET', path: route.path, headers }),
    bytes: body,
    send: async () => {
      throw refuse('shutting_down')
    },
  })
  let mistake: Mistake | null = null
  const giveUp = setTimeout(() => exchange.stop('cut', 'the dry run is over'), GRACE_MS)
  const error = await exchange.play({
    reportStep(report) {
      const { step } = report
      const suggestion = REMEDIES[report.mistake]
      const position = positionOf(route, step)
      mistake ??= { policy: plan.name, step, message: mistakeSentence(report), suggestion, position }
    },
    stepGraceMs: GRACE_MS,
  })
  clearTimeout(giveUp)
  if (error !== null && !isRefusal(error)) {
    mistake ??= { policy: plan.name, step: null, message: mistakeText(error), position: positionOf(route, null) }
  }
  return mistake
}
