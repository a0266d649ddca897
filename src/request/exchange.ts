/** The exchange: one request and its answer. Whoever runs the steps of its plan says what stands behind them. */
import type { Context } from 'koa'
import {
  type Account,
  type AskedRequest,
  type Attempt,
  type Chat,
  type ChatChanges,
  type ChatCompletion,
  type Chunk,
  type Edited,
  type FactName,
  type Facts,
  FIXED_FIELDS,
  type InboundRequest,
  type Key,
  type MeteredUsage,
  type Model,
  type NanoUsd,
  type OnDisconnect,
  type Outcome,
  ownSignal,
  type Price,
  type Progress,
  type Refusal,
  type RouteView,
  type Target,
  type TrailDeed,
  type TrailEntry,
  type TrailWhy,
  type WorkOwner,
} from '#contract'
import type { Plan, PlannedStep } from '../loader/plan.ts'
import { type Broken, outcomeAfter, type Reply, type Stop } from './finish.ts'
import { asAsked, type Rewriting, rewritten } from './rewritings.ts'

/** The estimate of an exchange before anything has come. */
export const NOTHING_USED: MeteredUsage = { input: 0, output: 0, source: 'estimated' }

/** A tap with the place of the step that set it. */
export type StepTap =
  | { readonly step: number; readonly kind: 'watch'; readonly fn: (chunk: Chunk) => void | Promise<void> }
  | { readonly step: number; readonly kind: 'edit'; readonly fn: (chunk: Chunk) => Edited | Promise<Edited> }

const NOTHING_LOST: readonly string[] = []

/** The line of what is behind the last step. */
const SENT: TrailEntry = Object.freeze({ step: 'send', verdict: 'passed' })

/** The body, while it has not been read. */
const UNREAD: Buffer = Buffer.alloc(0)

/**
 * Where an exchange is. `opening`: before its steps. `receiving`: its body comes. `deciding`: its steps run. `sending`: the
 * answer is on its way. `settling`: the steps return. `closing`: its end leaves. `flushing`: the client takes the rest. `over`.
 */
export type Phase = 'opening' | 'receiving' | 'deciding' | 'sending' | 'settling' | 'closing' | 'flushing' | 'over'

/** What an exchange is made of. */
export interface ExchangeParts {
  readonly id: string
  readonly startedAt: number
  readonly route: RouteView
  readonly plan: Plan
  readonly address: string
  readonly idempotencyKey: string | null
  readonly progress: Progress
  readonly ctx: Context
}

/** Told of what ends an exchange. */
export interface ExchangeListener {
  /** Nobody waits for an answer any more. A second time when the client has left and then the gateway goes. */
  onStop(why: Stop): void
  /** A step's own answer is over. */
  onAnswered?(): void
}

/** A listener of an exchange, in a list of its own: an array has room for seventeen, and there are one or two. */
class Listening {
  readonly listener: ExchangeListener
  before: Listening | null

  constructor(listener: ExchangeListener, before: Listening | null) {
    this.listener = listener
    this.before = before
  }
}

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }
/** The part of a trail's line that its step writes itself. */
type Added = Pick<Writable<TrailEntry>, 'asked' | 'note'>

/** All fields are set in the constructor, in one order: every exchange has the same shape. Steps get a `StepHandle`. */
export abstract class Exchange {
  readonly id: string
  readonly startedAt: number
  readonly route: RouteView
  readonly plan: Plan
  readonly address: string
  readonly idempotencyKey: string | null
  readonly progress: Progress
  readonly ctx: Context
  phase: Phase = 'opening'
  /** Why nobody waits for an answer any more; null while somebody does. */
  stopped: Stop | null = null
  /** Set when the body was read, before the first step that needs it. */
  bytes: Buffer = UNREAD
  /** Of the members of `bytes`; empty until they are scanned. */
  readonly spans: number[] = []
  rawModel: string | null = null
  key: Key | undefined = undefined
  account: Account | undefined = undefined
  chat: Chat | undefined = undefined
  model: Model | undefined = undefined
  targets: readonly Target[] | undefined = undefined
  hold: NanoUsd | undefined = undefined
  claims: Facts['claims'] | undefined = undefined
  tags: Facts['tags'] | undefined = undefined
  readonly taps: StepTap[] = []
  readonly attempts: Attempt[] = []
  /** What was sent; null while nothing was, and where a Koa middleware has answered. */
  reply: Reply | null = null
  usage: MeteredUsage | null = null
  outcome: Outcome | null = null
  attemptsAtMost = 1
  onDropped: 'tell' | 'refuse_tools' | 'refuse' = 'refuse_tools'
  onDisconnect: OnDisconnect = 'cancel'
  charge: { readonly amount: NanoUsd; readonly overrun: NanoUsd } | null = null
  /** What was asked in another format than chat completions, once it is read: it writes the answer too. */
  inbound: InboundRequest | null = null
  /** Whether a step has answered by itself. */
  answered = false
  /** Settles when that answer is over; null: there is none, or Koa sends it. */
  answering: Promise<void> | null = null
  answerPrice: Price | null = null
  /** What the sending of that answer has failed with: a step further out has refused it, or the gateway is going. */
  answerError: unknown = null
  /** Whose work it is; null until the body is to come. */
  owner: WorkOwner | null = null
  /** The place of the step whose code runs now. */
  step = -1
  #controller: AbortController | null = null
  #stopReason: Error | null = null
  /** The last one who has begun to listen. */
  #listening: Listening | null = null
  #json: unknown = undefined
  #parsed = false
  #badJson: Refusal | null = null
  #translated: Buffer | null = null
  /** By the step's place. */
  #added: Added[] | null = null
  #rewritings: Rewriting[] | null = null
  /** By the step's place; the last one is what stands behind the steps. */
  readonly #trail: (TrailEntry | undefined)[]

