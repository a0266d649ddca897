/**
 * ONE request from top to bottom. Read this file first: it opens the exchange, reads the body, runs the steps, sends,
 * ends and records. It introduces the parts to each other; they do not know one another.
 */
import type { Context } from 'koa'
import { envelope, isRefusal, type Refusal, refuse, retryHeaders } from '#contract'
import { Client } from './answer/client.ts'
import { Meter } from './answer/meter.ts'
import { whenFacts } from './config/when.ts'
import { scanJson } from './dialects/json-scan.ts'
import type { Generation, LiveRoute } from './generation.ts'
import { type BodyBudget, type ReadBody, readBody } from './http/body.ts'
import { LiveExchange } from './pipeline/exchange.ts'
import { runPlan } from './pipeline/runner.ts'
import { answerEarly, sendChat } from './send/chat.ts'
import { sendModel, sendModels, sendReceipt } from './send/lookup.ts'
import { sendRaw } from './send/raw.ts'
import type { SenderParts, Trip } from './send/trip.ts'

export interface GatewayParts extends SenderParts {
  /** The generation in which new exchanges begin. */
  generation(): Generation
  /** A step may go on for so long after the answer is over. */
  readonly stepGraceMs: number
  /** Called once for each exchange, when all is said and done. */
  record(trip: Trip, ending: { readonly status: number; readonly refusal: Refusal | null }): void
  /** An error that nobody expected. */
  reportBug(exchange: string, error: unknown): void
}

export interface Gateway {
  /** One request on a route; `ctx.state.requestId` is set. Never rejects. */
  handle(ctx: Context, route: LiveRoute): Promise<void>
  /** Exchanges under way. */
  inflight(): number
  /** New exchanges are refused from now on. */
  drain(): void
  /** Ends every exchange under way: streams with an error event; each is settled. Who takes nothing is waited for briefly. */
  cut(): void
  /** Resolves when no exchange is under way. */
  idle(): Promise<void>
}

export function createGateway(parts: GatewayParts): Gateway {
  const trips = new Set<Trip>()
  const budget: BodyBudget = { limitBytes: parts.generation().configuration.limits.bodyBytesInflight, inflightBytes: 0 }
  const waiting: (() => void)[] = []
  let draining = false

  async function handle(ctx: Context, route: LiveRoute): Promise<void> {
    // 1. Open: from the first moment somebody notices when the client leaves.
    ctx.respond = false
    const generation = parts.generation()
    const trip = openTrip(ctx, route, generation)
    let body: ReadBody | null = null
    let refusal: Refusal | null = null
    try {
      // 2. Is there room?
      if (draining) throw refuse('shutting_down', { retryAfterMs: 1000 })
      if (trips.size >= generation.configuration.limits.maxInflight) throw refuse('overloaded', { retryAfterMs: 1000 })
      trips.add(trip)
      // 3. Read the body, all of it: every step may want to look.
      body = await readBody(ctx.req, generation.configuration.limits.bodyBytes, budget)
      trip.exchange.bytes = body.bytes
      // 4. The steps, in the order of the policy; behind the last one, `send`.
      await runPlan({
        plan: route.plan,
        ctx,
        exchange: trip.exchange,
        innermost: async () => send(trip),
        facts: () =>
          whenFacts({ method: ctx.method, path: ctx.path, get: name => ctx.get(name), exchange: trip.exchange }),
        report: parts.reportStep,
        graceMs: parts.stepGraceMs,
      })
      // 5. The end: what was kept back leaves, now that the charge is committed.
      finish(trip)
    } catch (error) {
      refusal = toRefusal(trip, error)
      fail(trip, refusal)
    } finally {
      // 6. Record.
      body?.release()
      trip.client.release()
      parts.record(trip, {
        status: ctx.res.headersSent ? ctx.res.statusCode : (refusal?.status ?? ctx.status),
        refusal,
      })
      // It is over when the client's side is: until then its bytes wait here.
      void trip.client.flushed.then(() => over(trip))
    }
  }

  function over(trip: Trip): void {
    trips.delete(trip)
    if (trips.size === 0) for (const resolve of waiting.splice(0)) resolve()
  }

  function openTrip(ctx: Context, route: LiveRoute, generation: Generation): Trip {
    const { limits, heartbeat } = generation.configuration
    const meter = new Meter()
    const exchange = new LiveExchange({
      id: ctx.state['requestId'] as string,
      startedAt: parts.clock.now(),
      route: route.config,
      plan: route.plan,
      address: ctx.state['address'] as string,
      idempotencyKey: ctx.get('idempotency-key').slice(0, 255) || null,
      parse: parseJson,
      progress: meter,
      answer: (completion, taps) => answerEarly(trip, parts, completion, taps),
    })
    const client = new Client(ctx.res, {
      watchman: parts.watchman,
      stallMs: limits.stallMs,
      heartbeat,
      onLeave: () => stop(trip, 'client_left'),
    })
    const trip: Trip = {
      ctx,
      route,
      generation,
      exchange,
      client,
      meter,
      stopped: null,
      onStop: null,
      stream: null,
      finish: null,
    }
    ctx['exchange'] = exchange
    return trip
  }

  async function send(trip: Trip): Promise<void> {
    const { ctx } = trip
    if (ctx.method === 'OPTIONS') throw refuse('method_not_allowed')
    switch (trip.route.config.kind) {
      case 'chat':
        return sendChat(trip, parts)
      case 'raw':
        return sendRaw(trip, parts)
      case 'models':
        return sendModels(trip)
      case 'model':
        return sendModel(trip, ctx.state['id'] as string)
      case 'receipt':
        return sendReceipt(trip, parts, ctx.state['id'] as string)
    }
  }

  /** Anything that went wrong as something that a client can be told. */
  function toRefusal({ exchange }: Trip, error: unknown): Refusal {
    exchange.outcome ??= isRefusal(error) ? 'refused' : 'failed'
    if (isRefusal(error)) return error
    parts.reportBug(exchange.id, error)
    return refuse('internal_error', { cause: error })
  }

  return {
    handle,
    inflight: () => trips.size,
    drain() {
      draining = true
      // An answer that is still to come says so: the next request must not come on its connection.
      for (const trip of trips) trip.ctx.res.shouldKeepAlive = false
    },
    cut() {
      for (const trip of trips) {
        stop(trip, 'cut')
        trip.client.hurry()
      }
    },
    idle: () => (trips.size === 0 ? Promise.resolve() : new Promise(resolve => waiting.push(resolve))),
  }
}

