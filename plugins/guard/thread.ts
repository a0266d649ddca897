/**
 * Applies the rules to long requests on a thread: four megabytes and nine rules take tenths of a second, which would block the event loop.
 * The thread starts with the first long request and handles one at a time; accounts take turns.
 */
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { slices, uncut } from '#contract'
import type { Guarded, Place } from './request.ts'
import type { Findings, Refused, RuleText } from './rules.ts'

/** Requests of at least this cost (see `costOf`) go to the thread: some milliseconds of reading. */
export const THREAD_FROM: number = 1 << 20

/** A message to the thread. */
export interface Question {
  readonly texts: readonly Place[]
  readonly rules: readonly RuleText[]
}

/** A reply of the thread. */
export interface Answer {
  readonly guarded: Guarded
  /** How often each rule has found something. */
  readonly counts: ReadonlyMap<string, number>
  readonly refused: Refused | null
}

interface Task {
  readonly question: Question
  /** Whose it is: the account, or a group of addresses. */
  readonly owner: string
  readonly signal: AbortSignal
  resolve(answer: Answer): void
  reject(error: Error): void
}

/** For strings in memory twice or three times; beyond this the thread ends, and not the process. */
const MAX_MEMORY_MB = 1024

class GuardThread {
  #worker: Worker | null = null
  /** The one that the thread reads. */
  #current: Task | null = null
  readonly #waiting: Task[] = []
  /** Whose tasks were given to the thread since it last had none; the longest ago first. */
  readonly #served = new Set<string>()

  /** How many requests wait for the thread or are with it. */
  get waiting(): number {
    return this.#waiting.length + (this.#current === null ? 0 : 1)
  }

  /**
   * The same as `guardTexts`, on the thread. Resolves with undefined when `signal` aborts before the end. Rejects when the
   * thread ends before it answers, and when none can be started.
   * @param owner whose request it is: owners take turns
   */
  async guard(
    question: Question,
    owner: string,
    findings: Findings,
    signal: AbortSignal,
  ): Promise<Guarded | undefined> {
    let asking: Promise<Answer | undefined> | undefined
    const ask = () => {
      asking = this.#ask(question, owner, signal)
      // It is waited for a turn later, and may have failed by then.
      asking.catch(() => {})
    }
    await slices.run(uncut(ask), signal)
    const answer = await asking
    if (answer === undefined) return undefined
    findings.add(answer.counts)
    if (answer.refused) throw findings.refusal(answer.refused)
    return answer.guarded
  }

  #ask(question: Question, owner: string, signal: AbortSignal): Promise<Answer | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer | undefined>()
    if (signal.aborted) return Promise.resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
    this.#waiting.push({ question, owner, signal, resolve, reject })
    this.#next()
    return promise
  }

  /** Gives the thread a task whose client is still connected, of the account that was served the longest ago. */
  #next(): void {
    while (this.#current === null && this.#waiting.length > 0) {
      const task = this.#waiting.splice(this.#fairest(), 1)[0]!
      if (task.signal.aborted) continue
      try {
        this.#worker ??= this.#start()
        this.#worker.ref()
        this.#worker.postMessage(task.question)
      } catch (error) {
        // No thread could be started, or the text could not be copied. Other tasks may succeed.
        task.reject(error as Error)
        continue
      }
      this.#current = task
      this.#served.delete(task.owner)
      this.#served.add(task.owner)
    }
    if (this.#current !== null) return
    this.#served.clear()
    // A thread without work keeps no process alive.
    this.#worker?.unref()
  }

  /** The place of the first task of the owner whose turn it is: of one not served yet, else of the one served longest ago. */
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
    // Where types are not stripped, both files are compiled ones.
    const worker = new Worker(new URL(`./thread-entry${extname(import.meta.url)}`, import.meta.url), {
      name: 'tollgate-guard',
      stdout: true,
      stderr: true,
      // Nothing of the process's environment is its affair.
      env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
      resourceLimits: { maxOldGenerationSizeMb: MAX_MEMORY_MB },
    })
    let failure: Error | null = null
    worker.on('message', (answer: Answer) => {
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
      this.#current?.reject(new Error('the thread of the guard has ended', { cause }))
      this.#current = null
      this.#next()
    })
    return worker
  }
}

/** The thread of this process, for all steps. */
export const guardThread: GuardThread = new GuardThread()
