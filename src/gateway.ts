/**
 * ONE request from top to bottom. Read this file first: it opens the exchange, reads the body, runs the steps, sends,
 * ends and records. It introduces the parts to each other; they do not know one another.
 */
import type { Context } from 'koa'
import { decidedBy, isRefusal, ownTurn, type Refusal, refuse, slices, type WorkOwner } from '#contract'
import { Chain } from './common/chain.ts'
import { firstOfMost } from './common/first-of-most.ts'
import { SharedCount } from './common/shared-count.ts'
import { factsOf } from './config/conditions/when.ts'
import { weightOf } from './config/plan-section.ts'
import { parseInSlices } from './providers/dialects/json-parse.ts'
import type { Reply } from './request/finish.ts'
import type { Generation, LiveRoute } from './request/generation.ts'
import { noteKnown } from './request/http/arrivals.ts'
import { type ReadBody, readBody } from './request/http/body.ts'
import { parseArrived } from './request/http/linger.ts'
import { refuseBody } from './request/http/malformed.ts'
import type { Overload } from './request/http/overload.ts'
import { THREAD_WORK, type Work } from './request/http/owners.ts'
import { createVia } from './request/http/via.ts'
import { runPlan } from './request/pipeline/runner.ts'
import { sendBudgets } from './request/send/budgets-reply.ts'
import { sendChat } from './request/send/chat.ts'
import { sendCount } from './request/send/count.ts'
import { answerEarly } from './request/send/early.ts'
import { keepAnswer, keepForOthers, sendKept } from './request/send/kept.ts'
import { type ExchangeHost, LiveExchange, type SenderParts } from './request/send/live-exchange.ts'
import { type FindRecent, sendModel, sendModels, sendReceipt } from './request/send/lookup.ts'
import { createMemory, ownerOf } from './request/send/memory.ts'
import { noteRawModel, sendRaw } from './request/send/raw.ts'
import type { Told } from './request/send/record.ts'
import { errorBody, sendRefusal } from './request/send/refusal.ts'
import { readKeptAhead, viewOf } from './request/send/view.ts'

export interface GatewayParts extends SenderParts {
  /** The generation in which new exchanges begin. */
  generation(): Generation
  /** An exchange begins in a generation, and is over. */
  entered(generation: Generation): void
  left(generation: Generation): void
  /** Left out: that of the thread. Null: time is not real, and no exchange waits for its turn. */
  readonly work?: Work | null
  /** Left out: no exchange is refused because of its account's work. */
  readonly overload?: Overload
  /** Counts exchanges whose bodies have come; left out: this gateway is the only one of its process. */
  readonly admitted?: SharedCount
  /** Whether other threads serve with the same store. */
  readonly isOneOfSeveral?: boolean
  /** Called once for each exchange, when all is said and done. */
  record(exchange: LiveExchange, told: Told): void
  /** Of the last exchanges that are over; left out: none is remembered. */
  readonly findRecent?: FindRecent
  /** An error that nobody expected. */
  reportBug(exchange: string, error: unknown): void
}

/** The work of an exchange that is not measured: its head and its answer, and the reading of its body. */
const MIN_COST_MS = 0.2
const MS_PER_BYTE = 3e-6
/** A body of this size takes milliseconds to scan and as many to parse. */
const LONG_BODY_BYTES = 512 * 1024
const TOO_LARGE_ADVICE = ' The setting limits.body of the gateway has this limit.'

export class Gateway {
  readonly #parts: GatewayParts
  readonly #host: ExchangeHost
  /** All of them: the gateway ends when there is none. */
  readonly #exchanges = new Chain<LiveExchange>()
  /** Those whose bodies are still coming, the longest waiting first. */
  readonly #arriving = new Chain<LiveExchange>()
  /** Those whose bodies have come, in all threads of the process. */
  readonly #admitted: SharedCount
  readonly #via = createVia()
  readonly #work: Work | null
  #waiting: (() => void)[] = []
  #draining = false