/**
 * Ends a trip from outside. The sender, when there is one, decides what may still be waited for; a cut also reaches an
 * answer that is read on although its client has left.
 */
function stop(trip: Trip, why: 'client_left' | 'cut'): void {
  if (trip.stopped === 'cut' || trip.stopped === why) return
  trip.stopped = why
  trip.exchange.abortController.abort(new Error(why === 'cut' ? 'the gateway is shutting down' : 'the client has left'))
  trip.onStop?.()
}

/** Lets the answer out. A Koa middleware that answered by itself has left it on `ctx`, and Koa sends it. */
function finish(trip: Trip): void {
  if (trip.finish) trip.finish()
  else if (trip.exchange.answered) {
    trip.exchange.outcome ??= 'answered'
    trip.ctx.respond = true
  }
}

/** Tells the client: with a status while there is still one to give, else as the stream's last event. */
function fail({ ctx, client, stream }: Trip, refusal: Refusal): void {
  if (client.headSent) {
    stream?.fail(refusal)
    return
  }
  // A step may have said what the answer cost that is now not sent.
  ctx.remove('x-tollgate-cost')
  sendRefusal(ctx, refusal, (status, headers, body) => client.sendWhole(status, headers, body))
}

/** The JSON error with the headers that client libraries look for; also used before there is an exchange. */
export function sendRefusal(
  ctx: Context,
  refusal: Refusal,
  send: (status: number, headers: Record<string, string>, body: string) => void,
): void {
  const unread = !ctx.req.complete
  const headers: Record<string, string> = {
    ...refusal.headers,
    ...retryHeaders(refusal),
    'content-type': 'application/json',
    'cache-control': 'no-store',
    // What is still coming of the body would be taken for the next request.
    ...(unread ? { connection: 'close' } : {}),
  }
  send(refusal.status, headers, JSON.stringify(envelope(refusal)))
}

/** The body as JSON: scanned first, because the parser itself has no limits. */
function parseJson(bytes: Buffer): unknown {
  if (bytes.length === 0) throw refuse('invalid_json', { message: 'The body is empty; a JSON object is expected.' })
  const scan = scanJson(bytes)
  if (!scan.ok) throw refuse(scan.problem.code, { message: scan.problem.message, param: scan.problem.param })
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (cause) {
    throw refuse('invalid_json', { cause })
  }
}
