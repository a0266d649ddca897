/** Calls one step of one exchange and handles its result. */
import { isRefusal, type Refusal, type StepMiddleware } from '#contract'
import { promiseOf } from '../../common/promises.ts'
import type { PlannedStep } from '../../loader/plan.ts'
import type { Exchange } from '../exchange.ts'
import { answeredByKoa, StepHandle, takeTurn } from './handle.ts'
import { refusalOf } from './refusal-of.ts'
import { Shadow } from './shadow.ts'
import { mistakeWords, type StepMistake } from './step-report.ts'

/** The step or run outside of a step. It is notified of the end before the promise of the end settles. */
export interface Outer {
  innerOver(): void
  innerFailed(error: unknown): void
}

/** The run of an exchange, as its steps use it. */
export interface ExchangeRun {
  readonly exchange: Exchange
  /** Runs the steps from an index on. @param outer the step outside of it, notified of the end before the promise settles */
  from(index: number, outer: Outer | null): Promise<void>
  opened(call: StepCall): void
  closed(call: StepCall): void
  failed(step: PlannedStep, cause: unknown): Refusal
  report(step: PlannedStep, mistake: StepMistake, error?: unknown): void
}

/**
 * The call of a step that wraps others, until it has returned or was given up. A correct step costs this object, two promises and the
 * function `next`; all other cases have methods of their own. A deciding step that runs in shadow, has answered or has failed is called
 * the same way.
 */
export class StepCall implements Outer {
  readonly #run: ExchangeRun
  readonly #step: PlannedStep
  readonly #index: number
  readonly #outer: Outer
  readonly #handle: StepHandle
  readonly #shadow: Shadow | null
  /** The state of its `next`. */
  #state: 'not called' | 'pending' | 'over' | 'failed' = 'not called'
  #error: unknown = undefined
  #inner: Promise<void> | null = null
  /** Whether it has returned, thrown or was given up: the first of these counts. */
  #isBack = false
  /** Set at the end: later calls of `next` are too late. */
  #closed = false

  /** @param handle the handle of a deciding step that began without a `StepCall` */
  constructor(run: ExchangeRun, step: PlannedStep, index: number, outer: Outer, handle?: StepHandle) {
    this.#run = run
    this.#step = step
    this.#index = index
    this.#outer = outer
    this.#handle = handle ?? new StepHandle(run.exchange, index)
    this.#shadow = step.mode === 'shadow' ? new Shadow(run.exchange, this.#handle, index) : null
  }

  /** Calls the step, or `call` in its place. The outer step is notified of its end, including everything inside it. */
  start(call: StepMiddleware = this.#step.handle): void {
    this.#run.opened(this)
    this.#runs()
    this.#call(call)
  }

  /** Calls the after-part of a deciding step. @param failure the error of the inner part */
  startAfter(failure: { readonly error: unknown } | null, call: StepMiddleware): void {
    this.#state = failure === null ? 'over' : 'failed'
    this.#error = failure?.error
    this.start(call)
  }

  /** The inner part is over. */
  innerOver(): void {
    this.#state = 'over'
    this.#resumed()
  }

