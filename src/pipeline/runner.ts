/**
 * Runs an exchange through the steps of its plan, as Koa runs middleware, with three differences: `await next()`
 * returns when the answer is over; the runner owns `next` and remembers what became of it, so that no step can lose an
 * inner refusal or send twice; and no step can keep the others waiting for ever.
 */
import type { Context } from 'koa'
import { isRefusal, placeOfMistake, type Refusal, refuse, shownPlace } from '#contract'
import type { LiveExchange } from './exchange.ts'
import type { Plan, PlannedStep } from './plan.ts'
import { Shadow } from './shadow.ts'
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
    await run.from(0)
  } finally {
    run.stop()
  }
}

/** What became of a step's `next`. */
interface Inner {
  state: 'not called' | 'pending' | 'over' | 'failed'
  /** The step has returned or was given up: what it still calls comes too late. */
  closed: boolean
  promise: Promise<void> | null
  error: unknown
}

class Run {
  readonly #parts: RunParts
  /** The steps that have not returned yet, outermost first, each with its way to be given up. */
  readonly #open: { readonly index: number; readonly giveUp: () => void }[] = []
  #graceTimer: NodeJS.Timeout | null = null
  #sending = false
  readonly #onAbort = () => {
    // While an answer is on its way, the pump decides what is waited for. Before, nobody waits for a client that left.
    if (!this.#sending) this.#startGrace()
  }

  constructor(parts: RunParts) {
    this.#parts = parts
    const onAnswerOver = () => this.#startGrace()
    parts.exchange.onAnswerOver = onAnswerOver
    parts.exchange.signal.addEventListener('abort', this.#onAbort, { once: true })
  }

  from(index: number): Promise<void> {
    return index === this.#parts.plan.bodyFrom ? this.#receive(index) : this.#run(index)
  }

  async #receive(index: number): Promise<void> {
    await this.#parts.receive()
    return this.#run(index)
  }

