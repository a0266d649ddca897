/** The exchange: one request and its answer. Subclasses implement the upstream call after the last step. */
import type { Context } from 'koa'
import {
  type Account,
  type Attempt,
  type CanonicalRequest,
  type Chat,
  type ChatChanges,
  type ChatCompletion,
  type Chunk,
  type EditResult,
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
import { type ExchangeError, outcomeAfter, type Reply, type Stop } from './finish.ts'
import { inClientTerms, type Rewriting, rewritten } from './rewritings.ts'

/** The estimated usage of an exchange that has received nothing. */
export const NOTHING_USED: MeteredUsage = { input: 0, output: 0, source: 'estimated' }

/** A tap with the place of the step that set it. */
export type StepTap =
  | { readonly step: number; readonly kind: 'watch'; readonly fn: (chunk: Chunk) => void | Promise<void> }
  | { readonly step: number; readonly kind: 'edit'; readonly fn: (chunk: Chunk) => EditResult | Promise<EditResult> }

const NOTHING_LOST: readonly string[] = []

/** The trail line of the upstream call. */
const SENT: TrailEntry = Object.freeze({ step: 'send', verdict: 'passed' })

/** The body, while it has not been read. */
const UNREAD: Buffer = Buffer.alloc(0)

/**
 * The phase of an exchange. `opening`: before its steps. `deciding`: its steps run. `receiving`: its body arrives, between two steps. `sending`: the
 * upstream call runs, or a step's own answer is sent. `settling`: the steps return. `closing`: the end of the answer is sent. `flushing`:
 * the client reads the rest. `over`.
 */
export type Phase = 'opening' | 'receiving' | 'deciding' | 'sending' | 'settling' | 'closing' | 'flushing' | 'over'

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

/** Notified of events that end an exchange. */
export interface ExchangeListener {
  /** The exchange was stopped. Called twice if the client disconnects and the gateway then shuts down. */
  onStop(why: Stop): void
  /** A step's own answer is over. */
  onAnswered?(): void
}

/** A node of the listener list. There are one or two listeners, and an array would allocate room for seventeen. */
class ListenerNode {
  readonly listener: ExchangeListener
  before: ListenerNode | null

  constructor(listener: ExchangeListener, before: ListenerNode | null) {
    this.listener = listener
    this.before = before
  }
}

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }
/** The fields of a trail line that its step writes. */
type StepNotes = Pick<Writable<TrailEntry>, 'asked' | 'note'>