  innerFailed(error: unknown): void {
    this.#state = 'failed'
    this.#error = error
    // Without this, a step that does not await `next()` would cause an unhandled rejection. The microtask waits until `#inner` is assigned.
    queueMicrotask(() => this.#inner?.catch(ignore))
    // Recorded before the step continues, because it may write the receipt.
    this.#run.exchange.recordFailure(error)
    this.#resumed()
  }

  /** The step did not return in time. The others continue without it. */
  giveUp(): void {
    if (this.#isBack) return
    this.#isBack = true
    try {
      this.#shadow?.undo()
      this.#late()
    } catch (error) {
      this.#fail(error)
      return
    }
    this.#end()
  }

  #resumed(): void {
    this.#runs()
    this.#shadow?.look()
  }

  /** Marks the step's code as running: `ctx.exchange` is its own. */
  #runs(): void {
    takeTurn(this.#run.exchange, this.#index, this.#handle)
  }

  #call(call: StepMiddleware): void {
    let returned: unknown
    try {
      returned = call((this.#shadow?.ctx ?? this.#run.exchange.ctx) as never, () => this.#next())
    } catch (error) {
      this.#back(true, error)
      return
    }
    promiseOf(returned).then(
      () => this.#back(false, undefined),
      error => this.#back(true, error),
    )
  }

  #back(threw: boolean, error: unknown): void {
    if (this.#isBack) return
    const { phase, answering } = this.#run.exchange
    if (answering !== null && phase === 'sending' && this.#state === 'not called') {
      // The step does not await its own answer. The runner does, and may still give it up.
      answering.then(
        () => this.#back(threw, error),
        failure => this.#back(true, threw ? error : failure),
      )
      return
    }
    this.#isBack = true
    // Any error here must settle the step: outer steps wait for that.
    try {
      this.#shadow?.undo()
      if (threw || this.#state !== 'over') {
        const handled = threw ? this.#threw(error) : this.#returned()
        handled.then(
          () => this.#end(),
          failure => this.#fail(failure),
        )
        return
      }
      this.#passed()
    } catch (failure) {
      this.#fail(failure)
      return
    }
    this.#end()
  }

  #end(): void {
    this.#closed = true
    this.#run.closed(this)
    this.#outer.innerOver()
  }

  #fail(error: unknown): void {
    this.#closed = true
    this.#run.closed(this)
    this.#outer.innerFailed(error)
  }