  constructor(parts: GatewayParts) {
    this.#parts = parts
    this.#work = parts.work === undefined ? THREAD_WORK : parts.work
    this.#admitted = parts.admitted ?? new SharedCount()
    this.#host = {
      ...parts,
      work: this.#work,
      memory: createMemory(() => parts.generation().configuration.limits),
      view: viewOf,
      answer: answerEarly,
      facts: factsOf,
      receive: exchange => this.#receive(exchange),
      send: exchange => this.#send(exchange),
      over: exchange => this.#over(exchange),
    }
  }

  /**
   * One request on a route of that generation; `ctx.state.requestId` is set. Rejects only when no exchange could be opened:
   * then the caller answers.
   */
  async handle(ctx: Context, route: LiveRoute, generation: Generation): Promise<void> {
    let exchange: LiveExchange | null = null
    let told: Told = { refusal: null, decidedBy: null }
    try {
      // 1. Open: from here on the exchange notices when its client leaves.
      this.#parts.entered(generation)
      const onward = this.#via.onward(ctx.req.headers.via)
      exchange = new LiveExchange(ctx, route, generation, this.#host, onward ?? '')
      ctx.respond = false
      // 2. Was it us who sent it, and is there room?
      if (onward === null) throw refuse('loop_detected')
      if (this.#draining) throw refuse('shutting_down', { retryAfterMs: 1000 })
      this.#checkRoom(generation)
      exchange.link = this.#exchanges.add(exchange)
      // 3. The steps, in the order of the policy. The body is read before the first one that needs it: every step from
      // there on may want to look at all of it. Behind the last one, `send`.
      await runPlan(exchange, this.#parts)
      // 4. The end: what was kept back leaves, now that the charge is committed.
      exchange.phase = 'closing'
      if (exchange.kept && this.#parts.isOneOfSeveral) await keepForOthers(exchange)
      finish(exchange)
      if (exchange.kept && !this.#parts.isOneOfSeveral) void keepAnswer(exchange)
      if (exchange.answered) told = { refusal: null, decidedBy: decidedBy(exchange.trail, null, 'gateway') }
    } catch (error) {
      if (exchange === null) throw error
      if (!exchange.body) await parseArrived(ctx.req)
      told = this.#tell(exchange, error)
    } finally {
      // 5. Record.
      if (exchange === null) this.#parts.left(generation)
      else {
        exchange.phase = 'closing'
        exchange.body?.release()
        exchange.kept?.release()
        exchange.client.release()
        this.#record(exchange, told)
        exchange.close()
      }
    }
  }

  /** Exchanges under way: those whose bodies have come, which `max_inflight` bounds. */
  inflight(): number {
    return this.#admitted.total
  }

  /** All that are under way, the oldest first; also those whose bodies are still coming. */
  exchanges(): readonly LiveExchange[] {
    return [...this.#exchanges]
  }

  /** New exchanges are refused from now on. */
  drain(): void {
    this.#draining = true
    // An answer that is still to come says so: the next request must not come on its connection.
    for (const { ctx } of this.#exchanges) ctx.res.shouldKeepAlive = false
  }

  /** Ends every exchange under way: streams with an error event; each is settled. Who takes nothing is waited for briefly. */
  cut(): void {
    for (const exchange of this.#exchanges) {
      exchange.stop('cut', 'the gateway is shutting down')
      exchange.client.hurry()
    }
  }

  /** Resolves when no exchange is under way. */
  idle(): Promise<void> {
    return this.#exchanges.size === 0 ? Promise.resolve() : new Promise(resolve => this.#waiting.push(resolve))
  }

  #checkRoom(generation: Generation): void {
    if (this.#admitted.total < generation.configuration.limits.maxInflight) return
    throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many exchanges under way' })
  }

  /** The body has to come: from here on the exchange counts as one that may be sent on. */
  #receive(exchange: LiveExchange): Promise<void> {
    return this.#turnOf(exchange)?.then(() => this.#read(exchange)) ?? this.#read(exchange)
  }

  /** While others have work, an account that has much of it waits for its turn, or is refused. Null: its turn is now. */
  #turnOf(exchange: LiveExchange): Promise<void> | null {
    if (this.#work === null) return null
    const { slices } = this.#work
    const owner = this.#own(exchange, this.#work)
    if (this.#parts.overload?.refuses(exchange.ctx.req, owner)) {
      throw refuse('overloaded', { retryAfterMs: 1000, detail: 'others wait, and this account has most of the work' })
    }
    const declared = Number(exchange.ctx.req.headers['content-length'] ?? 0)
    // A longer body is not read.
    const costMs = MIN_COST_MS + Math.min(declared, exchange.generation.configuration.limits.bodyBytes) * MS_PER_BYTE
    if (slices.isBehind(owner)) return Promise.resolve(slices.run(ownTurn(), exchange.signal, { owner, costMs }))
    slices.spend(owner, costMs, 0)
    return null
  }

  /** Finds out whose work the exchange is. The first steps have let it in, so its client is known from now on. */
  #own(exchange: LiveExchange, { owners }: Work): WorkOwner {
    const { account, ctx, generation } = exchange
    const owner = account
      ? owners.account(account.id, weightOf(generation.configuration, account.plan))
      : owners.network(ownerOf(exchange))
    exchange.own(owner)
    noteKnown(ctx.req, owner)
    return owner
  }

  /**
   * Bodies that do not come must not keep out those that do: as many as `max_inflight` may be coming beside the exchanges
   * under way. Of more, one is given up: the slowest of whoever sends the most.
   */
  #read(exchange: LiveExchange): Promise<void> {
    if (exchange.stopped) {
      exchange.end({ outcome: exchange.stopped })
      throw refuse('shutting_down', { retryAfterMs: 1000 })
    }
    const { ctx, generation } = exchange
    const { maxInflight, bodyBytes } = generation.configuration.limits
    if (this.#arriving.size >= maxInflight) this.#giveUpSlowest()
    const memory = this.#host.memory.forBody(exchange)
    const link = this.#arriving.add(exchange)
    exchange.arriving = link
    const limit = { bytes: bodyBytes, advice: TOO_LARGE_ADVICE }
    return readBody(ctx.req, ctx.res, limit, memory).then(
      body => {
        this.#arriving.remove(link)
        return this.#admit(exchange, body)
      },
      error => {
        this.#arriving.remove(link)
        // It broke off because its client has gone, or the gateway is going.
        if (exchange.stopped) exchange.end({ outcome: exchange.stopped })
        throw error
      },
    )
  }

  /** A promise only where something is read ahead of the steps. */
  #admit(exchange: LiveExchange, body: ReadBody): Promise<void> | undefined {
    const { config } = exchange.live
    exchange.body = body
    this.#checkRoom(exchange.generation)
    exchange.bytes = body.bytes
    if (config.kind === 'raw') noteRawModel(exchange)
    exchange.isAdmitted = true
    this.#admitted.add(1)
    const isLong = exchange.bytes.length > LONG_BODY_BYTES && config.kind !== 'raw'
    return isLong || config.keepResponsesMs !== null ? readAhead(exchange, isLong) : undefined
  }

  #giveUpSlowest(): void {
    const slowest = firstOfMost(this.#arriving, ownerOf)!
    this.#arriving.remove(slowest.arriving!)
    refuseBody(
      slowest.ctx.req,
      refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bodies are coming, and this one took longest' }),
    )
  }

  /** What stands behind the steps. */
  #send(exchange: LiveExchange): Promise<Reply> {
    const { ctx, live } = exchange
    if (ctx.method === 'OPTIONS') throw refuse('method_not_allowed')
    // A policy may read the body before it knows the account.
    if (this.#work !== null && exchange.owner?.group && exchange.account) this.#own(exchange, this.#work)
    switch (live.config.kind) {
      case 'chat':
      case 'messages':
      case 'responses':
        if (live.config.counts) return sendCount(exchange)
        // A long body is written anew as it is parsed: when it is its turn.
        if (exchange.bytes.length > LONG_BODY_BYTES) {
          return Promise.resolve(slices.run(ownTurn(), exchange.signal)).then(() => this.#sendChat(exchange))
        }
        return this.#sendChat(exchange)
      case 'raw':
        this.#host.memory.reserveAnswer(exchange)
        return sendRaw(exchange)
      case 'models':
        return Promise.resolve(sendModels(exchange))
      case 'model':
        return Promise.resolve(sendModel(exchange, ctx.state['id'] as string))
      case 'receipt':
        return sendReceipt(exchange, ctx.state['id'] as string, this.#parts.findRecent)
      case 'budgets':
        return sendBudgets(exchange)
      case 'response':
        return sendKept(exchange, ctx.state['id'] as string)
    }
  }

  #sendChat(exchange: LiveExchange): Promise<Reply> {
    // A stream waits at the provider, not here.
    if (!exchange.chat?.stream) this.#host.memory.reserveAnswer(exchange)
    return exchange.measured(() => sendChat(exchange))
  }

  /** Tells the client, whatever it takes: silence would let it wait for ever. Returns what it was told. */
  #tell(exchange: LiveExchange, error: unknown): Told {
    const stage = ['opening', 'receiving', 'closing'].includes(exchange.phase) ? 'gateway' : 'send'
    exchange.broke(error)
    if (!isRefusal(error)) this.#parts.reportBug(exchange.id, error)
    const refusal = isRefusal(error) ? exchange.asAsked(error) : refuse('internal_error', { cause: error })
    const decider = decidedBy(exchange.trail, refusal, stage)
    try {
      this.#fail(exchange, refusal, decider)
      return { refusal, decidedBy: decider }
    } catch (unsent) {
      this.#parts.reportBug(exchange.id, unsent)
      return this.#tellPlainly(exchange, unsent)
    }
  }

  /** What should have been told could not be sent: what is told in its place is nobody's decision. */
  #tellPlainly(exchange: LiveExchange, cause: unknown): Told {
    const { ctx, client, id } = exchange
    const refusal = refuse('internal_error', { cause })
    try {
      // Whatever a step has set may be what cannot be sent.
      for (const name of ctx.res.getHeaderNames()) if (name !== 'x-request-id') ctx.res.removeHeader(name)
      this.#fail(exchange, refusal, 'gateway')
    } catch (again) {
      this.#parts.reportBug(id, again)
      client.destroy()
    }
    return { refusal, decidedBy: 'gateway' }
  }

  /** Tells the client: with a status while there is still one to give, else as the stream's last event. */
  #fail(exchange: LiveExchange, refusal: Refusal, decider: string | null): void {
    const { ctx, client, reply, live, id } = exchange
    if (client.headSent) {
      if (reply) reply.fail(refusal)
      else exchange.breakOff(refusal)
      return
    }
    // A step may have said what the answer cost that is now not sent.
    ctx.remove('x-tollgate-cost')
    sendRefusal(
      ctx,
      refusal,
      exchange.inbound?.encodeError?.(refusal) ?? errorBody(ctx.req, live.config.kind, refusal, id),
      (status, headers, body) => client.sendWhole(status, headers, body),
      {
        decidedBy: decider,
        dropped: name => this.#parts.log.error({ exchange: id, header: name }, 'a header of a refusal cannot be sent'),
      },
    )
  }

  /** What goes wrong here must not keep the exchange open. */
  #record(exchange: LiveExchange, told: Told): void {
    try {
      this.#parts.record(exchange, told)
    } catch (error) {
      this.#parts.reportBug(exchange.id, error)
    }
  }

  #over(exchange: LiveExchange): void {
    this.#host.memory.countAnswer(exchange, 0)
    if (exchange.link) this.#exchanges.remove(exchange.link)
    if (exchange.isAdmitted) this.#admitted.add(-1)
    this.#parts.left(exchange.generation)
    if (this.#exchanges.size > 0) return
    for (const resolve of this.#waiting) resolve()
    this.#waiting = []
  }
}

async function readAhead(exchange: LiveExchange, isLong: boolean): Promise<void> {
  if (isLong) await parseAhead(exchange)
  if (exchange.live.config.keepResponsesMs !== null) await readKeptAhead(exchange)
}

/** Parses a long body in turns of the event loop, before the first step asks for it: others run between. */
async function parseAhead(exchange: LiveExchange): Promise<void> {
  try {
    const body = await slices.run(parseInSlices(exchange.bytes, exchange.spans), exchange.signal)
    if (body !== undefined) exchange.setJson(body)
  } catch (error) {
    // The step that asks for the body is the one that refuses it.
    if (isRefusal(error)) exchange.refuseJson(error)
  }
}

/**
 * Lets the answer out. A Koa middleware that answered by itself has left it on `ctx`, and Koa sends it. Throws when there
 * is none although somebody waits for it, or when it cannot be sent.
 */
function finish({ reply, answered, client, ctx }: LiveExchange): void {
  if (reply) reply.commit()
  else if (answered) ctx.respond = true
  else if (!client.left) throw new Error('the pipeline ended without an answer')
}
