/**
 * Handles ONE request from top to bottom. Read this file first: it opens the exchange, runs the steps, sends the request, ends the answer
 * and records it. The body is read before the first step that needs it. It connects `http`, `pipeline` and `send`. Of the folders in
 * `request`, only `send` imports the others.
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
import { THREAD_QUEUE, type WorkQueue } from './request/http/owners.ts'
import { createVia } from './request/http/via.ts'
import { runPlan } from './request/pipeline/runner.ts'
import { sendBudgets } from './request/send/budget-lookup.ts'
import { sendChat } from './request/send/chat.ts'
import { sendCount } from './request/send/count.ts'
import { answerEarly } from './request/send/early-answer.ts'
import type { SentError } from './request/send/exchange-summary.ts'
import { readKeptAhead, viewOf } from './request/send/inbound-view.ts'
import { keepAnswer, keepForOthers, sendKept } from './request/send/kept-responses.ts'
import { type ExchangeHost, LiveExchange, type SenderParts } from './request/send/live-exchange.ts'
import { type FindRecent, sendModel, sendModels, sendReceipt } from './request/send/lookup.ts'
import { createMemory, ownerOf } from './request/send/memory.ts'
import { noteRawModel, sendRaw } from './request/send/raw.ts'
import { errorBody, sendRefusal } from './request/send/refusal.ts'

export interface GatewayParts extends SenderParts {
  /** The generation in which new exchanges begin. */
  generation(): Generation
  /** Called when an exchange begins in a generation, and when it is over. */
  entered(generation: Generation): void
  left(generation: Generation): void
  /** Left out: the work queue of this thread. Null: time is simulated, and no exchange waits for its turn. */
  readonly work?: WorkQueue | null
  /** Left out: no exchange is refused because of its account's load. */
  readonly overload?: Overload
  /** Counts exchanges whose bodies have arrived, in all threads. Left out: this gateway is the only one of its process. */
  readonly admitted?: SharedCount
  /** Whether other threads serve with the same store. */
  readonly isOneOfSeveral?: boolean
  /** Called once for each exchange, after the answer was flushed or the client disconnected. */
  record(exchange: LiveExchange, sent: SentError): void
  /** Looks up finished exchanges. Left out: none are kept. */
  readonly findRecent?: FindRecent
  /** Reports an unexpected error. */
  reportBug(exchange: string, error: unknown): void
}

/** Estimates of the unmeasured work of an exchange: its head and its answer, and each byte of its body. */
const MIN_COST_MS = 0.2
const MS_PER_BYTE = 3e-6
/** A body of this size takes milliseconds to scan, and as long again to parse. */
const LONG_BODY_BYTES = 512 * 1024
const TOO_LARGE_ADVICE = ' The setting limits.body of the gateway has this limit.'

export class Gateway {
  readonly #parts: GatewayParts
  readonly #host: ExchangeHost
  /** All exchanges. The gateway has ended when the chain is empty. */
  readonly #exchanges = new Chain<LiveExchange>()
  /** Exchanges whose bodies are still arriving, oldest first. */
  readonly #arriving = new Chain<LiveExchange>()
  /** Exchanges whose bodies have arrived, in all threads of the process. */
  readonly #admitted: SharedCount
  readonly #via = createVia()
  readonly #work: WorkQueue | null
  #waiting: (() => void)[] = []
  #draining = false