  /** Runs the inner part once: a second call returns the first promise. A call after the end, or after an answer, rejects. */
  #next(): Promise<void> {
    if (this.#inner) return this.#inner
    const { exchange } = this.#run
    const mistake = this.#closed ? 'next_after_end' : exchange.answered && !this.#shadow ? 'next_after_answer' : null
    if (mistake === null) {
      this.#shadow?.undo()
      this.#state = 'pending'
      exchange.record(this.#index, 'passed', undefined, undefined, this.#shadow?.would)
      this.#inner = this.#run.from(this.#index + 1, this)
      return this.#inner
    }
    this.#run.report(this.#step, mistake)
    // Possibly the caller does not await this promise.
    const late = Promise.reject(new TypeError(`the step "${this.#step.id}" ${mistakeWords({ mistake })}`))
    late.catch(ignore)
    return late
  }

  async #returned(): Promise<void> {
    const { exchange } = this.#run
    if (this.#state === 'pending') {
      // The step did not await `next()`, so its after-part ran too early. Wait for the answer here.
      this.#run.report(this.#step, 'not_awaited')
      await this.#inner!.catch(() => {})
      exchange.record(this.#index, 'failed', 'plugin_error', 'not_awaited')
      if (this.#error !== undefined) throw this.#error
      return
    }
    if (this.#state === 'failed') {
      this.#run.report(this.#step, 'kept_error')
      exchange.record(this.#index, 'passed', undefined, 'kept_error')
      throw this.#error
    }
    if (this.#state === 'over') {
      this.#passed()
      return
    }
    if (this.#shadow) {
      const { wouldAnswer, would } = this.#shadow
      exchange.record(this.#index, wouldAnswer ? 'would_refuse' : 'passed', undefined, undefined, would)
      return this.#run.from(this.#index + 1, null)
    }
    if (exchange.answerError !== null) {
      this.#run.report(this.#step, 'kept_error')
      exchange.record(this.#index, 'answered', undefined, 'kept_error')
      throw exchange.answerError
    }
    if (exchange.answered || answeredByKoa(exchange.ctx)) {
      if (!exchange.answered) exchange.end({ outcome: 'answered' })
      exchange.answered = true
      exchange.record(this.#index, 'answered')
      return
    }
    this.#run.report(this.#step, 'no_decision')
    exchange.record(this.#index, 'failed', 'plugin_error', 'no_decision')
    throw this.#run.failed(this.#step, undefined)
  }

  /** The step has continued and returned. In shadow, one of its taps may have thrown. */
  #passed(): void {
    const { exchange } = this.#run
    const code = this.#shadow?.wouldStop ?? undefined
    if (code === undefined) exchange.record(this.#index, 'passed', undefined, undefined, this.#shadow?.would)
    else exchange.record(this.#index, 'would_refuse', code, 'in_answer', this.#shadow?.would)
  }

  async #threw(error: unknown): Promise<void> {
    const { exchange } = this.#run
    if (this.#state === 'pending') await this.#inner!.catch(() => {})
    if (this.#state === 'failed' && (error === this.#error || !isRefusal(error) || this.#shadow)) {
      // The inner error counts. A later error of the step itself is a bug to report and does not help the client.
      if (error === this.#error) this.#passed()
      else if (this.#shadow && isRefusal(error))
        exchange.record(this.#index, 'would_refuse', error.code, undefined, this.#shadow.would)
      else {
        this.#run.report(this.#step, 'threw_after_error', error)
        exchange.record(this.#index, 'failed', 'plugin_error', 'threw_after_error')
      }
      throw this.#error
    }
    if (this.#state === 'not called') return this.#threwBefore(error)
    if (this.#shadow) {
      const code = isRefusal(error) ? error.code : 'plugin_error'
      exchange.record(this.#index, 'would_refuse', code, undefined, this.#shadow.would)
      return
    }
    throw this.#ownError(error)
  }

  /**
   * Handles an error that the step threw before it called `next()`. `onError: skip` applies only here; shadow mode also applies to later
   * errors.
   */
  async #threwBefore(error: unknown): Promise<void> {
    const { exchange } = this.#run
    if (this.#shadow) {
      const code = isRefusal(error) ? error.code : 'plugin_error'
      if (!isRefusal(error)) this.#run.report(this.#step, 'threw_in_shadow', error)
      exchange.record(this.#index, 'would_refuse', code, undefined, this.#shadow.would)
      return this.#run.from(this.#index + 1, null)
    }
    const skippable = refusalOf(error) === null && !exchange.answered
    if (this.#step.onError === 'skip' && skippable) {
      this.#run.report(this.#step, 'skipped_on_error', error)
      exchange.record(this.#index, 'failed', 'plugin_error', 'skipped_on_error')
      return this.#run.from(this.#index + 1, null)
    }
    if (exchange.answered && error === exchange.answerError) {
      // This step has answered. The step that stopped the answer has its own line.
      exchange.record(this.#index, 'answered')
      throw error
    }
    // The step may have answered before.
    throw this.#ownError(error)
  }

  /** Records an error of the step itself. Returns the error for the client. */
  #ownError(error: unknown): unknown {
    const { exchange } = this.#run
    const refusal = refusalOf(error)
    if (refusal) {
      exchange.record(this.#index, 'refused', refusal.code)
      return refusal
    }
    this.#run.report(this.#step, 'threw', error)
    exchange.record(this.#index, 'failed', 'plugin_error')
    return this.#run.failed(this.#step, error)
  }

  #late(): void {
    const { exchange } = this.#run
    this.#run.report(this.#step, 'late')
    exchange.record(this.#index, 'late', 'plugin_error')
    if (this.#state === 'failed') throw this.#error
    if (this.#state === 'not called' && exchange.answerError !== null) throw exchange.answerError
    if (this.#state === 'not called' && (!exchange.answered || exchange.phase === 'sending')) {
      // The step never continued: the client disconnected or the gateway is shutting down, and the answer is missing or incomplete.
      exchange.phase = 'settling'
      throw this.#run.failed(this.#step, new Error('the step did not continue'))
    }
    // An answer must not be sent without the result of auth and billing steps.
    if (!this.#step.critical) return
    throw this.#run.failed(this.#step, new Error('a critical step did not return'))
  }
}

const ignore = () => {}
