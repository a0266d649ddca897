/**
 * Requests to nobody through each policy of a configuration that does not serve yet: a step that breaks on them is found
 * before it meets a client. One comes without a key, as far as the policy lets it; one is let in as a made-up key and account.
 * Nothing is sent, nothing is held: what identifies and what pays are played, and a step that does not say that it may run
 * here lets both pass.
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

/** So long the steps may take until somebody is refused, and then each to return: nobody waits for a step that hangs. */
const GRACE_MS = 1000

/** What went wrong in the dry run of a policy. */
export interface Mistake {
  readonly policy: string
  /** The id of the step; null: no step alone is at fault. */
  readonly step: string | null
  /** One sentence without the place in the policy. */
  readonly message: string
  /** What to change, continuing that sentence after a semicolon. */
  readonly suggestion?: string | undefined
  /** Of the step, or of the policy's first one. */
  readonly position: Position
}

/**
 * The dry run of every policy that a route uses: `reload` does it before a changed configuration serves, `check` in place of
 * that. Answers with the first mistake of each policy.
 *
 * @param services what is as it will be; the others are played
 * @param run what the steps are told of where they run
 */
export async function runDry(
  routes: readonly RouteConfig[],
  services: RealServices,
  run: 'check' | 'reload',
): Promise<Mistake[]> {
  // A clock of its own, because steps keep by it what they share.
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

/** The steps that the dry run does not run, as `policy/step`: nobody knows whether they let a request pass. */
export function notDryRun({ routes }: Pick<Generation, 'routes'>): string[] {
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
  const asksWho = plan.steps.some(step => identifies(step.plugin))
  const identified = plan.steps.map(step =>
    identifies(step.plugin) ? { ...step, handle: letIn(step.plugin), decide: null, after: null } : step,
  )
  try {
    // As nobody, for those who ask who it is; then behind them.
    const mistake = await tryPlan(contexts, route, plan, body)
    if (mistake !== null || !asksWho) return mistake
    return await tryPlan(contexts, route, { ...plan, steps: identified }, body)
  } finally {
    await plan.dispose().catch(() => {})
  }
}

function positionOf({ steps: { steps } }: RouteConfig, id: string | null): Position {
  return (steps.find(step => step.id === id) ?? steps[0]!).position
}

/** A policy's steps once more, over services that keep nothing; something else stands for those that are not run here. */
function dryRunPlan({ name, steps }: RouteConfig['steps'], services: RealServices, run: 'check' | 'reload'): Plan {
  const tried = steps.map(step => standIn(step, insteadOf(step)))
  return createPlan(name, tried, ({ plugin }) => servicesFor(plugin, standInServices(services)), run)
}

function insteadOf(step: RouteConfig['steps']['steps'][number]): StepMiddleware | null {
  switch (roleOf(step)) {
    case 'runs':
      return null
    case 'identifies':
      return letIn(step.plugin)
    // What later steps do without what it gives says nothing.
    case 'decides':
      return step.plugin.gives?.length ? ends : passOn
    case 'records':
      return passOn
  }
}

/** Lets the made-up key in. */
function letIn(plugin: AnyPlugin): StepMiddleware {
  return ({ exchange }, next) => {
    identify(plugin, exchange, KEY, ACCOUNT)
    return next()
  }
}

const ends: StepMiddleware = async () => {
  throw refuse('shutting_down')
}

/** The least that may be asked: of the first model, where one is asked. */
function bodyFor({ kind }: RouteConfig, catalog: Catalog): Buffer {
  if (!asksModel(kind)) return Buffer.from('{}')
  const models = catalog.list().filter(model => model.enabled)
  const model = models.find(each => each.public) ?? models[0]
  return Buffer.from(JSON.stringify({ model: model?.id, messages: [{ role: 'user', content: 'Hello' }] }))
}

async function tryPlan(contexts: Contexts, route: RouteConfig, plan: Plan, body: Buffer): Promise<Mistake | null> {
  const headers = { 'content-type': 'application/json' }
  const exchange = new SimulatedExchange({
    id: 'req_rehearsal',
    route,
    plan,
    ctx: contexts.koa({ method: route.methods[0] ?? 'GET', path: route.path, headers }),
    bytes: body,
    send: async () => {
      throw refuse('shutting_down')
    },
  })
  let mistake: Mistake | null = null
  const giveUp = setTimeout(() => exchange.stop('cut', 'the dryRun is over'), GRACE_MS)
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