  #run(index: number): Promise<void> {
    const step = this.#parts.plan.steps[index]
    if (!step) return this.#innermost()
    return this.#runs(step, index) ? this.#step(step, index) : this.from(index + 1)
  }

  stop(): void {
    this.#stopGrace()
    this.#parts.exchange.signal.removeEventListener('abort', this.#onAbort)
  }

  async #innermost(): Promise<void> {
    const { exchange, innermost } = this.#parts
    exchange.sealed = true
    this.#sending = true
    this.#stopGrace()
    try {
      await innermost()
    } finally {
      this.#sending = false
      this.#startGrace()
    }
  }

  /** Whether a step takes part: it is on, and its condition holds. */
  #runs(step: PlannedStep, index: number): boolean {
    const { exchange, facts } = this.#parts
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
      this.#report(step, 'its `when` threw', error)
      if (step.critical) return true
      exchange.record(index, 'failed', 'plugin_error', '`when` threw')
      throw this.#failed(step, error)
    }
  }

  async #step(step: PlannedStep, index: number): Promise<void> {
    const { exchange, ctx } = this.#parts
    const inner: Inner = { state: 'not called', closed: false, promise: null, error: undefined }
    const shadow = step.mode === 'shadow' ? new Shadow(ctx, exchange, index) : null
    const { promise: over, resolve, reject } = Promise.withResolvers<typeof GIVEN_UP | undefined>()
    this.#open.push({ index, giveUp: () => resolve(GIVEN_UP) })
    exchange.step = index
    try {
      let how: typeof GIVEN_UP | undefined
      try {
        const returned: unknown = step.handle((shadow?.ctx ?? ctx) as never, () =>
          this.#next(step, index, inner, shadow),
        )
        Promise.resolve(returned).then(() => resolve(undefined), reject)
        how = await over
      } catch (error) {
        shadow?.undo()
        return await this.#threw(step, index, inner, shadow, error)
      }
      shadow?.undo()
      if (how === GIVEN_UP) this.#late(step, index, inner)
      else await this.#returned(step, index, inner, shadow)
    } finally {
      inner.closed = true
      this.#closed(index)
    }
  }

  /** Once, whatever the step does: a second call gets the first one's promise. Too late, or beside an answer: not at all. */
  #next(step: PlannedStep, index: number, inner: Inner, shadow: Shadow | null): Promise<void> {
    if (inner.promise) return inner.promise
    const mistake = inner.closed
      ? 'called next() after it was over'
      : this.#parts.exchange.answered && !shadow
        ? 'called next() after it had answered'
        : null
    if (mistake === null) {
      shadow?.undo()
      inner.promise = this.#goOn(inner, index, shadow)
      return inner.promise
    }
    this.#report(step, mistake)
    const refused = Promise.reject(new TypeError(`the step "${step.id}" ${mistake}`))
    // Nobody may be waiting for it any more.
    refused.catch(() => {})
    return refused
  }

  /** What is inside a step, with its end remembered. */
  #goOn(inner: Inner, index: number, shadow: Shadow | null): Promise<void> {
    const { exchange } = this.#parts
    inner.state = 'pending'
    exchange.record(index, 'passed', undefined, shadow?.note())
    const promise = this.#inside(inner, index, shadow)
    // A step may leave it unobserved; the runner does not, but later.
    promise.catch(ignore)
    return promise
  }

  /** As an async function, so that a `when` that throws rejects and does not throw into the step. */
  async #inside(inner: Inner, index: number, shadow: Shadow | null): Promise<void> {
    try {
      await this.from(index + 1)
      inner.state = 'over'
    } catch (error) {
      inner.state = 'failed'
      inner.error = error
      // What stands behind the steps may refuse without a word about it; a receipt is written on the way out.
      this.#parts.exchange.outcome ??= isRefusal(error) ? 'refused' : 'failed'
      throw error
    } finally {
      this.#parts.exchange.step = index
      shadow?.look()
    }
  }

  async #returned(step: PlannedStep, index: number, inner: Inner, shadow: Shadow | null): Promise<void> {
    const { exchange, ctx } = this.#parts
    if (inner.state === 'pending') {
      // It did not await `next()`, so its after-part ran too early. The answer is waited for here.
      this.#report(step, 'returned while its next() was pending')
      await inner.promise!.catch(() => {})
      exchange.record(index, 'failed', 'plugin_error', 'did not await next()')
      if (inner.error !== undefined) throw inner.error
      return
    }
    if (inner.state === 'failed') {
      this.#report(step, 'caught what next() rejected with and kept it')
      exchange.record(index, 'passed', undefined, 'kept an inner error; it stands all the same')
      throw inner.error
    }
    if (inner.state === 'over') {
      this.#passed(index, shadow)
      return
    }
    if (shadow) {
      exchange.record(index, shadow.wouldAnswer ? 'would_refuse' : 'passed', undefined, shadow.note())
      return this.from(index + 1)
    }
    if (exchange.answered || answeredByKoa(ctx)) {
      exchange.answered = true
      exchange.outcome ??= 'answered'
      exchange.record(index, 'answered')
      return
    }
    this.#report(step, 'returned without next(), an answer or a refusal')
    exchange.record(index, 'failed', 'plugin_error', 'returned without next(), an answer or a refusal')
    throw this.#failed(step, undefined)
  }

  /** It has gone on and come back; in shadow it may have wanted to stop the answer between. */
  #passed(index: number, shadow: Shadow | null): void {
    const code = shadow?.wouldStop ?? undefined
    this.#parts.exchange.record(index, code === undefined ? 'passed' : 'would_refuse', code, shadow?.note())
  }

  async #threw(step: PlannedStep, index: number, inner: Inner, shadow: Shadow | null, error: unknown): Promise<void> {
    const { exchange } = this.#parts
    if (inner.state === 'pending') await inner.promise!.catch(() => {})
    if (inner.state === 'failed' && (error === inner.error || !isRefusal(error) || shadow)) {
      // The inner error stands. One of the step's own behind it is a bug to be reported, not what the client needs.
      if (error === inner.error) this.#passed(index, shadow)
      else if (shadow && isRefusal(error)) exchange.record(index, 'would_refuse', error.code, shadow.note())
      else {
        this.#report(step, 'threw after an inner error', error)
        exchange.record(index, 'failed', 'plugin_error', 'threw after an inner error')
      }
      throw inner.error
    }
    if (inner.state === 'not called') return this.#threwBefore(step, index, shadow, error)
    if (shadow) {
      exchange.record(index, 'would_refuse', isRefusal(error) ? error.code : 'plugin_error', shadow.note())
      return
    }
    throw this.#afterAnswer(this.#ownRefusal(step, index, error))
  }

  /**
   * A step refuses an answer that is over, or breaks on it: both end the exchange badly. A stream's head, or a comment in it, is
   * nothing of the answer.
   */
  #afterAnswer(refusal: Refusal): Refusal {
    const { exchange, ctx } = this.#parts
    if (exchange.outcome !== 'answered') return refusal
    exchange.endBadly(refusal, exchange.chat?.stream ? exchange.progress.delivered : ctx.res.headersSent)
    return refusal
  }

  /** The step's own error, before anything inner has run: the only one that `shadow` and `skip` are about. */
  async #threwBefore(step: PlannedStep, index: number, shadow: Shadow | null, error: unknown): Promise<void> {
    const { exchange } = this.#parts
    if (shadow) {
      const code = isRefusal(error) ? error.code : 'plugin_error'
      if (!isRefusal(error)) this.#report(step, 'threw (in shadow)', error)
      exchange.record(index, 'would_refuse', code, shadow.note())
      return this.from(index + 1)
    }
    const skippable = !isRefusal(error) && refusalOfHttpError(error) === null && !exchange.answered
    if (step.onError === 'skip' && skippable) {
      this.#report(step, 'threw and was skipped (onError: skip)', error)
      exchange.record(index, 'failed', 'plugin_error', 'skipped by onError')
      return this.from(index + 1)
    }
    if (exchange.answered && error === exchange.answerError) {
      // The step has done its part; who has not let the answer through says so in its own line.
      exchange.record(index, 'answered')
      throw error
    }
    // It may have answered by itself before.
    throw this.#afterAnswer(this.#ownRefusal(step, index, error))
  }

  #ownRefusal(step: PlannedStep, index: number, error: unknown): Refusal {
    const { exchange } = this.#parts
    const refusal = isRefusal(error) ? error : refusalOfHttpError(error)
    if (refusal) {
      exchange.record(index, 'refused', refusal.code)
      exchange.outcome ??= 'refused'
      return refusal
    }
    this.#report(step, 'threw', error)
    exchange.record(index, 'failed', 'plugin_error')
    return this.#failed(step, error)
  }

  #failed(step: PlannedStep, cause: unknown): Refusal {
    this.#parts.exchange.outcome ??= 'failed'
    return refuse('plugin_error', { detail: `step "${step.id}"`, cause })
  }

  /** A step that does not return when it is over for everybody else: the others go on without it. */
  #late(step: PlannedStep, index: number, inner: Inner): void {
    const { exchange, graceMs } = this.#parts
    this.#report(step, `did not return within ${graceMs} ms after the exchange was over`)
    exchange.record(index, 'late', 'plugin_error')
    if (inner.state === 'failed') throw inner.error
    if (inner.state === 'not called' && !exchange.answered) {
      // It never went on: the client has left or the gateway is going, and there is no answer.
      throw this.#failed(step, new Error('the step did not go on'))
    }
    // An answer must not leave without what auth and money have to say about it.
    if (!step.critical) return
    if (exchange.outcome === 'answered') exchange.outcome = 'failed'
    throw this.#failed(step, new Error('a critical step did not return'))
  }

  #closed(index: number): void {
    const last = this.#open.at(-1)
    if (last?.index === index) this.#open.pop()
    else
      this.#open.splice(
        this.#open.findIndex(open => open.index === index),
        1,
      )
    // The step outside of it is the one that everybody waits for now.
    if (!this.#sending) this.#startGrace()
  }

  /** From when it is over, the innermost open step has its time; then the next one outward has its own. */
  #startGrace(): void {
    if (this.#open.length === 0) return
    if (this.#graceTimer) {
      this.#graceTimer.refresh()
      return
    }
    this.#graceTimer = setTimeout(() => this.#open.at(-1)?.giveUp(), this.#parts.graceMs)
    this.#graceTimer.unref()
  }

  #stopGrace(): void {
    if (this.#graceTimer) clearTimeout(this.#graceTimer)
    this.#graceTimer = null
  }

  #report(step: PlannedStep, what: string, error?: unknown): void {
    const { exchange, plan, report } = this.#parts
    const at = shownPlace(placeOfMistake(error), step.position?.file)
    report({ exchange: exchange.id, policy: plan.name, step: step.id, what, error, ...(at === null ? {} : { at }) })
  }
}

const GIVEN_UP = Symbol('given up')

const ignore = () => {}

/** Whether a Koa middleware has answered by an explicit status or body. */
function answeredByKoa(ctx: Context): boolean {
  const response = ctx.response as unknown as { _explicitStatus?: boolean; body?: unknown }
  return response._explicitStatus === true || (response.body !== undefined && response.body !== null)
}

/** `ctx.throw(403, …)` of a Koa middleware as a refusal; null for anything that is not such an error. */
function refusalOfHttpError(error: unknown): Refusal | null {
  if (typeof error !== 'object' || error === null) return null
  const { status, expose, message, headers } = error as {
    status?: unknown
    expose?: unknown
    message?: string
    headers?: Record<string, string>
  }
  if (typeof status !== 'number' || status < 400 || status > 499 || expose !== true) return null
  const code =
    status === 401
      ? 'unauthorized'
      : status === 403
        ? 'forbidden'
        : status === 429
          ? 'rate_limit_exceeded'
          : 'bad_request'
  const ours = refuse(code, { ...(message ? { message } : {}), headers: headers ?? {} })
  return status === ours.status ? ours : Object.assign(ours, { status })
}
