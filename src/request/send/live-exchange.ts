/** A live exchange, from its head to the last byte: the complete state that the gateway keeps of it. */

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
import type { ChainNode } from '../../common/chain.ts'
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
import type { WorkQueue } from '../http/owners.ts'
import type { RunOptions } from '../pipeline/runner.ts'
import type { AnswerCapture } from './answer-capture.ts'
import type { AnswerHistory } from './answer-history.ts'
import type { Memory } from './memory.ts'

/** The parts of the gateway that senders use. */
export interface SenderParts extends RunOptions {
  readonly store: Store
  readonly clock: Clock
  readonly random: Random
  readonly deadlineClock: DeadlineClock
  readonly log: Log
}

/** The gateway: it reads the body of an exchange and sends it on. */
export interface ExchangeHost extends SenderParts {
  readonly memory: Memory
  /** Null: work is not counted. */
  readonly work: WorkQueue | null
  /** Reports an unexpected error. */
  reportBug(exchange: string, error: unknown): void
  /** The exchange as the format of its clients sees it. */
  view(exchange: LiveExchange): InboundView
  /** Sends a step's own answer. */
  answer(exchange: LiveExchange, completion: ChatCompletion, taps: readonly StepTap[]): Promise<Reply>
  /** The facts for conditions (`when`). */
  facts(exchange: LiveExchange): Record<string, unknown>
  receive(exchange: LiveExchange): Promise<void>
  send(exchange: LiveExchange): Promise<Reply>
  /** Called when the exchange has released everything. */
  over(exchange: LiveExchange): void
}

/** An answer that is sent as it arrives. Its end is withheld until the steps have returned. */
export interface AnswerStream {
  /** Sends the withheld end. */
  finish(usage: WireUsage | null): void
  /**
   * Sends the error as the last event and ends the body. Without a place for an error in the format, it destroys the connection.
   */
  fail(refusal: Refusal): void
}

export class LiveExchange extends Exchange implements ClientOwner {
  readonly host: ExchangeHost
  readonly live: LiveRoute
  readonly generation: Generation
  /** The format of the route's clients; undefined: chat completions, or none. */
  readonly format: InboundDialect | undefined
  /** The `Via` header for the provider. */
  readonly via: string
  /** Null without telemetry. */
  readonly trace: Trace | null
  /** The capture of the last attempt's answer; null: no attempt was made, or telemetry does not record it. */
  answerCapture: AnswerCapture | null = null
  readonly meter: Meter
  readonly client: Client
  /** Its position among all exchanges; null: it was refused at once. */
  node: ChainNode<LiveExchange> | null = null
  /** Its position among those whose bodies are arriving. */
  arriving: ChainNode<LiveExchange> | null = null
  /** Whether it counts for `max_inflight`. */
  isAdmitted = false
  /** Null until the body was read. */
  body: ReadBody | null = null
  /** The model that a form names, with the content type by which it was read; null: no form was read. */
  form: { readonly type: string; readonly model: string | null } | null = null
  /** The client's stream, once it exists: errors are sent in it. */
  stream: AnswerStream | null = null
  /** Set on a route that keeps answers, once the request is read. */
  kept: AnswerHistory | null = null
  /** Bytes that are reserved for its whole answer: an estimate before the request is sent, the real size once it is known. */
  answerBytes = 0
  /** The group of the client's address, while the account is unknown; computed on demand. */
  network: string | null = null
  /** When the first content of a stream was sent, and when its provider had sent everything; monotonic milliseconds. */
  firstTokenAtMs: number | null = null
  streamedAtMs: number | null = null
  /** The target of the current attempt; null between attempts. */
  currentTarget: string | null = null
  /** The provider's texts about failed attempts, for operators, by attempt. Null: none failed. */
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
      // The queue has counted the slices inside of it.
      const spentMs = nowMs - beganMs - (slices.countedMs - countedMs)
      if (this.owner !== null) slices.spend(this.owner, spentMs, spentMs, nowMs)
    }
  }

  /** Ends an answer whose head was sent: by the stream's last event, if there is a stream. */
  breakOff(refusal: Refusal): void {
    if (this.stream) this.stream.fail(refusal)
    else this.client.destroy()
  }

  onLeave(): void {
    this.stop('client_left', 'the client disconnected')
  }

  onWhole(bytes: number): void {
    this.host.memory.countAnswer(this, bytes)
  }

  onFlushed(): void {
    if (this.phase === 'flushing') this.close()
  }

  /** Closes the exchange. It is over once the client's side is over: until then, bytes of the answer wait there. */
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

  /** If the policy refuses a tool that no target supports, the refusal comes before credit is held. */
  protected override refusalOfLost(dropped: readonly string[]): Refusal | null {
    if (!this.plan.refusesTools || this.live.config.counts) return null
    return refusalOfLost({ dropped }, { dropped: [] }, 'refuse')
  }
}
