/** The handle: `ctx.exchange`, an exchange as the code of one step sees it. */

import type { Context } from 'koa'
import {
  type Account,
  type Attempt,
  type Chat,
  type ChatChanges,
  type ChatCompletion,
  type Chunk,
  type EditResult,
  type Exchange as ExchangeOfSteps,
  type FactName,
  type Facts,
  type Key,
  type MeteredUsage,
  type Model,
  type NanoUsd,
  type OnDisconnect,
  type Outcome,
  type Price,
  type Progress,
  type RouteView,
  type Target,
  type TrailEntry,
  visible,
} from '#contract'
import type { Exchange } from '../exchange.ts'

/**
 * Bound to its step: each call counts as that step's action. Methods that decide throw after its `next()`. It has the members of the
 * contract and nothing else of the gateway.
 */
export class StepHandle implements ExchangeOfSteps {
  readonly #exchange: Exchange
  readonly #step: number

  constructor(exchange: Exchange, step: number) {
    this.#exchange = exchange
    this.#step = step
  }

  get id(): string {
    return this.#exchange.id
  }
  get startedAt(): number {
    return this.#exchange.startedAt
  }
  get route(): RouteView {
    return this.#exchange.route
  }
  get address(): string {
    return this.#exchange.address
  }
  get idempotencyKey(): string | null {
    return this.#exchange.idempotencyKey
  }
  get bytes(): Buffer {
    return this.#exchange.bytes
  }
  get rawModel(): string | null {
    return this.#exchange.rawModel
  }
  get signal(): AbortSignal {
    return this.#exchange.signal
  }
  get progress(): Progress {
    return this.#exchange.progress
  }
  get attempts(): readonly Attempt[] {
    return this.#exchange.attempts
  }
  get trail(): readonly TrailEntry[] {
    return this.#exchange.trail
  }
  get usage(): MeteredUsage | null {
    return this.#exchange.usage
  }
  get outcome(): Outcome | null {
    return this.#exchange.outcome
  }
  get answerPrice(): Price | null {
    return this.#exchange.answerPrice
  }

  // Without setters: assigning a fact instead of giving it fails.
  get key(): Key | undefined {
    return this.#exchange.key
  }
  get account(): Account | undefined {
    return this.#exchange.account
  }
  get chat(): Chat | undefined {
    return this.#exchange.chat
  }
  get model(): Model | undefined {
    return this.#exchange.model
  }
  get targets(): readonly Target[] | undefined {
    return this.#exchange.targets
  }
  get hold(): NanoUsd | undefined {
    return this.#exchange.hold
  }
  get claims(): Facts['claims'] | undefined {
    return this.#exchange.claims
  }
  get tags(): Facts['tags'] | undefined {
    return this.#exchange.tags
  }

  get attemptsAtMost(): number {
    return this.#exchange.attemptsAtMost
  }
  set attemptsAtMost(most: number) {
    this.#exchange.attemptsAtMost = most
  }
  get onDropped(): ExchangeOfSteps['onDropped'] {
    return this.#exchange.onDropped
  }
  set onDropped(wish: ExchangeOfSteps['onDropped']) {
    this.#exchange.onDropped = wish
  }
  get onDisconnect(): OnDisconnect {
    return this.#exchange.onDisconnect
  }
  set onDisconnect(wish: OnDisconnect) {
    this.#exchange.onDisconnect = wish
  }
  get charge(): ExchangeOfSteps['charge'] {
    return this.#exchange.charge
  }
  set charge(charge: ExchangeOfSteps['charge']) {
    this.#exchange.charge = charge
  }

  json(): unknown {
    return this.#exchange.json()
  }

  request(): ReturnType<ExchangeOfSteps['request']> {
    return this.#exchange.request()
  }

  give<F extends FactName>(name: F, value: Facts[F]): void {
    this.#exchange.give(this.#current('give'), name, value)
  }

  rewrite(changes: ChatChanges, own: readonly object[] = []): void {
    this.#exchange.rewrite(this.#current('rewrite'), changes, own)
  }

  askInstead(model: Model): void {
    const { id } = this.#current('askInstead')
    const { chat, targets, hold } = this.#exchange
    if (chat?.forModel === undefined || targets !== undefined || hold !== undefined) {
      throw new TypeError(
        `step "${id}" selects another model; call askInstead after "chat" is given, and before "targets" and "hold" are`,
      )
    }
    Object.assign(chat, chat.forModel(chat, model))
    this.#exchange.notesOf(this.#step).asked ??= this.#exchange.model!.id
    this.#exchange.model = model
  }

  watch(fn: (chunk: Chunk) => void | Promise<void>): void {
    this.#current('watch')
    this.#exchange.taps.push({ step: this.#step, kind: 'watch', fn: this.#bound(fn) })
  }

  edit(fn: (chunk: Chunk) => EditResult | Promise<EditResult>): void {
    this.#current('edit')
    this.#exchange.taps.push({ step: this.#step, kind: 'edit', fn: this.#bound(fn) })
  }

  async answer(completion: ChatCompletion, price: Price | null = null): Promise<void> {
    this.#current('answer')
    await this.#exchange.answerEarly(this.#step, completion, price)
  }

  note(text: string): void {
    const added = this.#exchange.notesOf(this.#step)
    const remark = visible(text)
    added.note = added.note === undefined ? remark : `${added.note}; ${remark}`
  }

  /** For `middlewareOf`: whether the step has answered, so that nothing is sent upstream. */
  get answered(): boolean {
    return this.#exchange.answered || answeredByKoa(this.#exchange.ctx)
  }

  /** For the guard of Koa's response: no answer may be set any more. */
  get sealed(): boolean {
    return this.#exchange.sealed
  }

  /** While `fn` runs, `ctx.exchange` is this handle: other steps run between two chunks. */
  #bound<Made>(fn: (chunk: Chunk) => Made): (chunk: Chunk) => Made {
    const { ctx } = this.#exchange
    return chunk => {
      const before: unknown = ctx['exchange']
      ctx['exchange'] = this
      try {
        return fn(chunk)
      } finally {
        ctx['exchange'] = before
      }
    }
  }

  /** Returns the step while it may still decide: it is its turn, before its `next()`. */
  #current(deed: string) {
    const { plan, step, phase, outcome } = this.#exchange
    // An outcome means that a later step has refused or failed.
    if (step !== this.#step || phase !== 'deciding' || outcome !== null)
      throw new TypeError(`${deed}() must be called by the step itself, before it calls next()`)
    return plan.steps[step]!
  }
}

/** Marks a step's code as running: `ctx.exchange` is its handle. */
export function takeTurn(
  exchange: Exchange,
  index: number,
  handle: StepHandle = new StepHandle(exchange, index),
): StepHandle {
  exchange.step = index
  exchange.ctx['exchange'] = handle
  return handle
}

/** Whether a Koa middleware has answered by an explicit status or body. */
export function answeredByKoa(ctx: Context): boolean {
  const response = ctx.response as unknown as { _explicitStatus?: boolean; body?: unknown }
  return response._explicitStatus === true || (response.body !== undefined && response.body !== null)
}