  constructor({ id, startedAt, route, plan, address, idempotencyKey, progress, ctx }: ExchangeParts) {
    this.id = id
    this.startedAt = startedAt
    this.route = route
    this.plan = plan
    this.#trail = new Array<TrailEntry | undefined>(plan.steps.length + 1)
    this.address = address
    this.idempotencyKey = idempotencyKey
    this.progress = progress
    this.ctx = ctx
  }

  /** Reads the body, before the first step that needs it; throws the refusal of a bad one. */
  abstract receive(): Promise<void>
  /** What stands behind the steps: sends the request on and resolves when the answer is over. Null: nothing was sent. */
  abstract send(): Promise<Reply | null>
  /** Sends an early answer through the taps of the steps before the one that gives it. */
  abstract answer(completion: ChatCompletion, taps: readonly StepTap[]): Promise<Reply>
  /** Facts for `when`. */
  abstract facts(): Record<string, unknown>
  /** Scans and parses the body; throws the refusal for a bad one. Fills `spans`, or leaves them empty. */
  protected abstract parse(bytes: Buffer, spans: number[]): unknown
  /** Reads a request of another format than chat completions; null where the route has that format. */
  protected abstract translate(body: unknown): InboundRequest | null
  /** Why a request must not go without what its translation has left out; null: the sender judges it. */
  protected refusalOfLost(_lost: readonly string[]): Refusal | null {
    return null
  }

  /** The request is on its way, or answered: nothing more may be watched, edited or given. */
  get sealed(): boolean {
    return this.phase === 'sending' || this.phase === 'settling' || this.reply !== null
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.owner !== null) ownSignal(this.#controller.signal, this.owner)
      if (this.#stopReason !== null) this.#controller.abort(this.#stopReason)
    }
    return this.#controller.signal
  }

