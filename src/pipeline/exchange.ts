/** The exchange as the gateway handles it: what steps see (the contract's `Exchange`), and the setters they do not. */
import {
  type Account,
  type Attempt,
  type Chat,
  type ChatChanges,
  type ChatCompletion,
  type ChatRequest,
  type Chunk,
  type Edited,
  type Exchange,
  type FactName,
  type Facts,
  FIXED_FIELDS,
  type InboundRequest,
  type Key,
  type Model,
  type NanoUsd,
  type OnDisconnect,
  type Outcome,
  type Price,
  type Progress,
  type Refusal,
  type RouteView,
  type Target,
  type TrailEntry,
  type Usage,
  visible,
} from '#contract'
import type { Plan } from './plan.ts'
import { asAsked, type Rewriting } from './rewritings.ts'

/** The estimate of an exchange before anything has come. */
export const NOTHING_USED: Usage = {
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
  reasoningTokens: 0,
  source: 'estimated',
}

/** A tap with the place of the step that set it. */
export type StepTap =
  | { readonly step: number; readonly kind: 'watch'; readonly fn: (chunk: Chunk) => void | Promise<void> }
  | { readonly step: number; readonly kind: 'edit'; readonly fn: (chunk: Chunk) => Edited | Promise<Edited> }

const NOTHING_LOST: readonly string[] = []

/** The body, while it has not been read. */
const UNREAD: Buffer = Buffer.alloc(0)

export interface ExchangeParts {
  readonly id: string
  readonly startedAt: number
  readonly route: RouteView
  readonly plan: Plan
  readonly address: string
  readonly idempotencyKey: string | null
  /** Parses the scanned body; throws the refusal for a bad one. */
  readonly parse: (bytes: Buffer) => unknown
  /** On a route of another format than chat completions: reads its requests. */
  readonly translate: ((body: unknown) => InboundRequest) | null
  /** Why a request must not go without what its translation has left out; null or left out: the sender judges it. */
  readonly refusalOfLost?: ((lost: readonly string[]) => Refusal | null) | null
  readonly progress: Progress
  /** Sends an early answer through the taps of the steps before the one that gives it. */
  readonly answer: (completion: ChatCompletion, taps: readonly StepTap[]) => Promise<void>
}

/** Who runs the steps: told of what ends an exchange. */
export interface ExchangeWatcher {
  /** An early answer is over. */
  onAnswerOver(): void
  /** Nobody waits for an answer any more. */
  onAbort(): void
}

/** A word about a step, for the trail. */
interface Said {
  readonly verdict: TrailEntry['verdict']
  readonly code: TrailEntry['code']
  readonly note: string | undefined
}

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }

export class LiveExchange implements Exchange {
  readonly id: string
  readonly startedAt: number
  readonly route: RouteView
  readonly address: string
  /** Set when the body was read, before the first step that needs it. */
  bytes: Buffer = UNREAD
  rawModel: string | null = null
  readonly idempotencyKey: string | null
  readonly progress: Progress
  readonly taps: StepTap[] = []
  readonly attempts: Attempt[] = []
  usage: Usage | null = null
  outcome: Outcome | null = null
  attemptsAtMost = 1
  onDropped: Exchange['onDropped'] = 'refuse_tools'
  onDisconnect: OnDisconnect = 'cancel'
  charge: Exchange['charge'] = null
  /** What was asked in another format than chat completions, once it is read: it writes the answer too. */
  inbound: InboundRequest | null = null
  /** Whether a step has answered by itself. */
  answered = false
  answerPrice: Price | null = null
  /** What the sending of that answer has failed with: a step further out has refused it, or the gateway is going. */
  answerError: unknown = null
  watcher: ExchangeWatcher | null = null
  /** Nothing more may be watched, edited or given: the request is on its way. */
  sealed = false
  /** The step whose code runs now. */
  step = -1
  readonly #parts: ExchangeParts
  #controller: AbortController | null = null
  #abortReason: Error | null = null
  readonly #facts: Writable<Partial<Facts>> = {}
  #json: unknown
  #parsed = false
  #badJson: Refusal | null = null
  #translated: Buffer | null = null
  #notes: Map<number, string> | null = null
  #rewritings: Rewriting[] | null = null
  /** What was said of steps that have refused or failed. */
  #broken: Map<number, Said> | null = null
  /** By the step's place; the last one is what stands behind the steps. */
  readonly #trail: (TrailEntry | undefined)[] = []

  constructor(parts: ExchangeParts) {
    this.#parts = parts
    this.id = parts.id
    this.startedAt = parts.startedAt
    this.route = parts.route
    this.address = parts.address
    this.idempotencyKey = parts.idempotencyKey
    this.progress = parts.progress
  }

