/**
 * Runs an exchange through the steps of its plan, as Koa runs middleware, with three differences: `await next()`
 * returns when the answer is over; the runner owns `next` and remembers what became of it, so that no step can lose an
 * inner refusal or send twice; and no step can keep the others waiting for ever.
 */
import type { Context } from 'koa'
import { placeOfMistake, type Refusal, refuse, shownPlace } from '#contract'
import type { ExchangeWatcher, LiveExchange } from './exchange.ts'
import { type GraceClock, graceClock } from './grace.ts'
import type { Plan, PlannedStep } from './plan.ts'
import { observed, StepCall } from './step-call.ts'
import type { StepReport } from './step-report.ts'

export interface RunParts {
  readonly plan: Plan
  readonly ctx: Context
  readonly exchange: LiveExchange
  /** Reads the body, before the first step that needs it; throws the refusal of a bad one. */
  readonly receive: () => Promise<void>
  /** The innermost middleware: sends the request on and resolves when the answer is over. */
  readonly innermost: () => Promise<void>
  /** Facts for `when`; called only for steps that have one. */
  readonly facts: () => Record<string, unknown>
  report(report: StepReport): void
  /** How long a step may go on after the answer is over. */
  readonly graceMs: number
}

/** Resolves when every step has returned (or was given up); rejects with what the client is to be told. */
export async function runPlan(parts: RunParts): Promise<void> {
  const run = new Run(parts)
  try {
    await run.from(0, null)
  } finally {
    run.stop()
  }
}

export class Run implements ExchangeWatcher {
  readonly parts: RunParts
  /** The steps that have not returned yet, outermost first. */
  readonly #open: StepCall[] = []
  readonly #grace: GraceClock
  #sending = false

  constructor(parts: RunParts) {
    this.parts = parts
    this.#grace = graceClock(parts.graceMs)
    parts.exchange.watcher = this
  }

  /** While an answer is on its way, the pump decides what is waited for. Before, nobody waits for a client that left. */
  onAbort(): void {
    if (!this.#sending) this.#startGrace()
  }

  onAnswerOver(): void {
    this.#startGrace()
  }

  /** From a step on. @param outer the step outside of it, which is told of the end before the promise settles */
  from(index: number, outer: StepCall | null): Promise<void> {
    return index === this.parts.plan.bodyFrom ? observed(this.#receive(index, outer)) : this.#run(index, outer)
  }

  stop(): void {
    this.#grace.delete(this)
    this.parts.exchange.watcher = null
  }

  opened(call: StepCall): void {
    this.#open.push(call)
  }

  closed(call: StepCall): void {
    if (this.#open.at(-1) === call) this.#open.pop()
    else this.#open.splice(this.#open.indexOf(call), 1)
    // The step outside of it is the one that everybody waits for now.
    if (!this.#sending) this.#startGrace()
  }

  /** The time of the innermost open step is over. */
  giveUp(): void {
    this.#open.at(-1)?.giveUp()
  }

  async #receive(index: number, outer: StepCall | null): Promise<void> {
    try {
      await this.parts.receive()
    } catch (error) {
      outer?.innerFailed(error)
      throw error
    }
    return this.#run(index, outer)
  }

  #run(index: number, outer: StepCall | null): Promise<void> {
    const step = this.parts.plan.steps[index]
    if (!step) return observed(this.#innermost(outer))
    try {
      if (!this.#runs(step, index)) return this.from(index + 1, outer)
    } catch (error) {
      outer?.innerFailed(error)
      return observed(Promise.reject(error))
    }
    return new StepCall(this, step, index, outer).start()
  }

  async #innermost(outer: StepCall | null): Promise<void> {
    const { exchange, innermost } = this.parts
    exchange.sealed = true
    this.#sending = true
    this.#grace.delete(this)
    try {
      await innermost()
    } catch (error) {
      this.#sent()
      outer?.innerFailed(error)
      throw error
    }
    this.#sent()
    outer?.innerOver()
  }

  #sent(): void {
    this.#sending = false
    this.#startGrace()
  }

  /** Whether a step takes part: it is on, and its condition holds. */
  #runs(step: PlannedStep, index: number): boolean {
    const { exchange, facts } = this.parts
    if (step.mode === 'off') {
      exchange.record(index, 'off')
      return false
    }
    if (!step.when) return true
    try {
      if (step.when.evaluate(facts())) return true
      exchange.record(index, 'skipped', undefined, '`when` is false')
      return false
    } catch (error) {
      this.report(step, 'its `when` threw', error)
      if (step.critical) return true
      exchange.record(index, 'failed', 'plugin_error', '`when` threw')
      throw this.failed(step, error)
    }
  }

  failed(step: PlannedStep, cause: unknown): Refusal {
    this.parts.exchange.outcome ??= 'failed'
    return refuse('plugin_error', { detail: `step "${step.id}"`, cause })
  }

  report(step: PlannedStep, what: string, error?: unknown): void {
    const { exchange, plan, report } = this.parts
    const at = shownPlace(placeOfMistake(error), step.position?.file)
    report({ exchange: exchange.id, policy: plan.name, step: step.id, what, error, ...(at === null ? {} : { at }) })
  }

  /** From when it is over, the innermost open step has its time; then the next one outward has its own. */
  #startGrace(): void {
    if (this.#open.length > 0) this.#grace.add(this)
  }
}