/** State of an exchange. The constructor sets all fields in one order, so that all have one shape. Steps get a `StepHandle`. */
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
  /** Why the exchange was stopped; null: it was not. */
  stopped: Stop | null = null
  /** Set when the body was read, before the first step that needs it. */
  bytes: Buffer = UNREAD
  /** The positions of the members of `bytes`; empty until they are scanned. */
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
  /** The reply that was sent; null before that, and if a Koa middleware answered. */
  reply: Reply | null = null
  usage: MeteredUsage | null = null
  outcome: Outcome | null = null
  attemptsAtMost = 1
  onDropped: 'tell' | 'refuse_tools' | 'refuse' = 'refuse_tools'
  onDisconnect: OnDisconnect = 'cancel'
  charge: { readonly amount: NanoUsd; readonly overrun: NanoUsd } | null = null
  /** The request in a format other than chat completions, once it is read, with the encoders of its answer. */
  inbound: InboundRequest | null = null
  /** Whether a step has answered the request itself. */
  answered = false
  /** Settles when the step's answer is over. Null: no step answered, or Koa sends the answer. */
  answering: Promise<void> | null = null
  answerPrice: Price | null = null
  /** The error of sending the step's own answer: an outer step refused it, or the gateway is shutting down. */
  answerError: unknown = null
  /** The owner of the exchange's work; null before its body is due, and in simulated time. */
  owner: WorkOwner | null = null
  /** The index of the step whose code runs now. */
  step = -1
  #controller: AbortController | null = null
  #stopReason: Error | null = null
  /** The head of the list: the latest listener. */
  #listening: ListenerNode | null = null
  #json: unknown = undefined
  #parsed = false
  #badJson: Refusal | null = null
  #translated: Buffer | null = null
  #added: StepNotes[] | null = null
  #rewritings: Rewriting[] | null = null
  /** By step index; the last one is the upstream call. */
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

  /** Reads the body, before the first step that needs it. Throws the refusal of an invalid one. */
  abstract receive(): Promise<void>
  /** Runs after the last step: sends the request on and resolves when the answer is over. Null: nothing was sent. */
  abstract send(): Promise<Reply | null>
  /** Sends an early answer through the taps of the steps outside the one that answers. */
  abstract answer(completion: ChatCompletion, taps: readonly StepTap[]): Promise<Reply>
  /** Facts for conditions (`when`). */
  abstract facts(): Record<string, unknown>
  /** Scans and parses the body. Throws the refusal of an invalid one. Fills `spans`, or leaves them empty. */
  protected abstract parse(bytes: Buffer, spans: number[]): unknown
  /** Reads a request in a format other than chat completions; null if the route has that format. */
  protected abstract translate(body: unknown): InboundRequest | null
  /** The refusal of a request that must not be sent without its dropped parameters; null: the sender decides. */
  protected refusalOfLost(_lost: readonly string[]): Refusal | null {
    return null
  }

  /** Whether the request was sent or answered: no more taps, edits or facts. */
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

  /** Sets the owner of the exchange's work. */
  own(owner: WorkOwner): void {
    this.owner = owner
    if (this.#controller !== null) ownSignal(this.#controller.signal, owner)
  }

  /** Runs work synchronously. The gateway counts its time for the owner. */
  measured<Result>(work: () => Result): Result {
    return work()
  }

  /** Stops the exchange: the client disconnected, or the gateway is shutting down. Shutdown also ends an answer that is drained. */
  stop(why: Stop, reason: string): void {
    if (this.stopped === 'cut' || this.stopped === why) return
    this.stopped = why
    this.#stopReason ??= new Error(reason)
    // A listener may remove another one.
    for (const listener of this.#listeners()) listener.onStop(why)
    this.#controller?.abort(this.#stopReason)
  }

  listen(listener: ExchangeListener): void {
    this.#listening = new ListenerNode(listener, this.#listening)
  }

  unlisten(listener: ExchangeListener): void {
    let after: ListenerNode | null = null
    let at = this.#listening
    while (at !== null && at.listener !== listener) {
      after = at
      at = at.before
    }
    if (at === null) return
    if (after === null) this.#listening = at.before
    else after.before = at.before
  }

  /** All listeners, oldest first. */
  #listeners(): ExchangeListener[] {
    const all: ExchangeListener[] = []
    for (let at = this.#listening; at !== null; at = at.before) all.unshift(at.listener)
    return all
  }

  /** The only place that sets the outcome. The exchange owns a reply from here on. */
  end(how: Reply | ExchangeError | { readonly outcome: Outcome }): void {
    this.outcome = outcomeAfter(this.outcome, how)
    if (!('commit' in how)) return
    this.reply = how
    this.usage = how.usage
  }

  /** Records an error or a refusal of a step or of the upstream call. The head of a stream, or a comment, is not content. */
  recordFailure(error: unknown): void {
    const hasReceived = () => (this.chat?.stream ? this.progress.delivered : this.ctx.res.headersSent)
    this.end({ error, hasReceived: this.outcome === 'answered' && hasReceived() })
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

  /** Sets the parsed body, for a caller that parsed it itself. */
  setJson(body: unknown): void {
    this.#json = body
    this.#parsed = true
  }

  /** Sets the refusal of the body, which `json` then throws. */
  refuseJson(refusal: Refusal): void {
    this.#badJson = refusal
  }

  request(): CanonicalRequest {
    const body = this.json()
    if (this.inbound === null) {
      this.inbound = this.translate(body)
      if (this.inbound === null) return { body, bytes: this.bytes }
      const refusal = this.refusalOfLost(this.inbound.dropped ?? NOTHING_LOST)
      if (refusal) throw refusal
    }
    this.#translated ??= Buffer.from(JSON.stringify(this.inbound.body))
    const { body: asked, dropped = [], hidesReasoning = false } = this.inbound
    return { body: asked, bytes: this.#translated, dropped, hidesReasoning }
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
      throw new TypeError(`step "${id}" rewrites a request that was not read; add "chat" to its \`needs\``)
    if (this.hold !== undefined) {
      throw new TypeError(`step "${id}" rewrites a request after credit was held for it; move it before that step`)
    }
    const fixed = Object.keys(changes).find(name => FIXED_FIELDS.includes(name))
    if (fixed !== undefined) throw new TypeError(`step "${id}" rewrites "${fixed}", which earlier steps relied on`)
    const body = rewritten(chat.body, changes)
    ;(this.#rewritings ??= []).push({ before: chat.body, after: body, own })
    // The object stays the same, so that outer steps see the change. Values derived from the old body stay.
    Object.assign(chat, { body, bytes: Buffer.from(JSON.stringify(body)) } satisfies Partial<Chat>)
  }

  /** Returns a refusal in terms of the request as the client sent it, before any step rewrote it. */
  inClientTerms(refusal: Refusal): Refusal {
    return this.#rewritings === null ? refusal : inClientTerms(refusal, this.#rewritings)
  }

  /** Sends a step's own answer. Resolves when that answer is over. */
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
      // The step was given up meanwhile, and the exchange has ended without it.
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

  /** The notes of a step, for the step to write. */
  notesOf(step: number): StepNotes {
    this.#added ??= []
    this.#added[step] ??= {}
    return this.#added[step]
  }

  /** The trail in the order of the policy. A step that has continued and not returned counts as passed. */
  get trail(): TrailEntry[] {
    let size = 0
    for (let at = 0; at < this.#trail.length; at++) if (this.#trail[at] !== undefined) size++
    // Exact size: the trail is kept with the receipt, and among the recent exchanges.
    const trail = new Array<TrailEntry>(size)
    for (let at = this.#trail.length, left = size; left > 0; ) {
      const entry = this.#trail[--at]
      if (entry !== undefined) trail[--left] = entry
    }
    return trail
  }

  /**
   * Writes a step's line of the trail, with its notes. A later verdict replaces an earlier one, except that a step that refused or failed
   * during the answer does not become `passed` by returning.
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
