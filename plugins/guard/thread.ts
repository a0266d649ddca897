/**
 * Long requests go through their rules on a thread: four megabytes and nine rules take tenths of a second, and the event
 * loop has other exchanges to serve. The thread starts with the first long request and takes one request at a time.
 */
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { slices, uncut } from '#contract'
import type { Guarded, Place } from './request.ts'
import type { Findings, RuleText } from './rules.ts'

/** Requests of at least this cost (see `costOf`) go to the thread: some milliseconds of reading. */
export const THREAD_FROM: number = 1 << 20

/** What the thread is asked. */
export interface Question {
  readonly texts: readonly Place[]
  readonly rules: readonly RuleText[]
  readonly window: number
}

/** What the thread answers. */
export interface Answer {
  readonly guarded: Guarded
  /** How often each rule has found something. */
  readonly counts: ReadonlyMap<string, number>
  /** The rule that refused, and the index of the text in which it did. */
  readonly refused: { readonly rule: string; readonly text: number } | null
}

interface Task {
  readonly question: Question
  readonly signal: AbortSignal
  resolve(answer: Answer): void
  reject(error: Error): void
}

/** For strings in memory twice or three times; beyond this the thread ends, and not the process. */
const MOST_MEMORY_MB = 1024

class GuardThread {
  #worker: Worker | null = null
  /** The first one is with the thread. */
  readonly #tasks: Task[] = []

  /** How many requests wait for the thread or are with it. */
  get waiting(): number {
    return this.#tasks.length
  }

  /**
   * The same as `guardTexts`, on the thread. Resolves with undefined when `signal` aborts before the end. Rejects when the
   * thread ends before it answers.
   */
  async guard(
    texts: readonly Place[],
    rules: readonly RuleText[],
    window: number,
    findings: Findings,
    signal: AbortSignal,
  ): Promise<Guarded | undefined> {
    let asking: Promise<Answer | undefined> | undefined
    const ask = () => {
      asking = this.#ask({ texts, rules, window }, signal)
      // It is waited for a turn later, and may have failed by then.
      asking.catch(() => {})
    }
    await slices.run(uncut(ask), signal)
    const answer = await asking
    if (answer === undefined) return undefined
    findings.add(answer.counts)
    if (answer.refused) throw findings.refusal(answer.refused.rule, texts[answer.refused.text]!.path)
    return answer.guarded
  }

  #ask(question: Question, signal: AbortSignal): Promise<Answer | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer | undefined>()
    if (signal.aborted) return Promise.resolve(undefined)
    signal.addEventListener('abort', () => resolve(undefined), { once: true })
    this.#tasks.push({ question, signal, resolve, reject })
    if (this.#tasks.length === 1) this.#next()
    return promise
  }

  /** Gives the thread the first task whose client is still there. */
  #next(): void {
    while (this.#tasks[0]?.signal.aborted) this.#tasks.shift()
    const [task] = this.#tasks
    if (task === undefined) {
      // A thread without work keeps no process alive.
      this.#worker?.unref()
      return
    }
    this.#worker ??= this.#start()
    this.#worker.ref()
    this.#worker.postMessage(task.question)
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
      resourceLimits: { maxOldGenerationSizeMb: MOST_MEMORY_MB },
    })
    let failure: Error | null = null
    worker.on('message', (answer: Answer) => {
      this.#tasks.shift()!.resolve(answer)
      this.#next()
    })
    worker.once('error', error => {
      failure = error as Error
    })
    worker.once('exit', code => {
      this.#worker = null
      const cause = failure ?? new Error(`it ended with code ${code}`)
      this.#tasks.shift()?.reject(new Error('the thread of the guard has ended', { cause }))
      this.#next()
    })
    return worker
  }
}

/** The thread of this process, for all steps. */
export const guardThread: GuardThread = new GuardThread()
