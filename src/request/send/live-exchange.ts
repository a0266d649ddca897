/** One exchange under way, from its head to the last byte: all that the gateway knows of it. */

import type { Context } from 'koa'
import type {
  ChatCompletion,
  Clock,
  InboundDialect,
  InboundRequest,
  InboundView,
  Log,
  Random,
  Refusal,
  WireUsage,
} from '#contract'
import type { Link } from '../../common/chain.ts'
import type { DeadlineClock } from '../../common/clock.ts'
import type { Trace } from '../../observe/telemetry/trace-context.ts'
import { inboundOf } from '../../providers/dialects/inbound/index.ts'
import { parseJson } from '../../providers/dialects/json-parse.ts'
import { refusalOfLost } from '../../providers/dialects/lost.ts'
import type { Store } from '../../store/store.ts'
import { Client, type ClientOwner } from '../answer/client.ts'
import { Meter } from '../answer/meter.ts'
import { Exchange, type StepTap } from '../exchange.ts'
import type { Reply } from '../finish.ts'
import type { Generation, LiveRoute } from '../generation.ts'
import type { ReadBody } from '../http/body.ts'
import type { Work } from '../http/owners.ts'
import type { RunOptions } from '../pipeline/runner.ts'
import type { AnswerRecord } from './answer-record.ts'
import type { ExchangeAnswers } from './exchange-answers.ts'
import type { Memory } from './memory.ts'

/** The parts of the gateway that a sender may use. */
export interface SenderParts extends RunOptions {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly deadlineClock: DeadlineClock
  readonly log: Log
}

/** Who reads the body of an exchange and sends it on. */
export interface ExchangeHost extends SenderParts {
  readonly memory: Memory
  /** Null: work is not counted. */
  readonly work: Work | null
  /** An error that nobody expected. */
  reportBug(exchange: string, error: unknown): void
  /** What the format of its clients may know of it. */
  view(exchange: LiveExchange): InboundView
  /** A step's own answer. */
  answer(exchange: LiveExchange, completion: ChatCompletion, taps: readonly StepTap[]): Promise<Reply>
  /** What a condition (`when`) may ask of it. */
  facts(exchange: LiveExchange): Record<string, unknown>
  receive(exchange: LiveExchange): Promise<void>
  send(exchange: LiveExchange): Promise<Reply>
  /** Nothing is left of it. */
  over(exchange: LiveExchange): void
}

/** An answer that leaves as it comes. Its end is kept back until the steps have returned. */
export interface AnswerStream {
  /** Sends what was kept back. */
  finish(usage: WireUsage | null): void
  /** Sends the error, where the format has a place for it, and ends the connection. */
  fail(refusal: Refusal): void
}

export class LiveExchange extends Exchange implements ClientOwner {
  readonly host: ExchangeHost
  readonly live: LiveRoute
  readonly generation: Generation
  /** The format of the route's clients; undefined: chat completions, or none. */
  readonly format: InboundDialect | undefined
  /** The header of that name for the provider. */
  readonly via: string
  /** Null without telemetry. */
  readonly trace: Trace | null
  /** Of the last attempt; null: there was none, or nobody records it. */
  answerRecord: AnswerRecord | null = null
  readonly meter: Meter
  readonly client: Client
  /** Its place among all exchanges; null: it was refused at once. */
  link: Link<LiveExchange> | null = null
  /** The same among those whose bodies come. */
  arriving: Link<LiveExchange> | null = null
  /** Whether it counts for `max_inflight`. */
  isAdmitted = false
  /** Null until it has been read. */
  body: ReadBody | null = null
  /** The model that a form is about, under the content type by which it was read; null: none was read. */
  form: { readonly type: string; readonly model: string | null } | null = null
  /** The client's stream, from when one exists: what goes wrong is told in it. */
  stream: AnswerStream | null = null
  /** On a route that keeps answers, from the moment at which its request is read. */
  kept: ExchangeAnswers | null = null
  /** Bytes that are counted for its whole answer: a guess before it is asked for, and what it is once it is there. */
  answerBytes = 0
  /** Whose address the client has, while nobody knows the account; found out when it is asked for. */
  network: string | null = null
  /** When the first content of a stream left, and when its provider had said all; monotonic milliseconds. */
  firstTokenAtMs: number | null = null
  streamedAtMs: number | null = null
  /** The target that is asked now; null between two attempts. */
  asking: string | null = null
  /** Why attempts failed, in the provider's words, for operators: by the number of the attempt. Null: none failed. */
  attemptDetails: (string | null)[] | null = null

  constructor(ctx: Context, live: LiveRoute, generation: Generation, host: ExchangeHost, via: string) {
    const meter = new Meter()
    super({
      id: ctx.state['requestId'] as string,
      startedAt: host.clock.now(),
      route: live.config,
      plan: live.plan,
      address: ctx.state['address'] as string,
      idempotencyKey: ctx.get('idempotency-key').slice(0, 255) || null,
      progress: meter,
      ctx,
    })
    this.host = host
    this.live = live
    this.generation = generation
    this.format = inboundOf(live.config)
    if (this.format?.idHeader) ctx.res.setHeader(this.format.idHeader, this.id)
    this.via = via
    this.trace = generation.telemetry === undefined ? null : generation.telemetry.open(ctx.req.headers)
    this.meter = meter
    const { limits, heartbeat } = generation.configuration
    this.client = new Client(ctx.res, this, { deadlineClock: host.deadlineClock, stallMs: limits.stallMs, heartbeat })
  }

  receive(): Promise<void> {
    return this.host.receive(this)
  }

  send(): Promise<Reply> {
    return this.host.send(this)
  }

  answer(completion: ChatCompletion, taps: readonly StepTap[]): Promise<Reply> {
    return this.host.answer(this, completion, taps)
  }

  facts(): Record<string, unknown> {
    return this.host.facts(this)
  }

  override measured<Result>(run: () => Result): Result {
    if (this.host.work === null) return run()
    const { slices, now } = this.host.work
    const beganMs = now()
    const countedMs = slices.countedMs
    try {
      return run()
    } finally {
      const nowMs = now()
      // Slices inside of it were counted by the queue.
      const spentMs = nowMs - beganMs - (slices.countedMs - countedMs)
      if (this.owner !== null) slices.spend(this.owner, spentMs, spentMs, nowMs)
    }
  }

  /** Ends an answer whose head has left: by the stream's last event where there is a stream. */
  breakOff(refusal: Refusal): void {
    if (this.stream) this.stream.fail(refusal)
    else this.client.destroy()
  }

  onLeave(): void {
    this.stop('client_left', 'the client has left')
  }

  onWhole(bytes: number): void {
    this.host.memory.countAnswer(this, bytes)
  }

  onFlushed(): void {
    if (this.phase === 'flushing') this.close()
  }

  /** All is said and done. It is over when the client's side is: until then its bytes wait there. */
  close(): void {
    this.phase = this.client.isFlushed ? 'over' : 'flushing'
    if (this.phase === 'over') this.host.over(this)
  }

  protected parse(bytes: Buffer, spans: number[]): unknown {
    return parseJson(bytes, spans)
  }

  protected translate(body: unknown): InboundRequest | null {
    return this.format ? this.format.decodeRequest(body, this.host.view(this)) : null
  }

  /** Where the policy refuses a tool that no target can make good, it does so before credit is held. */
  protected override refusalOfLost(dropped: readonly string[]): Refusal | null {
    if (!this.plan.refusesTools || this.live.config.counts) return null
    return refusalOfLost({ dropped }, { dropped: [] }, 'refuse')
  }
}