  /** Made when somebody asks for it. */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController()
      if (this.#abortReason !== null) this.#controller.abort(this.#abortReason)
    }
    return this.#controller.signal
  }

  get aborted(): boolean {
    return this.#abortReason !== null
  }

  /** Nobody waits for an answer any more: the client has left, or the gateway is going. */
  abort(reason: Error): void {
    if (this.#abortReason !== null) return
    this.#abortReason = reason
    this.watcher?.onAbort()
    this.#controller?.abort(reason)
  }

  json(): unknown {
    if (this.#badJson) throw this.#badJson
    if (!this.#parsed) {
      if (this.bytes === UNREAD) throw new TypeError('the body has not been read: this plugin says `needsBody: false`')
      this.#json = this.#parts.parse(this.bytes)
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

  request(): ReturnType<Exchange['request']> {
    const body = this.json()
    if (!this.#parts.translate) return { body, bytes: this.bytes }
    if (this.inbound === null) {
      this.inbound = this.#parts.translate(body)
      const refusal = this.#parts.refusalOfLost?.(this.inbound.dropped ?? NOTHING_LOST)
      if (refusal) throw refusal
    }
    this.#translated ??= Buffer.from(JSON.stringify(this.inbound.body))
    const { body: asked, dropped = [] } = this.inbound
    return { body: asked, bytes: this.#translated, dropped }
  }

  give<F extends FactName>(name: F, value: Facts[F]): void {
    const step = this.#current('give')
    if (!step.plugin.gives?.includes(name)) {
      throw new TypeError(`step "${step.id}" gives "${name}", but its plugin does not say so in \`gives\``)
    }
    if (this[name] !== undefined) throw new TypeError(`step "${step.id}" gives "${name}" a second time`)
    this.#facts[name] = value
  }

  // Without setters: a step that assigns a fact in place of giving it fails.
  get key(): Key | undefined {
    return this.#facts.key
  }

  get account(): Account | undefined {
    return this.#facts.account
  }

  get chat(): Chat | undefined {
    return this.#facts.chat
  }

  get model(): Model | undefined {
    return this.#facts.model
  }

  get targets(): readonly Target[] | undefined {
    return this.#facts.targets
  }

  get hold(): NanoUsd | undefined {
    return this.#facts.hold
  }

  rewrite(changes: ChatChanges, own: readonly object[] = []): void {
    const { id } = this.#current('rewrite')
    const { chat } = this
    if (chat === undefined)
      throw new TypeError(`step "${id}" rewrites a request that nobody has read; let it need "chat"`)
    if (this.hold !== undefined) {
      throw new TypeError(`step "${id}" rewrites a request for which credit is held; let it stand before that step`)
    }
    const fixed = Object.keys(changes).find(name => FIXED_FIELDS.includes(name))
    if (fixed !== undefined) throw new TypeError(`step "${id}" rewrites "${fixed}", which steps have gone by already`)
    const kept = Object.entries({ ...chat.body, ...changes }).filter(([, value]) => value !== undefined)
    const body = Object.fromEntries(kept) as ChatRequest
    ;(this.#rewritings ??= []).push({ before: chat.body, after: body, own })
    // The same fact, so that a step further out sees that it was rewritten; what it holds of the old body stays as it was.
    Object.assign(chat, { body, bytes: Buffer.from(JSON.stringify(body)) } satisfies Partial<Chat>)
  }

  /** A refusal in terms of the request as the client sent it, before any step rewrote it. */
  asAsked(refusal: Refusal): Refusal {
    return this.#rewritings === null ? refusal : asAsked(refusal, this.#rewritings)
  }

  watch(fn: (chunk: Chunk) => void | Promise<void>): void {
    this.#current('watch')
    this.taps.push({ step: this.step, kind: 'watch', fn })
  }

  edit(fn: (chunk: Chunk) => Edited | Promise<Edited>): void {
    this.#current('edit')
    this.taps.push({ step: this.step, kind: 'edit', fn })
  }

  async answer(completion: ChatCompletion, price: Price | null = null): Promise<void> {
    const step = this.#current('answer')
    if (this.answered) throw new TypeError(`step "${step.id}" answers a second time`)
    this.answered = true
    this.answerPrice = price
    this.sealed = true
    const outside = this.taps.filter(tap => tap.step < this.step)
    try {
      await this.#parts.answer(completion, outside)
    } catch (error) {
      this.answerError = error
      throw error
    } finally {
      this.watcher?.onAnswerOver()
    }
  }

  /**
   * A step has refused the answer, or broken on it (null). It is refused where the client has seen nothing of it; what has been
   * delivered is paid for.
   */
  endBadly(refusal: Refusal | null, hasSeen: boolean): void {
    this.outcome = refusal === null || refusal.status >= 500 || hasSeen ? 'failed' : 'refused'
  }

  note(text: string): void {
    this.#notes ??= new Map()
    const before = this.#notes.get(this.step)
    const remark = visible(text)
    this.#notes.set(this.step, before === undefined ? remark : `${before}; ${remark}`)
  }

  /** In the order of the policy; a step that has gone on and not come back yet counts as passed. */
  get trail(): TrailEntry[] {
    return this.#trail.filter(entry => entry !== undefined)
  }

  /**
   * Writes a step's line of the trail, with its notes; the last word about it stands. But who has refused or failed in the
   * middle of the answer has not passed because it has also come back.
   */
  record(step: number, verdict: TrailEntry['verdict'], code?: TrailEntry['code'], note?: string): void {
    const broken = verdict === 'passed' ? this.#broken?.get(step) : undefined
    if (broken) {
      this.#write(step, broken)
      return
    }
    const planned = this.#parts.plan.steps[step]
    if (planned && verdict === 'passed' && note === undefined && !this.#notes?.has(step)) {
      this.#trail[step] = planned.passed
      return
    }
    const said = { verdict, code, note }
    if (verdict === 'refused' || verdict === 'failed') (this.#broken ??= new Map()).set(step, said)
    this.#write(step, said)
  }

  #write(step: number, { verdict, code, note }: Said): void {
    const { steps } = this.#parts.plan
    const before = this.#notes?.get(step)
    const remark = before !== undefined && note !== undefined ? `${before}; ${note}` : (before ?? note)
    const entry: Writable<TrailEntry> = { step: steps[step]?.id ?? 'send', verdict }
    if (code !== undefined) entry.code = code
    if (remark !== undefined) entry.note = remark
    this.#trail[steps[step] ? step : steps.length] = entry
  }

  #current(deed: string) {
    const step = this.#parts.plan.steps[this.step]
    if (!step || this.sealed) throw new TypeError(`${deed}() is for a step, before it calls next()`)
    return step
  }
}
