/**
 * ONE request from top to bottom. Read this file first: it opens the exchange, reads the body, runs the steps, sends,
 * ends and records. It introduces the parts to each other; they do not know one another.
 */
import type { Context } from 'koa'
import { decidedBy, isRefusal, type Refusal, refuse, type Sliced, type Stage, slices } from '#contract'
import { Client } from './answer/client.ts'
import { Meter } from './answer/meter.ts'
import { whenFacts } from './config/when.ts'
import { inboundOf } from './dialects/inbound/index.ts'
import { parseInSlices, parseJson } from './dialects/json-parse.ts'
import { refusalOfLost } from './dialects/lost.ts'
import type { Generation, LiveRoute } from './generation.ts'
import { type ReadBody, readBody } from './http/body.ts'
import { parseArrived } from './http/linger.ts'
import { refuseBody } from './http/malformed.ts'
import { createVia } from './http/via.ts'
import { LiveExchange } from './pipeline/exchange.ts'
import { runPlan } from './pipeline/runner.ts'
import { sendChat } from './send/chat.ts'
import { sendCount } from './send/count.ts'
import { answerEarly } from './send/early.ts'
import { keepAnswer, sendKept } from './send/kept.ts'
import { type FindRecent, sendModel, sendModels, sendReceipt } from './send/lookup.ts'
import { createMemory, ownerOf } from './send/memory.ts'
import { noteRawModel, sendRaw } from './send/raw.ts'
import type { TripEnding } from './send/record.ts'
import { errorBody, sendRefusal } from './send/refusal.ts'
import type { SenderParts, Trip } from './send/trip.ts'
import { readKeptAhead, viewOf } from './send/view.ts'

export interface GatewayParts extends SenderParts {
  /** The generation in which new exchanges begin. */
  generation(): Generation
  /** An exchange begins in a generation, and is over. */
  entered(generation: Generation): void
  left(generation: Generation): void
  /** A step may go on for so long after the answer is over. */
  readonly stepGraceMs: number
  /** Called once for each exchange, when all is said and done. */
  record(trip: Trip, ending: TripEnding): void
  /** Of the last exchanges that are over; left out: none is remembered. */
  readonly findRecent?: FindRecent
  /** An error that nobody expected. */
  reportBug(exchange: string, error: unknown): void
}

export interface Gateway {
  /** One request on a route of that generation; `ctx.state.requestId` is set. Never rejects. */
  handle(ctx: Context, route: LiveRoute, generation: Generation): Promise<void>
  /** Exchanges under way: those whose bodies have come, which `max_inflight` bounds. */
  inflight(): number
  /** All that are under way, the oldest first; also those whose bodies are still coming. */
  trips(): readonly Trip[]
  /** New exchanges are refused from now on. */
  drain(): void
  /** Ends every exchange under way: streams with an error event; each is settled. Who takes nothing is waited for briefly. */
  cut(): void
  /** Resolves when no exchange is under way. */
  idle(): Promise<void>
}