  /** From now on it is known whose work it is. */
  own(owner: WorkOwner): void {
    this.owner = owner
    if (this.#controller !== null) ownSignal(this.#controller.signal, owner)
  }

  /** Does work at once. The gateway counts its time for the owner. */
  measured<Result>(work: () => Result): Result {
    return work()
  }

  /** Nobody waits for an answer any more: the client has left, or the gateway is going, which also ends what is read on. */
  stop(why: Stop, reason: string): void {
    if (this.stopped === 'cut' || this.stopped === why) return
    this.stopped = why
    this.#stopReason ??= new Error(reason)
    // One of them may end what another one listens for.
    for (const listener of this.#listeners()) listener.onStop(why)
    this.#controller?.abort(this.#stopReason)
  }

  listen(listener: ExchangeListener): void {
    this.#listening = new Listening(listener, this.#listening)
  }

  unlisten(listener: ExchangeListener): void {
    let after: Listening | null = null
    let at = this.#listening
    while (at !== null && at.listener !== listener) {
      after = at
      at = at.before
    }
    if (at === null) return
    if (after === null) this.#listening = at.before
    else after.before = at.before
  }

  /** All who listen now, the first one first. */
  #listeners(): ExchangeListener[] {
    const all: ExchangeListener[] = []
    for (let at = this.#listening; at !== null; at = at.before) all.unshift(at.listener)
    return all
  }

  /** The one place where an outcome is written down. A reply is the exchange's from here on. */
  end(how: Reply | Broken | { readonly outcome: Outcome }): void {
    this.outcome = outcomeAfter(this.outcome, how)
    if (!('commit' in how)) return
    this.reply = how
    this.usage = how.usage
  }

  /** A mistake or a refusal: of a step, or from behind the steps. A stream's head, or a comment in it, is nothing seen. */
  broke(error: unknown): void {
    const hasSeen = () => (this.chat?.stream ? this.progress.delivered : this.ctx.res.headersSent)
    this.end({ error, hasSeen: this.outcome === 'answered' && hasSeen() })
  }

  json(): unknown {
    if (this.#badJson) throw this.#badJson
    if (!this.#parsed) {
      if (this.bytes === UNREAD) throw new TypeError('the body has not been read: this plugin says `needsBody: false`')
      this.#json = this.parse(this.bytes, this.spans)
      this.#parsed = true
    }
    return this.#json
  }

  /** Sets what the body was parsed to elsewhere. */
  setJson(body: unknown): void {
    this.#json = body
    this.#parsed = true
  }

  /** Sets why the body was refused elsewhere: whoever asks for it gets this refusal. */
  refuseJson(refusal: Refusal): void {
    this.#badJson = refusal
  }

  request(): AskedRequest {
    const body = this.json()
    if (this.inbound === null) {
      this.inbound = this.translate(body)
      if (this.inbound === null) return { body, bytes: this.bytes }
      const refusal = this.refusalOfLost(this.inbound.dropped ?? NOTHING_LOST)
      if (refusal) throw refusal
    }
    this.#translated ??= Buffer.from(JSON.stringify(this.inbound.body))
    const { body: asked, dropped = [], hidesThoughts = false } = this.inbound
    return { body: asked, bytes: this.#translated, dropped, hidesThoughts }
  }

  give<F extends FactName>({ id, plugin }: PlannedStep, name: F, value: Facts[F]): void {
    if (!plugin.gives?.includes(name)) {
      throw new TypeError(`step "${id}" gives "${name}", but its plugin does not say so in \`gives\``)
    }
    if (this[name] !== undefined) throw new TypeError(`step "${id}" gives "${name}" a second time`)
    ;(this as Partial<Writable<Facts>>)[name] = value
  }

  rewrite({ id }: PlannedStep, changes: ChatChanges, own: readonly object[]): void {
    const { chat } = this
    if (chat === undefined)
      throw new TypeError(`step "${id}" rewrites a request that nobody has read; let it need "chat"`)
    if (this.hold !== undefined) {
      throw new TypeError(`step "${id}" rewrites a request for which credit is held; let it stand before that step`)
    }
    const fixed = Object.keys(changes).find(name => FIXED_FIELDS.includes(name))
    if (fixed !== undefined) throw new TypeError(`step "${id}" rewrites "${fixed}", which steps have gone by already`)
    const body = rewritten(chat.body, changes)
    ;(this.#rewritings ??= []).push({ before: chat.body, after: body, own })
    // The same fact, so that a step further out sees that it was rewritten; what it holds of the old body stays as it was.
    Object.assign(chat, { body, bytes: Buffer.from(JSON.stringify(body)) } satisfies Partial<Chat>)
  }

  /** A refusal in terms of the request as the client sent it, before any step rewrote it. */
  asAsked(refusal: Refusal): Refusal {
    return this.#rewritings === null ? refusal : asAsked(refusal, this.#rewritings)
  }

  /** A step answers by itself. Resolves when that answer is over. */
  answerEarly(step: number, completion: ChatCompletion, price: Price | null): Promise<void> {
    if (this.answered) throw new TypeError(`step "${this.plan.steps[step]!.id}" answers a second time`)
    this.answered = true
    this.answerPrice = price
    this.phase = 'sending'
    const outside = this.taps.filter(tap => tap.step < step)
    this.answering = this.#answer(completion, outside)
    return this.answering
  }

  async #answer(completion: ChatCompletion, taps: readonly StepTap[]): Promise<void> {
    try {
      const reply = await this.answer(completion, taps)
      // Its step was given up meanwhile: the exchange has ended without it.
      if (this.phase !== 'sending') return
      this.end(reply)
      if (reply.refusal) throw reply.refusal
    } catch (error) {
      this.answerError = error
      throw error
    } finally {
      if (this.phase === 'sending') this.phase = 'settling'
      for (const listener of this.#listeners()) listener.onAnswered?.()
    }
  }

  /** For the step to write to. */
  addedBy(step: number): Added {
    this.#added ??= []
    this.#added[step] ??= {}
    return this.#added[step]
  }

  /** In the order of the policy; a step that has gone on and not come back yet counts as passed. */
  get trail(): TrailEntry[] {
    let size = 0
    for (let at = 0; at < this.#trail.length; at++) if (this.#trail[at] !== undefined) size++
    // As long as it needs to be: it is kept with the receipt, and among the recent exchanges.
    const trail = new Array<TrailEntry>(size)
    for (let at = this.#trail.length, left = size; left > 0; ) {
      const entry = this.#trail[--at]
      if (entry !== undefined) trail[--left] = entry
    }
    return trail
  }

  /**
   * Writes a step's line of the trail, with its notes; the last word about it stands. But who has refused or failed in the
   * middle of the answer has not passed because it has also come back.
   */
  record(
    step: number,
    verdict: TrailEntry['verdict'],
    code?: TrailEntry['code'],
    why?: TrailWhy,
    would?: readonly TrailDeed[],
  ): void {
    const { steps } = this.plan
    const planned = steps[step]
    const passed = planned?.passed ?? SENT
    const at = planned ? step : steps.length
    const added = this.#added?.[step]
    const before = this.#trail[at]
    if (verdict === 'passed' && (before?.verdict === 'refused' || before?.verdict === 'failed')) {
      if (added !== undefined) this.#trail[at] = { ...before, ...added }
      return
    }
    if (verdict === 'passed' && added === undefined && why === undefined && would === undefined) {
      this.#trail[at] = passed
      return
    }
    const entry: Writable<TrailEntry> = { ...passed, verdict }
    if (code !== undefined) entry.code = code
    if (why !== undefined) entry.why = why
    if (would !== undefined) entry.would = would
    if (added !== undefined) Object.assign(entry, added)
    this.#trail[at] = entry
  }
}
