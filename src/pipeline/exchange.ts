/** The exchange as the gateway handles it: what steps see (the contract's `Exchange`), and the setters they do not. */
import type {
  Account,
  Attempt,
  Chat,
  ChatCompletion,
  Chunk,
  Exchange,
  FactName,
  Facts,
  InboundRequest,
  Key,
  Model,
  OnDisconnect,
  Outcome,
  Progress,
  RouteView,
  Target,
  TrailEntry,
  Usage,
} from '#contract'
import type { Plan } from './plan.ts'

/** A tap with the place of the step that set it. */
export type StepTap =
  | { readonly step: number; readonly kind: 'watch'; readonly fn: (chunk: Chunk) => void }
  | { readonly step: number; readonly kind: 'edit'; readonly fn: (chunk: Chunk) => Chunk | readonly Chunk[] | null }

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
  readonly progress: Progress
  /** Sends an early answer through the taps of the steps before the one that gives it. */
  readonly answer: (completion: ChatCompletion, taps: readonly StepTap[]) => Promise<void>
}

type Writable<Value> = { -readonly [Name in keyof Value]: Value[Name] }

export class LiveExchange implements Exchange {
  readonly id: string
  readonly startedAt: number
  readonly route: RouteView
  readonly address: string
  /** Set when the body was read, before the first step. */
  bytes: Buffer = Buffer.alloc(0)
  readonly idempotencyKey: string | null
  readonly progress: Progress
  readonly abortController = new AbortController()
  readonly taps: StepTap[] = []
  readonly attempts: Attempt[] = []
  usage: Usage | null = null
  outcome: Outcome | null = null
  attemptsAtMost = 1
  onDropped: Exchange['onDropped'] = 'tell'
  onDisconnect: OnDisconnect = 'cancel'
  charge: Exchange['charge'] = null
  /** What was asked in another format than chat completions, once it is read: it writes the answer too. */
  inbound: InboundRequest | null = null
  /** Whether a step has answered by itself. */
  answered = false
  /** Told when an early answer is over; the runner's. */
  onAnswerOver: (() => void) | null = null
  /** Nothing more may be watched, edited or given: the request is on its way. */
  sealed = false
  /** The step whose code runs now. */
  step = -1
  readonly #parts: ExchangeParts
  readonly #facts: Writable<Partial<Facts>> = {}
  #json: unknown
  #parsed = false
  #translated: Buffer | null = null
  #notes: Map<number, string> | null = null
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

  get signal(): AbortSignal {
    return this.abortController.signal
  }

  json(): unknown {
    if (!this.#parsed) {
      this.#json = this.#parts.parse(this.bytes)
      this.#parsed = true
    }
    return this.#json
  }

  request(): ReturnType<Exchange['request']> {
    const body = this.json()
    if (!this.#parts.translate) return { body, bytes: this.bytes }
    this.inbound ??= this.#parts.translate(body)
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

  watch(fn: (chunk: Chunk) => void): void {
    this.#current('watch')
    this.taps.push({ step: this.step, kind: 'watch', fn })
  }

  edit(fn: (chunk: Chunk) => Chunk | readonly Chunk[] | null): void {
    this.#current('edit')
    this.taps.push({ step: this.step, kind: 'edit', fn })
  }

  async answer(completion: ChatCompletion): Promise<void> {
    const step = this.#current('answer')
    if (this.answered) throw new TypeError(`step "${step.id}" answers a second time`)
    this.answered = true
    this.sealed = true
    const outside = this.taps.filter(tap => tap.step < this.step)
    try {
      await this.#parts.answer(completion, outside)
    } finally {
      this.onAnswerOver?.()
    }
  }

  note(text: string): void {
    this.#notes ??= new Map()
    const before = this.#notes.get(this.step)
    this.#notes.set(this.step, before === undefined ? text : `${before}; ${text}`)
  }

  /** In the order of the policy; a step that has gone on and not come back yet counts as passed. */
  get trail(): TrailEntry[] {
    return this.#trail.filter(entry => entry !== undefined)
  }

  /** Writes a step's line of the trail, with its notes; the last word about it stands. */
  record(step: number, verdict: TrailEntry['verdict'], code?: TrailEntry['code'], note?: string): void {
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
