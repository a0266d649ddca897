/**
 * A stretch: consecutive steps that only decide (`decide`, and `after` at the end). They run in a loop; a step costs a promise only if it
 * waits. A step that wraps, runs in shadow or has failed gets a `StepCall`, which reports its end to the stretch.
 */
import type { StepMiddleware } from '#contract'
import { isPromise, promiseOf } from '../../common/promises.ts'
import type { PlannedStep } from '../../loader/plan.ts'
import { answeredByKoa, type StepHandle, takeTurn } from './handle.ts'
import { type ExchangeRun, type Outer, StepCall } from './step-call.ts'

/** The run of an exchange, as a stretch uses it. */
export interface StretchRun extends ExchangeRun {
  /** Whether a step takes part: it is on, and its condition holds. Throws if the condition throws and the step is not critical. */
  runs(step: PlannedStep, index: number): boolean
  /** Sends the request, after the last step. `outer` is notified when the answer is over. */
  send(outer: Outer): void
  /** Called when a deciding step starts to wait, and when it stops waiting. */
  waits(stretch: Stretch): void
  waited(stretch: Stretch): void
}

/** A decided step whose after-part is due. */
interface DecidedStep {
  readonly index: number
  readonly handle: StepHandle
  readonly kept: unknown
}

export class Stretch implements Outer {
  readonly #run: StretchRun
  readonly #outer: Outer | null
  readonly #over: PromiseWithResolvers<void> = Promise.withResolvers<void>()
  #index: number
  #handle: StepHandle | null = null
  #isReceived = false
  /** Steps whose after-parts are due, outermost first. */
  #decided: DecidedStep[] | null = null
  /** Whether the inner part has ended, so that the after-parts run. */
  isOver = false
  /** The error of the inner part. */
  #failure: { readonly error: unknown } | null = null
  /** Identifies the current wait. A result of an earlier wait is too late. */
  #wait = 0

  constructor(run: StretchRun, index: number, outer: Outer | null) {
    this.#run = run
    this.#index = index
    this.#outer = outer
  }

  /** Runs the steps. Resolves when all of them, with everything inside them, have ended. */
  start(): Promise<void> {
    this.#forward()
    return this.#over.promise
  }

  innerOver(): void {
    this.isOver = true
    this.#backward()
  }

  innerFailed(error: unknown): void {
    this.isOver = true
    this.#failure = { error }
    // Recorded before the after-parts run, because one of them may write the receipt.
    this.#run.exchange.recordFailure(error)
    this.#backward()
  }

  /** Gives up the step that waits. */
  giveUp(): void {
    this.#wait++
    this.#run.waited(this)
    const call = this.#call()
    if (this.isOver) call.startAfter(this.#failure, waitForEver)
    else call.start(waitForEver)
    call.giveUp()
  }

  #forward(): void {
    try {
      this.#decide()
    } catch (error) {
      this.innerFailed(error)
    }
  }

  #decide(): void {
    const run = this.#run
    const { exchange } = run
    const { ctx, plan } = exchange
    const { steps, bodyFrom } = plan
    // A step from npm may have set a status before it called `next()`.
    const wasAnswered = answeredByKoa(ctx)
    for (; ; this.#index++) {
      const index = this.#index
      if (index === bodyFrom && !this.#isReceived) {
        this.#receive()
        return
      }
      const step = steps[index]
      if (step === undefined) {
        run.send(this)
        return
      }
      if (!run.runs(step, index)) continue
      if (step.decide === null) {
        new StepCall(run, step, index, this).start()
        return
      }
      this.#handle = takeTurn(exchange, index)
      let kept: unknown
      try {
        kept = step.decide(ctx as never)
      } catch (error) {
        this.#threw(error)
        return
      }
      if (isPromise(kept)) {
        this.#awaitDecision(kept, wasAnswered)
        return
      }
      if (!this.#goesOn(kept, wasAnswered)) return
    }
  }

