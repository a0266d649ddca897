/**
 * The guard's thread, for long requests: four megabytes and nine rules take tenths of a second, which would block the event loop.
 * It starts with the first long request and reads one request at a time; accounts take turns.
 */
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { slices, uncut } from '#contract'
import type { NewTexts, PlacedText } from './request.ts'
import type { Findings, RuleRefusal, RuleText } from './rules.ts'

/** Requests of at least this cost (see `costOf`) go to the thread: some milliseconds of reading. */
export const THREAD_FROM: number = 1 << 20

export interface ThreadRequest {
  readonly texts: readonly PlacedText[]
  readonly rules: readonly RuleText[]
}

export interface ThreadResult {
  readonly guarded: NewTexts
  /** The number of matches by rule. */
  readonly counts: ReadonlyMap<string, number>
  readonly refused: RuleRefusal | null
}

interface Task {
  readonly question: ThreadRequest
  /** The account of the client, or its group of addresses. */
  readonly owner: string
  readonly signal: AbortSignal
  resolve(answer: ThreadResult): void
  reject(error: Error): void
}

/** Room for two or three copies of the strings. Above it, the thread ends instead of the process. */
const MAX_MEMORY_MB = 1024

class GuardThread {
  #worker: Worker | null = null
  /** The task that the thread is reading. */
  #current: Task | null = null
  readonly #waiting: Task[] = []
  /** Owners that were served since the thread was last idle; the least recent first. */
  readonly #served = new Set<string>()

  /** The number of requests that wait for the thread or are being read. */
  get waiting(): number {
    return this.#waiting.length + (this.#current === null ? 0 : 1)
  }

  /**
   * `guardTexts` on the thread. Resolves with undefined if `signal` aborts before the end. Rejects if the thread ends before it
   * answers, or if it cannot be started.
   * @param owner the account of the client, or its group of addresses: owners take turns
   */
  async guard(
    question: ThreadRequest,
    owner: string,
    findings: Findings,
    signal: AbortSignal,
  ): Promise<NewTexts | undefined> {
    let asking: Promise<ThreadResult | undefined> | undefined
    const ask = () => {
      asking = this.#ask(question, owner, signal)
      // It is awaited a turn later, so an earlier rejection would be unhandled.
      asking.catch(() => {})
    }
    await slices.run(uncut(ask), signal)
    const answer = await asking
    if (answer === undefined) return undefined
    findings.add(answer.counts)
    if (answer.refused) throw findings.refusal(answer.refused)
    return answer.guarded
  }

  #ask(question: ThreadRequest, owner: string, signal: AbortSignal): Promise<ThreadResult | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<ThreadResult | undefined>()
    if (signal.aborted) return Promise.resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
    this.#waiting.push({ question, owner, signal, resolve, reject })
    this.#next()
    return promise
  }

  /** Gives the thread the next task of a connected client: of the owner that was served least recently. */
  #next(): void {
    while (this.#current === null && this.#waiting.length > 0) {
      const task = this.#waiting.splice(this.#fairest(), 1)[0]!
      if (task.signal.aborted) continue
      try {
        this.#worker ??= this.#start()
        this.#worker.ref()
        this.#worker.postMessage(task.question)
      } catch (error) {
        // The thread cannot be started, or the text cannot be copied. Other tasks may succeed.
        task.reject(error as Error)
        continue
      }
      this.#current = task
      this.#served.delete(task.owner)
      this.#served.add(task.owner)
    }
    if (this.#current !== null) return
    this.#served.clear()
    // An idle thread must not keep the process alive.
    this.#worker?.unref()
  }

  /** Returns the index of the next task: of an owner that was not served yet, else of the one served least recently. */
  #fairest(): number {
    const fresh = this.#waiting.findIndex(({ owner }) => !this.#served.has(owner))
    if (fresh >= 0) return fresh
    for (const served of this.#served) {
      const at = this.#waiting.findIndex(({ owner }) => owner === served)
      if (at >= 0) return at
    }
    return 0
  }

  #start(): Worker {
    const cache = getCompileCacheDir()
    // Without type stripping, both files are compiled ones.
    const worker = new Worker(new URL(`./thread-entry${extname(import.meta.url)}`, import.meta.url), {
      name: 'tollgate-guard',
      stdout: true,
      stderr: true,
      // The thread needs no environment, and secrets stay out of it.
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
      resourceLimits: { maxOldGenerationSizeMb: MAX_MEMORY_MB },
    })
    let failure: Error | null = null
    worker.on('message', (answer: ThreadResult) => {
      this.#current!.resolve(answer)
      this.#current = null
      this.#next()
    })
    worker.once('error', error => {
      failure = error as Error
    })
    worker.once('exit', code => {
      this.#worker = null
      const cause = failure ?? new Error(`it ended with code ${code}`)
      this.#current?.reject(new Error('the thread of the guard ended before it answered', { cause }))
      this.#current = null
      this.#next()
    })
    return worker
  }
}

/** One thread per process, for all steps. */
export const guardThread: GuardThread = new GuardThread()