export function createGateway(parts: GatewayParts): Gateway {
  /** All of them: the gateway ends when there is none. */
  const trips = new Set<Trip>()
  /** Those whose bodies are still coming, the longest waiting first. */
  const arriving = new Set<Trip>()
  /** Those whose bodies have come. */
  const admitted = new Set<Trip>()
  const memory = createMemory(() => parts.generation().configuration.limits)
  const via = createVia()
  const waiting: (() => void)[] = []
  let draining = false

  async function handle(ctx: Context, route: LiveRoute, generation: Generation): Promise<void> {
    // 1. Open: from the first moment somebody notices when the client leaves.
    ctx.respond = false
    parts.entered(generation)
    const onward = via.onward(ctx.req.headers.via)
    const trip = openTrip(ctx, route, generation, onward ?? '')
    let refusal: Refusal | null = null
    let stage: Stage = 'gateway'
    let decider: string | null = null
    try {
      // 2. Was it us who sent it, and is there room?
      if (onward === null) throw refuse('loop_detected')
      if (draining) throw refuse('shutting_down', { retryAfterMs: 1000 })
      checkRoom(generation)
      trips.add(trip)
      // 3. The steps, in the order of the policy. The body is read before the first one that needs it: every step from
      // there on may want to look at all of it. Behind the last one, `send`.
      await runPlan({
        plan: route.plan,
        ctx,
        exchange: trip.exchange,
        receive: async () => {
          await receive(trip)
          stage = 'send'
        },
        innermost: async () => send(trip),
        facts: () =>
          whenFacts({ method: ctx.method, path: ctx.path, get: name => ctx.get(name), exchange: trip.exchange }),
        report: parts.reportStep,
        graceMs: parts.stepGraceMs,
      })
      // 4. The end: what was kept back leaves, now that the charge is committed.
      stage = 'gateway'
      finish(trip)
      if (trip.kept) keepAnswer(trip, parts)
      if (trip.exchange.answered) decider = decidedBy(trip.exchange.trail, null, stage)
    } catch (error) {
      const reason = toRefusal(trip, error)
      if (!trip.body) await parseArrived(ctx.req)
      decider = decidedBy(trip.exchange.trail, reason, stage)
      refusal = tell(trip, reason, decider)
      // It could not be told: what was told in its place is nobody's decision.
      if (refusal !== reason) decider = 'gateway'
    } finally {
      // 5. Record.
      trip.body?.release()
      trip.kept?.release()
      trip.client.release()
      record(trip, refusal, decider)
      // It is over when the client's side is: until then its bytes wait here.
      void trip.client.flushed.then(() => over(trip))
    }
  }

  /** What goes wrong here must not keep the exchange open. */
  function record(trip: Trip, refusal: Refusal | null, decidedBy: string | null): void {
    const { res, status } = trip.ctx
    try {
      parts.record(trip, {
        status: res.headersSent ? res.statusCode : (refusal?.status ?? status),
        refusal,
        decidedBy,
      })
    } catch (error) {
      parts.reportBug(trip.exchange.id, error)
    }
  }

  function checkRoom(generation: Generation): void {
    if (admitted.size < generation.configuration.limits.maxInflight) return
    throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many exchanges under way' })
  }

  /** The body has to come: from here on the exchange counts as one that may be sent on. */
  async function receive(trip: Trip): Promise<void> {
    trip.body = await read(trip)
    checkRoom(trip.generation)
    trip.exchange.bytes = trip.body.bytes
    if (trip.route.config.kind === 'raw') noteRawModel(trip)
    admitted.add(trip)
    if (trip.body.bytes.length > LONG_BODY_BYTES && trip.route.config.kind !== 'raw') await parseAhead(trip.exchange)
    const { config } = trip.route
    if (config.keepResponsesMs !== null) await readKeptAhead(trip, inboundOf(config), parts, memory)
  }

  /**
   * Bodies that do not come must not keep out those that do: as many as `max_inflight` may be coming beside the exchanges
   * under way. Of more, one is given up: the slowest of whoever sends the most.
   */
  async function read(trip: Trip): Promise<ReadBody> {
    const { maxInflight, bodyBytes } = trip.generation.configuration.limits
    if (arriving.size >= maxInflight) giveUpSlowest()
    arriving.add(trip)
    try {
      return await readBody(trip.ctx.req, trip.ctx.res, bodyBytes, memory.forBody(trip))
    } catch (error) {
      // It broke off because its client has gone, or the gateway is going.
      trip.exchange.outcome ??= trip.stopped
      throw error
    } finally {
      arriving.delete(trip)
    }
  }

  function giveUpSlowest(): void {
    const counts = new Map<string, number>()
    for (const trip of arriving) counts.set(ownerOf(trip), (counts.get(ownerOf(trip)) ?? 0) + 1)
    const most = Math.max(...counts.values())
    const slowest = [...arriving].find(trip => counts.get(ownerOf(trip)) === most)!
    arriving.delete(slowest)
    refuseBody(
      slowest.ctx.req,
      refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bodies are coming, and this one took longest' }),
    )
  }

  function over(trip: Trip): void {
    memory.countAnswer(trip, 0)
    trips.delete(trip)
    admitted.delete(trip)
    parts.left(trip.generation)
    if (trips.size === 0) for (const resolve of waiting.splice(0)) resolve()
  }

  function openTrip(ctx: Context, route: LiveRoute, generation: Generation, onward: string): Trip {
    const { limits, heartbeat } = generation.configuration
    const meter = new Meter()
    const id = ctx.state['requestId'] as string
    const startedAt = parts.clock.now()
    const inbound = inboundOf(route.config)
    if (inbound?.idHeader) ctx.res.setHeader(inbound.idHeader, id)
    const exchange = new LiveExchange({
      id,
      startedAt,
      route: route.config,
      plan: route.plan,
      address: ctx.state['address'] as string,
      idempotencyKey: ctx.get('idempotency-key').slice(0, 255) || null,
      parse: parseJson,
      translate: inbound ? body => inbound.decodeRequest(body, viewOf(trip, parts, memory)) : null,
      refusalOfLost: inbound && route.plan.refusesTools && !route.config.counts ? refusalOfLostTool : null,
      progress: meter,
      answer: (completion, taps) => answerEarly(trip, parts, completion, taps),
    })
    const client = new Client(ctx.res, {
      watchman: parts.watchman,
      stallMs: limits.stallMs,
      heartbeat,
      onWhole: bytes => memory.countAnswer(trip, bytes),
      onLeave: () => stop(trip, 'client_left'),
    })
    const trip: Trip = {
      ctx,
      route,
      generation,
      exchange,
      client,
      meter,
      via: onward,
      body: null,
      form: null,
      kept: null,
      answerBytes: 0,
      network: null,
      asking: null,
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
      case 'messages':
      case 'responses':
        if (trip.route.config.counts) return sendCount(trip, parts)
        // A long body is written anew as it is parsed: when it is its turn.
        if (trip.exchange.bytes.length > LONG_BODY_BYTES) await slices.run(ownTurn(), trip.exchange.signal)
        // A stream waits at the provider, not here.
        if (!trip.exchange.chat?.stream) memory.reserveAnswer(trip)
        return sendChat(trip, parts, memory)
      case 'raw':
        memory.reserveAnswer(trip)
        return sendRaw(trip, parts, memory)
      case 'models':
        return sendModels(trip)
      case 'model':
        return sendModel(trip, ctx.state['id'] as string)
      case 'receipt':
        return sendReceipt(trip, parts, ctx.state['id'] as string)
      case 'response':
        return sendKept(trip, parts, ctx.state['id'] as string)
    }
  }

  /** Anything that went wrong as something that a client can be told. */
  function toRefusal({ exchange }: Trip, error: unknown): Refusal {
    exchange.outcome ??= isRefusal(error) ? 'refused' : 'failed'
    if (isRefusal(error)) return exchange.asAsked(error)
    parts.reportBug(exchange.id, error)
    return refuse('internal_error', { cause: error })
  }

  /** Tells the client, whatever it takes: silence would let it wait for ever. Returns what it was told. */
  function tell(trip: Trip, refusal: Refusal, decider: string | null): Refusal {
    const { exchange, ctx, client } = trip
    try {
      fail(trip, refusal, decider)
      return refusal
    } catch (error) {
      parts.reportBug(exchange.id, error)
      const plain = refuse('internal_error', { cause: error })
      try {
        // Whatever a step has set may be what cannot be sent.
        for (const name of ctx.res.getHeaderNames()) if (name !== 'x-request-id') ctx.res.removeHeader(name)
        fail(trip, plain, 'gateway')
      } catch (again) {
        parts.reportBug(exchange.id, again)
        client.destroy()
      }
      return plain
    }
  }

  /** Tells the client: with a status while there is still one to give, else as the stream's last event. */
  function fail({ ctx, client, stream, exchange, route }: Trip, refusal: Refusal, decider: string | null): void {
    if (client.headSent) {
      if (stream) stream.fail(refusal)
      else if (!ctx.res.writableEnded) client.destroy()
      return
    }
    // A step may have said what the answer cost that is now not sent.
    ctx.remove('x-tollgate-cost')
    sendRefusal(
      ctx,
      refusal,
      exchange.inbound?.encodeError?.(refusal) ?? errorBody(ctx.req, route.config.kind, refusal, exchange.id),
      (status, headers, body) => client.sendWhole(status, headers, body),
      {
        decidedBy: decider,
        dropped: name =>
          parts.log.error({ exchange: exchange.id, header: name }, 'a header of a refusal cannot be sent'),
      },
    )
  }

  return {
    handle,
    inflight: () => admitted.size,
    trips: () => [...trips],
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

/** A tool that no target can make good is refused before credit is held. */
function refusalOfLostTool(dropped: readonly string[]): Refusal | null {
  return refusalOfLost({ dropped }, { dropped: [] }, 'refuse_tools')
}

/** A body of this size takes milliseconds to scan and as many to parse. */
const LONG_BODY_BYTES = 512 * 1024

function* ownTurn(): Sliced<void> {
  yield
}

/** Parses a long body in turns of the event loop, before the first step asks for it: others run between. */
async function parseAhead(exchange: LiveExchange): Promise<void> {
  try {
    const body = await slices.run(parseInSlices(exchange.bytes), exchange.signal)
    if (body !== undefined) exchange.setJson(body)
  } catch (error) {
    // The step that asks for the body is the one that refuses it.
    if (isRefusal(error)) exchange.refuseJson(error)
  }
}

/**
 * Ends a trip from outside. The sender, when there is one, decides what may still be waited for; a cut also reaches an
 * answer that is read on although its client has left.
 */
function stop(trip: Trip, why: 'client_left' | 'cut'): void {
  if (trip.stopped === 'cut' || trip.stopped === why) return
  trip.stopped = why
  trip.exchange.abort(new Error(why === 'cut' ? 'the gateway is shutting down' : 'the client has left'))
  trip.onStop?.()
}

/**
 * Lets the answer out. A Koa middleware that answered by itself has left it on `ctx`, and Koa sends it. Throws when there
 * is none although somebody waits for it, or when it cannot be sent.
 */
function finish(trip: Trip): void {
  const { exchange, client, ctx } = trip
  try {
    if (trip.finish) trip.finish()
    else if (exchange.answered) {
      exchange.outcome ??= 'answered'
      ctx.respond = true
    } else if (!client.left) throw new Error('the pipeline ended without an answer')
  } catch (error) {
    // Also where it was answered for all that the steps know.
    exchange.outcome = 'failed'
    throw error
  }
}