  constructor(parts: GatewayParts) {
    this.#parts = parts
    this.#work = parts.work === undefined ? THREAD_QUEUE : parts.work
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
   * Handles one request on a route of that generation. `ctx.state.requestId` must be set. Rejects only if no exchange could be opened;
   * the caller answers then.
   */
  async handle(ctx: Context, route: LiveRoute, generation: Generation): Promise<void> {
    let exchange: LiveExchange | null = null
    let sent: SentError = { refusal: null, decidedBy: null }
    try {
      // 1. Open: from here on the exchange notices when its client disconnects.
      this.#parts.entered(generation)
      const onward = this.#via.onward(ctx.req.headers.via)
      exchange = new LiveExchange(ctx, route, generation, this.#host, onward ?? '')
      ctx.respond = false
      // 2. Refuse loops; check capacity.
      if (onward === null) throw refuse('loop_detected')
      if (this.#draining) throw refuse('shutting_down', { retryAfterMs: 1000 })
      this.#checkRoom(generation)
      exchange.node = this.#exchanges.add(exchange)
      // 3. The steps, in the order of the policy. The body is read before the first step that needs it, because every later step may look
      // at all of it. `send` runs after the last step.
      await runPlan(exchange, this.#parts)
      // 4. The end: the withheld part of the answer is sent, now that the charge is committed.
      exchange.phase = 'closing'
      if (exchange.kept && this.#parts.isOneOfSeveral) await keepForOthers(exchange)
      finish(exchange)
      if (exchange.kept && !this.#parts.isOneOfSeveral) void keepAnswer(exchange)
      if (exchange.answered) sent = { refusal: null, decidedBy: decidedBy(exchange.trail, null, 'gateway') }
    } catch (error) {
      if (exchange === null) throw error
      if (!exchange.body) await parseArrived(ctx.req)
      sent = this.#sendError(exchange, error)
    } finally {
      // 5. Record.
      if (exchange === null) this.#parts.left(generation)
      else {
        exchange.phase = 'closing'
        exchange.body?.release()
        exchange.kept?.release()
        exchange.client.release()
        this.#record(exchange, sent)
        exchange.close()
      }
    }
  }

  /** Exchanges in progress whose bodies have arrived. `max_inflight` limits them. */
  inflight(): number {
    return this.#admitted.total
  }

  /** All exchanges in progress, oldest first, including those whose bodies are still arriving. */
  exchanges(): readonly LiveExchange[] {
    return [...this.#exchanges]
  }

  /** From now on, new exchanges are refused. */
  drain(): void {
    this.#draining = true
    // Pending answers close their connections, so that no further request arrives on them.
    for (const { ctx } of this.#exchanges) ctx.res.shouldKeepAlive = false
  }

  /**
   * Ends every exchange in progress, a stream with an error event, and settles it. Clients that have stopped reading get two more seconds.
   */
  cut(): void {
    for (const exchange of this.#exchanges) {
      exchange.stop('cut', 'the gateway is shutting down')
      exchange.client.hurry()
    }
  }

  /** Resolves when no exchange is in progress. */
  idle(): Promise<void> {
    return this.#exchanges.size === 0 ? Promise.resolve() : new Promise(resolve => this.#waiting.push(resolve))
  }

  #checkRoom(generation: Generation): void {
    if (this.#admitted.total < generation.configuration.limits.maxInflight) return
    throw refuse('overloaded', { retryAfterMs: 1000, detail: 'too many exchanges in progress' })
  }

  /** Reads the body when it is the turn of its owner. */
  #receive(exchange: LiveExchange): Promise<void> {
    return this.#turnOf(exchange)?.then(() => this.#read(exchange)) ?? this.#read(exchange)
  }

  /** While others have work, a busy owner waits for its turn. The busiest owners may be refused. Null: its turn is now. */
  #turnOf(exchange: LiveExchange): Promise<void> | null {
    if (this.#work === null) return null
    const { slices } = this.#work
    const owner = this.#own(exchange, this.#work)
    if (this.#parts.overload?.refuses(exchange.ctx.req, owner)) {
      throw refuse('overloaded', { retryAfterMs: 1000, detail: 'this account or network has too much of the work' })
    }
    const declared = Number(exchange.ctx.req.headers['content-length'] ?? 0)
    // Longer bodies are refused, so they cost no more.
    const costMs = MIN_COST_MS + Math.min(declared, exchange.generation.configuration.limits.bodyBytes) * MS_PER_BYTE
    if (slices.isBehind(owner)) return Promise.resolve(slices.run(ownTurn(), exchange.signal, { owner, costMs }))
    slices.spend(owner, costMs, 0)
    return null
  }

  /**
   * Assigns the exchange's work to its account or network. The steps before the body have accepted the client, so it counts as known.
   */
  #own(exchange: LiveExchange, { owners }: WorkQueue): WorkOwner {
    const { account, ctx, generation } = exchange
    const owner = account
      ? owners.account(account.id, weightOf(generation.configuration, account.plan))
      : owners.network(ownerOf(exchange))
    exchange.own(owner)
    noteKnown(ctx.req, owner)
    return owner
  }

  /**
   * Slow uploads must not block other requests: up to `max_inflight` bodies may arrive in addition to the admitted exchanges. Above
   * that, the client with the most uploads has its slowest one refused.
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
    const node = this.#arriving.add(exchange)
    exchange.arriving = node
    const limit = { bytes: bodyBytes, advice: TOO_LARGE_ADVICE }
    return readBody(ctx.req, ctx.res, limit, memory).then(
      body => {
        this.#arriving.remove(node)
        return this.#admit(exchange, body)
      },
      error => {
        this.#arriving.remove(node)
        // The client disconnected, or the gateway is shutting down.
        if (exchange.stopped) exchange.end({ outcome: exchange.stopped })
        throw error
      },
    )
  }

  /** Returns a promise only if a long body is parsed, or kept answers are loaded, before the next step. */
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
      refuse('overloaded', { retryAfterMs: 1000, detail: 'too many bodies are arriving, and this one took longest' }),
    )
  }

  /** Runs after the last step: the upstream call, or a lookup. */
  #send(exchange: LiveExchange): Promise<Reply> {
    const { ctx, live } = exchange
    if (ctx.method === 'OPTIONS') throw refuse('method_not_allowed')
    // A policy may read the body before it identifies the account.
    if (this.#work !== null && exchange.owner?.group && exchange.account) this.#own(exchange, this.#work)
    switch (live.config.kind) {
      case 'chat':
      case 'messages':
      case 'responses':
        if (live.config.counts) return sendCount(exchange)
        // Serializing a long body takes long too, so it waits for the exchange's turn, as parsing did.
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
    // A stream is read only as fast as its client reads, so it needs no reserved memory.
    if (!exchange.chat?.stream) this.#host.memory.reserveAnswer(exchange)
    return exchange.measured(() => sendChat(exchange))
  }

  /** Always sends an error: a client without one would hang. Returns what was sent. */
  #sendError(exchange: LiveExchange, error: unknown): SentError {
    const stage = ['opening', 'receiving', 'closing'].includes(exchange.phase) ? 'gateway' : 'send'
    exchange.recordFailure(error)
    if (!isRefusal(error)) this.#parts.reportBug(exchange.id, error)
    const refusal = isRefusal(error) ? exchange.inClientTerms(error) : refuse('internal_error', { cause: error })
    const decider = decidedBy(exchange.trail, refusal, stage)
    try {
      this.#fail(exchange, refusal, decider)
      return { refusal, decidedBy: decider }
    } catch (unsent) {
      this.#parts.reportBug(exchange.id, unsent)
      return this.#sendPlainError(exchange, unsent)
    }
  }

  /** The error could not be sent. A plain one takes its place, decided by the gateway. */
  #sendPlainError(exchange: LiveExchange, cause: unknown): SentError {
    const { ctx, client, id } = exchange
    const refusal = refuse('internal_error', { cause })
    try {
      // A header that a step has set may be the cause.
      for (const name of ctx.res.getHeaderNames()) if (name !== 'x-request-id') ctx.res.removeHeader(name)
      this.#fail(exchange, refusal, 'gateway')
    } catch (again) {
      this.#parts.reportBug(id, again)
      client.destroy()
    }
    return { refusal, decidedBy: 'gateway' }
  }

  /** Sends a refusal: with a status while the head is unsent, else as the stream's last event. */
  #fail(exchange: LiveExchange, refusal: Refusal, decider: string | null): void {
    const { ctx, client, reply, live, id } = exchange
    if (client.headSent) {
      if (reply) reply.fail(refusal)
      else exchange.breakOff(refusal)
      return
    }
    // A step may have stated the cost of the answer, which is now not sent.
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

  /** An error in `record` must not keep the exchange open. */
  #record(exchange: LiveExchange, sent: SentError): void {
    try {
      this.#parts.record(exchange, sent)
    } catch (error) {
      this.#parts.reportBug(exchange.id, error)
    }
  }

  #over(exchange: LiveExchange): void {
    this.#host.memory.countAnswer(exchange, 0)
    if (exchange.node) this.#exchanges.remove(exchange.node)
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

/** Parses a long body before a step asks for it. Other work runs between the scan, the decoding and the parse. */
async function parseAhead(exchange: LiveExchange): Promise<void> {
  try {
    const body = await slices.run(parseInSlices(exchange.bytes, exchange.spans), exchange.signal)
    if (body !== undefined) exchange.setJson(body)
  } catch (error) {
    // The step that reads the body throws this refusal.
    if (isRefusal(error)) exchange.refuseJson(error)
  }
}

/**
 * Releases the answer. If a Koa middleware answered, its answer is on `ctx`, and Koa sends it. Throws if a connected client has no
 * answer, or if the answer cannot be sent.
 */
function finish({ reply, answered, client, ctx }: LiveExchange): void {
  if (reply) reply.commit()
  else if (answered) ctx.respond = true
  else if (!client.left) throw new Error('the pipeline ended without an answer')
}
