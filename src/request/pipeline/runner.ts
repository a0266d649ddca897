/**
 * Runs an exchange through the steps of its plan, as Koa runs middleware, with three differences. `await next()` returns when the answer
 * is over. The runner owns `next` and tracks it, so that no step can lose an inner refusal or send twice. No step can block the others
 * for ever.
 */
import { type Refusal, refuse } from '#contract'
import type { PlannedStep } from '../../loader/plan.ts'
import type { Exchange, ExchangeListener } from '../exchange.ts'
import { type GraceClock, type GraceEntry, graceClock } from './grace.ts'
import { refusalOf } from './refusal-of.ts'
import type { Outer, StepCall } from './step-call.ts'
import { reportOf, type StepMistake, type StepReport } from './step-report.ts'
import { Stretch, type StretchRun } from './stretch.ts'

export interface RunOptions {
  /** How long a step may continue after the answer is over. */
  readonly stepGraceMs: number
  reportStep(report: StepReport): void
}

/** Resolves when every step has returned or was given up. Rejects with the error for the client. */
export function runPlan(exchange: Exchange, options: RunOptions): Promise<void> {
  const run = new Run(exchange, options)
  return run.from(0, run)
}

class Run implements ExchangeListener, GraceEntry, StretchRun, Outer {
  readonly exchange: Exchange
  readonly options: RunOptions
  /** The open steps, outermost first. A stretch of deciding steps is listed only while one of its steps waits. */
  readonly #open: (StepCall | Stretch)[] = []
  readonly #grace: GraceClock
  graceNode: GraceEntry['graceNode'] = null
  graceSince = 0
  #isStopped = false

  constructor(exchange: Exchange, options: RunOptions) {
    this.exchange = exchange
    this.options = options
    this.#grace = graceClock(options.stepGraceMs)
    exchange.phase = 'deciding'
    exchange.listen(this)
  }

  /** While the answer is being sent, the sender decides how long to wait. Before that, a disconnect starts the grace period. */
  onStop(): void {
    if (!this.#isStopped && !this.#isSending) this.#startGrace()
    this.#isStopped = true
  }

  onAnswered(): void {
    this.#startGrace()
  }

  from(index: number, outer: Outer | null): Promise<void> {
    return new Stretch(this, index, outer).start()
  }

  innerOver(): void {
    this.#grace.delete(this)
    this.exchange.unlisten(this)
  }

  innerFailed(): void {
    this.innerOver()
  }

  opened(call: StepCall): void {
    this.#open.push(call)
  }

  closed(call: StepCall): void {
    this.#remove(call)
    // The next outer step is now the one that blocks.
    if (!this.#isSending) this.#startGrace()
  }

  waits(stretch: Stretch): void {
    this.#open.push(stretch)
    // No step was open when the client disconnected, or when the inner part ended.
    if (this.#isStopped || stretch.isOver) this.#startGrace()
  }

  waited(stretch: Stretch): void {
    this.#remove(stretch)
    if (stretch.isOver) this.#startGrace()
  }

  /** Called when the time of the innermost open step is over. */
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

  /** Whether the upstream call runs. A step that waits for its own answer may be given up, so that does not count. */
  get #isSending(): boolean {
    return this.exchange.phase === 'sending' && !this.exchange.answered
  }

  send(outer: Outer): void {
    const { exchange } = this
    exchange.phase = 'sending'
    this.#grace.delete(this)
    const failed = (thrown: unknown) => {
      this.#sent()
      outer.innerFailed(refusalOf(thrown) ?? thrown)
    }
    try {
      exchange.send().then(reply => {
        try {
          if (reply) exchange.end(reply)
          if (reply?.refusal) throw reply.refusal
        } catch (error) {
          failed(error)
          return
        }
        this.#sent()
        outer.innerOver()
      }, failed)
    } catch (error) {
      failed(error)
    }
  }

  #sent(): void {
    this.exchange.phase = 'settling'
    this.#startGrace()
  }

  runs(step: PlannedStep, index: number): boolean {
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

  #remove(open: StepCall | Stretch): void {
    if (this.#open.at(-1) === open) this.#open.pop()
    else this.#open.splice(this.#open.indexOf(open), 1)
  }

  /** Starts the time of the innermost open step; the next outer step gets its own afterwards. */
  #startGrace(): void {
    if (this.#open.length > 0) this.#grace.add(this)
  }
}
