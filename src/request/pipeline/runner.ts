/**
 * Runs an exchange through the steps of its plan, as Koa runs middleware, with three differences: `await next()`
 * returns when the answer is over; the runner owns `next` and remembers what became of it, so that no step can lose an
 * inner refusal or send twice; and no step can keep the others waiting for ever.
 */
import { type Refusal, refuse } from '#contract'
import type { PlannedStep } from '../../loader/plan.ts'
import type { Exchange, ExchangeListener } from '../exchange.ts'
import { type GraceClock, graceClock, type Patient } from './grace.ts'
import { refusalOf } from './refusal-of.ts'
import { StepCall, type StepRun } from './step-call.ts'
import { reportOf, type StepMistake, type StepReport } from './step-report.ts'

export interface RunOptions {
  /** How long a step may go on after the answer is over. */
  readonly stepGraceMs: number
  reportStep(report: StepReport): void
}

/** Resolves when every step has returned (or was given up); rejects with what the client is to be told. */
export async function runPlan(exchange: Exchange, options: RunOptions): Promise<void> {
  const run = new Run(exchange, options)
  try {
    await run.from(0, null)
  } finally {
    run.over()
  }
}

class Run implements ExchangeListener, Patient, StepRun {
  readonly exchange: Exchange
  readonly options: RunOptions
  /** The steps that have not returned yet, outermost first. */
  readonly #open: StepCall[] = []
  readonly #grace: GraceClock
  graceLink: Patient['graceLink'] = null
  graceSince = 0
  #isStopped = false

  constructor(exchange: Exchange, options: RunOptions) {
    this.exchange = exchange
    this.options = options
    this.#grace = graceClock(options.stepGraceMs)
    exchange.phase = 'deciding'
    exchange.listen(this)
  }

  /** While an answer is on its way, the sender decides what is waited for. Before, nobody waits for a client that left. */
  onStop(): void {
    if (!this.#isStopped && !this.#isSending) this.#startGrace()
    this.#isStopped = true
  }

  onAnswered(): void {
    this.#startGrace()
  }

  from(index: number, outer: StepCall | null): Promise<void> {
    return index === this.exchange.plan.bodyFrom ? this.#receive(index, outer) : this.#run(index, outer)
  }

  over(): void {
    this.#grace.delete(this)
    this.exchange.unlisten(this)
  }

  opened(call: StepCall): void {
    this.#open.push(call)
  }

  closed(call: StepCall): void {
    if (this.#open.at(-1) === call) this.#open.pop()
    else this.#open.splice(this.#open.indexOf(call), 1)
    // The step outside of it is the one that everybody waits for now.
    if (!this.#isSending) this.#startGrace()
  }

  /** The time of the innermost open step is over. */
  giveUp(): void {
    this.#open.at(-1)?.giveUp()
  }

  failed(step: PlannedStep, cause: unknown): Refusal {
    return refuse('plugin_error', { step: step.id, cause })
  }

  report(step: PlannedStep, mistake: StepMistake, error?: unknown): void {
    const report = reportOf(this.exchange, step, mistake, error)
    const { reportStep, stepGraceMs } = this.options
    reportStep(mistake === 'late' ? { ...report, waitedMs: stepGraceMs } : report)
  }

  /** A step's own answer is waited for by that step, which may be given up. */
  get #isSending(): boolean {
    return this.exchange.phase === 'sending' && !this.exchange.answered
  }

  async #receive(index: number, outer: StepCall | null): Promise<void> {
    const { exchange } = this
    try {
      exchange.phase = 'receiving'
      await exchange.receive()
      exchange.phase = 'deciding'
    } catch (error) {
      outer?.innerFailed(error)
      throw error
    }
    // Before these steps wait for the first time they parse, validate and estimate.
    return exchange.measured(() => this.#run(index, outer))
  }

  #run(index: number, outer: StepCall | null): Promise<void> {
    const step = this.exchange.plan.steps[index]
    if (!step) return this.#send(outer)
    try {
      if (!this.#runs(step, index)) return this.from(index + 1, outer)
    } catch (error) {
      outer?.innerFailed(error)
      return Promise.reject(error)
    }
    return new StepCall(this, step, index, outer).start()
  }

  async #send(outer: StepCall | null): Promise<void> {
    const { exchange } = this
    exchange.phase = 'sending'
    this.#grace.delete(this)
    try {
      const reply = await exchange.send()
      if (reply) exchange.end(reply)
      if (reply?.refusal) throw reply.refusal
    } catch (thrown) {
      this.#sent()
      const error = refusalOf(thrown) ?? thrown
      outer?.innerFailed(error)
      throw error
    }
    this.#sent()
    outer?.innerOver()
  }

  #sent(): void {
    this.exchange.phase = 'settling'
    this.#startGrace()
  }

  /** Whether a step takes part: it is on, and its condition holds. */
  #runs(step: PlannedStep, index: number): boolean {
    const { exchange } = this
    if (step.mode === 'off') {
      exchange.record(index, 'off')
      return false
    }
    if (!step.when) return true
    try {
      if (step.when.evaluate(exchange.facts())) return true
      exchange.record(index, 'skipped')
      return false
    } catch (error) {
      this.report(step, 'when_threw', error)
      if (step.critical) return true
      exchange.record(index, 'failed', 'plugin_error', 'when_threw')
      throw this.failed(step, error)
    }
  }

  /** From when it is over, the innermost open step has its time; then the next one outward has its own. */
  #startGrace(): void {
    if (this.#open.length > 0) this.#grace.add(this)
  }
}
