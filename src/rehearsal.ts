/**
 * Requests to nobody through each plan of a generation that does not serve yet: a step that breaks on them is found before
 * it meets a client. One comes without a key, as far as the policy lets it; one is let in as a made-up key and account.
 * Nothing is sent, nothing is held: what identifies and what pays are played, and a step that does not say that it may run
 * here lets both pass.
 */
import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import Koa from 'koa'
import { asksModel, type Catalog, isRefusal, type Progress, refuse } from '#contract'
import { whenFacts } from './config/when.ts'
import type { Generation, LiveRoute } from './generation.ts'
import { LiveExchange, NOTHING_USED } from './pipeline/exchange.ts'
import { createPlan, type Plan, type PlannedStep } from './pipeline/plan.ts'
import { runsDry, saysWho } from './pipeline/played.ts'
import { identityOf, insteadOf, isPlayed, type RealServices, servicesFor } from './pipeline/rehearsed.ts'
import { runPlan } from './pipeline/runner.ts'

/** So long the steps may take until somebody is refused, and then each to return: nobody waits for a step that hangs. */
const GRACE_MS = 1000

/** Answers with the first mistake of a step, as a sentence; null when there is none. */
export async function rehearse(
  { routes, catalog, board }: Pick<Generation, 'routes' | 'catalog' | 'board'>,
  time: Pick<RealServices, 'clock' | 'random'>,
): Promise<string | null> {
  // A clock of its own, because steps keep by it what they share.
  const clock = { now: () => time.clock.now() }
  const services = { catalog, targets: board, random: time.random, clock }
  const app = new Koa()
  app.silent = true
  const tried = new Set<unknown>()
  for (const route of routes) {
    if (tried.has(route.plan)) continue
    tried.add(route.plan)
    const mistake = await tryRoute(app, route, services)
    if (mistake !== null) return mistake
  }
  return null
}

/** The steps that the rehearsal does not run, as `policy/step`: nobody knows whether they let a request pass. */
export function notRehearsed({ routes }: Pick<Generation, 'routes'>): string[] {
  const plans = [...new Set(routes.map(({ plan }) => plan))]
  return plans.flatMap(({ name, steps }) =>
    steps
      .filter(step => step.mode !== 'off' && !step.plugin.records && !saysWho(step.plugin) && !runsDry(step))
      .map(({ id }) => `${name}/${id}`),
  )
}

async function tryRoute(app: Koa, route: LiveRoute, services: RealServices): Promise<string | null> {
  let plan: Plan
  try {
    plan = rehearsalPlan(route.plan, services)
  } catch (error) {
    return (error as Error).message
  }
  const body = bodyFor(route, services.catalog)
  const identified = plan.steps.map(step => ({ ...step, handle: identityOf(step.plugin) ?? step.handle }))
  const asksWho = plan.steps.some(step => identityOf(step.plugin) !== null)
  try {
    // As nobody, for those who ask who it is; then behind them.
    const mistake = await tryPlan(app, route, plan, body)
    if (mistake !== null || !asksWho) return mistake
    return await tryPlan(app, route, { ...plan, steps: identified }, body)
  } finally {
    await plan.dispose().catch(() => {})
  }
}

/**
 * The generation's own steps, but for those that would leave a trace in the store: they are created once more, over services
 * that keep nothing, and let go of afterwards.
 */
function rehearsalPlan(plan: Plan, services: RealServices): Plan {
  const steps = plan.steps.map((step): PlannedStep => {
    const handle = insteadOf(step) ?? step.handle
    return isPlayed(step) ? step : { ...step, plugin: { ...step.plugin, create: () => handle } }
  })
  return createPlan(plan.name, steps, step => servicesFor(step.plugin, services), 'reload')
}

/** The least that may be asked: of the first model, where one is asked. */
function bodyFor({ config }: LiveRoute, catalog: Catalog): Buffer {
  if (!asksModel(config.kind)) return Buffer.from('{}')
  const models = catalog.list().filter(model => model.enabled)
  const model = models.find(each => each.public) ?? models[0]
  return Buffer.from(JSON.stringify({ model: model?.id, messages: [{ role: 'user', content: 'Hello' }] }))
}

async function tryPlan(app: Koa, route: LiveRoute, plan: Plan, body: Buffer): Promise<string | null> {
  const socket = new Socket()
  const request = new IncomingMessage(socket)
  request.method = route.config.methods[0] ?? 'GET'
  request.url = route.config.path
  request.headers['content-type'] = 'application/json'
  const ctx = app.createContext(request, new ServerResponse(request))
  const exchange = new LiveExchange({
    id: 'req_rehearsal',
    startedAt: 0,
    route: route.config,
    plan,
    address: '127.0.0.1',
    idempotencyKey: null,
    parse: bytes => JSON.parse(bytes.toString()) as unknown,
    translate: null,
    progress: NOTHING_YET,
    answer: async () => {},
  })
  exchange.bytes = body
  ctx['exchange'] = exchange
  let mistake: string | null = null
  const giveUp = setTimeout(() => exchange.abortController.abort(new Error('the rehearsal is over')), GRACE_MS)
  try {
    await runPlan({
      plan,
      ctx,
      exchange,
      receive: async () => {},
      innermost: async () => {
        throw refuse('shutting_down')
      },
      facts: () => whenFacts({ method: ctx.method, path: ctx.path, get: name => ctx.get(name), exchange }),
      report({ step, what, error }) {
        mistake ??= `policy ${route.plan.name}, step "${step}": ${what}${error instanceof Error ? `: ${error.message}` : ''}`
      },
      graceMs: GRACE_MS,
    })
  } catch (error) {
    if (!isRefusal(error)) mistake ??= `policy ${route.plan.name}: ${(error as Error).message}`
  } finally {
    clearTimeout(giveUp)
    socket.destroy()
  }
  return mistake
}

const NOTHING_YET: Progress = {
  started: false,
  finished: false,
  delivered: false,
  left: false,
  abandoned: false,
  countedTokens: 0,
  estimate: NOTHING_USED,
}