  /** Records that the current step lets the request continue. False: it has answered, and its `StepCall` handles the rest. */
  #goesOn(kept: unknown, wasAnswered: boolean): boolean {
    const { exchange } = this.#run
    const index = this.#index
    if (exchange.answered || (!wasAnswered && answeredByKoa(exchange.ctx))) {
      this.#call().start(() => ANSWERED)
      return false
    }
    exchange.record(index, 'passed')
    if (exchange.plan.steps[index]!.after !== null) {
      ;(this.#decided ??= []).push({ index, handle: this.#handle!, kept })
    }
    return true
  }

  #threw(error: unknown): void {
    this.#call().start(() => Promise.reject(error))
  }

  #awaitDecision(decision: PromiseLike<unknown>, wasAnswered: boolean): void {
    const wait = ++this.#wait
    const step = { index: this.#index, handle: this.#handle! }
    this.#run.waits(this)
    promiseOf(decision).then(
      kept => {
        if (wait !== this.#wait) return this.#afterLate({ ...step, kept })
        this.#run.waited(this)
        if (!this.#goesOn(kept, wasAnswered)) return
        this.#index++
        this.#forward()
      },
      error => {
        if (wait !== this.#wait) return
        this.#run.waited(this)
        this.#threw(error)
      },
    )
  }

  #receive(): void {
    const { exchange } = this.#run
    exchange.phase = 'receiving'
    exchange.receive().then(
      () => {
        exchange.phase = 'deciding'
        this.#isReceived = true
        // Before their first wait these steps parse, validate and estimate.
        exchange.measured(() => this.#forward())
      },
      error => this.innerFailed(error),
    )
  }

  /** Runs the after-parts, innermost first. */
  #backward(): void {
    for (let step = this.#decided?.pop(); step !== undefined; step = this.#decided!.pop()) {
      this.#index = step.index
      this.#handle = step.handle
      let over: unknown
      try {
        over = this.#after(step)
      } catch (error) {
        this.#call().startAfter(this.#failure, () => Promise.reject(error))
        return
      }
      if (isPromise(over)) {
        this.#awaitAfter(over)
        return
      }
      this.#run.exchange.record(step.index, 'passed')
    }
    if (this.#failure === null) {
      this.#outer?.innerOver()
      this.#over.resolve()
    } else {
      this.#outer?.innerFailed(this.#failure.error)
      this.#over.reject(this.#failure.error)
    }
  }

  #after({ index, handle, kept }: DecidedStep): unknown {
    const { exchange } = this.#run
    takeTurn(exchange, index, handle)
    return exchange.plan.steps[index]!.after!(exchange.ctx as never, exchange.outcome, kept, this.#failure?.error)
  }

  #awaitAfter(over: PromiseLike<unknown>): void {
    const wait = ++this.#wait
    const index = this.#index
    this.#run.waits(this)
    promiseOf(over).then(
      () => {
        if (wait !== this.#wait) return
        this.#run.waited(this)
        this.#run.exchange.record(index, 'passed')
        this.#backward()
      },
      error => {
        if (wait !== this.#wait) return
        this.#run.waited(this)
        this.#call().startAfter(this.#failure, () => Promise.reject(error))
      },
    )
  }

  /** A step that was given up while it decided has decided now: `after` releases what it holds. */
  async #afterLate(step: DecidedStep): Promise<void> {
    const planned = this.#run.exchange.plan.steps[step.index]!
    if (planned.after === null) return
    const { exchange } = this.#run
    const [turn, handle] = [exchange.step, exchange.ctx['exchange'] as StepHandle]
    try {
      const over = this.#after(step)
      takeTurn(exchange, turn, handle)
      await over
    } catch (error) {
      takeTurn(exchange, turn, handle)
      this.#run.report(planned, 'threw_after_error', error)
    }
  }

  /** Handles the current step in a `StepCall`: the loop covers only the simple cases. */
  #call(): StepCall {
    const step = this.#run.exchange.plan.steps[this.#index]!
    return new StepCall(this.#run, step, this.#index, this, this.#handle!)
  }
}

const ANSWERED = Promise.resolve()
const waitForEver: StepMiddleware = () => new Promise(() => {})
