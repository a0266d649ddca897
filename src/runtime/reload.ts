/**
 * Reloads: changes the configuration of a serving gateway. The files are loaded and checked; a new generation is created beside the
 * serving one, dry-run, and swapped in. Exchanges end in the generation in which they began, and an unused generation is released.
 * Invalid files change nothing: the problem is reported, and the old configuration serves.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Log } from '#contract'
import { createDeadlineClock, type DeadlineClock } from '../common/clock.ts'
import type { Configuration, Position } from '../config/configuration.ts'
import type { LoadResult } from '../config/load.ts'
import { formatProblem, type Problem, sentence } from '../config/yaml/problem.ts'
import { type Reads, sameReads, stampOf } from '../config/yaml/reads.ts'
import { PlanError } from '../loader/plan.ts'
import type { Generation } from '../request/generation.ts'

/** A valid configuration, with the texts of its YAML files by absolute path. */
export type LoadedFiles = Exclude<LoadResult, { readonly problems: unknown }>

export interface ReloadParts {
  readonly first: LoadedFiles
  load(): Promise<LoadResult>
  /** Creates a generation; `previous` is the serving one. Throws if a step cannot be created. */
  build(configuration: Configuration, previous: Generation | undefined): Promise<Generation>
  /** Sends a test request through each policy. Resolves with the problems. */
  attempt(generation: Generation): Promise<readonly Problem[]>
  /** Prepares the other threads; they switch when `done` gets `changed`. Left out: there are none. */
  agree?(loaded: LoadedFiles): Promise<void>
  /** Steps that `attempt` skips. */
  notRun(generation: Generation): readonly string[]
  readonly log: Log
  /** Removes the loaded secrets from a text. */
  redact(text: string): string
  /** Milliseconds since the epoch. */
  now(): number
  /** Called when a reload is over. */
  done(result: ReloadResult): void
}

/** A step's mistake, as a problem at its place in the policy. */
export function brokenPlugin({ file, line, column }: Position, message: string, suggestion?: string): Problem {
  return { file, line, column, rule: 'broken-plugin', message, ...(suggestion === undefined ? {} : { suggestion }) }
}

/** `unchanged`: the files match the running configuration. */
export type ReloadResult = 'changed' | 'unchanged' | 'refused'

export interface Reloads {
  /** The generation in which new exchanges begin. */
  generation(): Generation
  /** The running configuration, and when it was loaded. */
  running(): LoadedFiles & { readonly at: number }
  /** Why the files on disk do not run; null if they do, as of the last check. */
  problem(): string | null
  /** Called when an exchange begins in a generation, and when it is over. */
  entered(generation: Generation): void
  left(generation: Generation): void
  /** The number of generations in use: the serving one, and those with exchanges in progress. */
  live(): number
  /** Loads the files in their current state. One reload at a time: requests during a reload cause one more after it. */
  reload(why: string): Promise<ReloadResult>
  /** Reloads when the content of a file changes. */
  watch(everyMs: number): void
  /** Releases every generation. Rejects, after all were tried, if resources could not be released. */
  dispose(): Promise<void>
  /**
   * For a thread that follows the main one: creates the next generation. It serves from `commit` on; another `prepare`, or `abandon`,
   * releases it.
   */
  prepare(loaded: LoadedFiles): Promise<void>
  /** Returns false if nothing is prepared. */
  commit(): boolean
  abandon(): Promise<void>
}

/** A limit, because each generation keeps its steps and connections. It is reached if exchanges outlast many reloads. */
const MAX_LIVE = 8

/** Keys of gateway.yaml that belong to the process and not to a generation. */
const FIXED = ['listen', 'threads', 'dashboard', 'admin', 'store', 'state', 'secret'] as const

export async function createReloads(parts: ReloadParts): Promise<Reloads> {
  const { first } = parts
  const reloader = new Reloader(parts, await parts.build(first.configuration, undefined))
  return {
    generation: () => reloader.generation,
    running: () => reloader.running,
    problem: () => reloader.problem,
    entered: generation => reloader.entered(generation),
    left: generation => reloader.left(generation),
    live: () => reloader.live,
    reload: why => reloader.reload(why),
    watch: everyMs => reloader.watch(everyMs),
    dispose: () => reloader.dispose(),
    prepare: loaded => reloader.prepare(loaded),
    commit: () => reloader.commit(),
    abandon: () => reloader.abandon(),
  }
}

class Reloader {
  readonly #parts: ReloadParts
  running: LoadedFiles & { readonly at: number }
  generation: Generation
  problem: string | null = null
  /** The number of exchanges in each generation. */
  readonly #exchanges = new Map<Generation, number>()
  /** The latest requested reload; and the one that has not begun, which will load all changes until it begins. */
  #last: Promise<unknown> = Promise.resolve()
  #waiting: Promise<ReloadResult> | null = null
  /** Whether the last reload was refused because too many generations are in use. */
  #isCrowded = false
  /** The watched files, by path, with the last loaded or seen stamp of each. */
  #followed = new Map<string, string>()
  #rounds: DeadlineClock | null = null
  #next: { readonly loaded: LoadedFiles; readonly generation: Generation } | null = null
  #isLooking = false
  #closed = false

  constructor(parts: ReloadParts, generation: Generation) {
    this.#parts = parts
    this.running = { ...parts.first, at: parts.now() }
    this.generation = generation
    this.#exchanges.set(generation, 0)
    this.#follow(this.running.reads.keys(), this.running.reads)
  }

  get live(): number {
    return this.#exchanges.size
  }

  entered(generation: Generation): void {
    this.#exchanges.set(generation, (this.#exchanges.get(generation) ?? 0) + 1)
  }

  left(generation: Generation): void {
    this.#exchanges.set(generation, this.#exchanges.get(generation)! - 1)
    this.#release(generation)
  }

  reload(why: string): Promise<ReloadResult> {
    if (this.#waiting !== null) return this.#waiting
    const mine = this.#last.then(() => this.#run(why))
    this.#waiting = mine
    this.#last = mine.catch(() => {})
    return mine
  }

  watch(everyMs: number): void {
    this.#rounds?.stop()
    this.#rounds = createDeadlineClock(everyMs)
    this.#rounds.watch(() => void this.#look())
  }

  async dispose(): Promise<void> {
    this.#closed = true
    this.#rounds?.stop()
    await this.#last
    await this.abandon()
    const released = await Promise.all([...this.#exchanges.keys()].map(each => this.#disposeGeneration(each)))
    this.#exchanges.clear()
    if (released.includes(false)) throw new Error('some resources of the configuration could not be released')
  }

  async #change(why: string): Promise<ReloadResult> {
    if (this.#closed) return 'unchanged'
    const loaded = await this.#parts.load()
    if (this.#closed) return 'unchanged'
    this.#isCrowded = false
    // Until the new configuration serves, a change of the running files matters, and of those that were just read or missing.
    this.#follow([...this.running.reads.keys(), ...loaded.reads.keys()], loaded.reads)
    if ('problems' in loaded) return this.#refuse(why, loaded.problems)
    if (isSame(loaded, this.running)) {
      if (this.problem !== null) this.#parts.log.info({ why }, 'the files match the running configuration again')
      this.problem = null
      this.#follow(loaded.reads.keys())
      return 'unchanged'
    }
    const fixed = fixedProblems(this.running.configuration, loaded)
    if (fixed.length > 0) return this.#refuse(why, fixed)
    if (this.#exchanges.size >= MAX_LIVE) {
      this.#isCrowded = true
      return this.#refuseInWords(
        why,
        `${MAX_LIVE} configurations are in use by exchanges that are not over; try again later`,
      )
    }
    return this.#swap(why, loaded)
  }

  async prepare(loaded: LoadedFiles): Promise<void> {
    await this.abandon()
    this.#next = { loaded, generation: await this.#parts.build(loaded.configuration, this.generation) }
  }

  commit(): boolean {
    if (this.#next === null) return false
    const { loaded, generation: next } = this.#next
    this.#next = null
    const old = this.generation
    this.#exchanges.set(next, 0)
    this.generation = next
    this.running = { ...loaded, at: this.#parts.now() }
    this.#release(old)
    return true
  }

  async abandon(): Promise<void> {
    const next = this.#next
    this.#next = null
    if (next) await this.#disposeGeneration(next.generation)
  }

  async #swap(why: string, loaded: LoadedFiles): Promise<ReloadResult> {
    try {
      await this.prepare(loaded)
    } catch (error) {
      if (!(error instanceof PlanError) || !error.position) return this.#refuseInWords(why, (error as Error).message)
      return this.#refuse(why, [brokenPlugin(error.position, error.reason)])
    }
    const next = this.#next!.generation
    const problems = await this.#try(next, loaded)
    if (problems.length > 0 || this.#closed) {
      await this.abandon()
      if (typeof problems === 'string') return this.#refuseInWords(why, problems)
      return problems.length === 0 ? 'unchanged' : this.#refuse(why, problems)
    }
    this.commit()
    this.problem = null
    this.#follow(loaded.reads.keys())
    const notRun = this.#parts.notRun(next).join(', ')
    this.#parts.log.info(
      { why, live: this.#exchanges.size, ...(notRun && { not_run: notRun }) },
      'the configuration has changed',
    )
    return 'changed'
  }

  /** Resolves with the problems: the steps' mistakes, or a message. */
  async #try(next: Generation, loaded: LoadedFiles): Promise<readonly Problem[] | string> {
    try {
      const problems = await this.#parts.attempt(next)
      if (problems.length > 0 || this.#closed) return problems
    } catch (error) {
      return `the dry run failed: ${String(error)}`
    }
    try {
      await this.#parts.agree?.(loaded)
      return []
    } catch (error) {
      return `a serving thread cannot use it: ${(error as Error).message}`
    }
  }

  #refuse(why: string, problems: readonly Problem[]): ReloadResult {
    for (const each of problems) {
      const { file, line, column } = each
      this.#parts.log.error({ why, file, line, column, problem: sentence(each) }, 'the configuration is not changed')
    }
    const [first] = problems
    return this.#refusedFor(first ? formatProblem(first) : 'the configuration cannot be loaded', problems.length)
  }

  #refuseInWords(why: string, problem: string): ReloadResult {
    this.#parts.log.error({ why, problem }, 'the configuration is not changed')
    return this.#refusedFor(problem, 1)
  }

  #refusedFor(first: string, count: number): ReloadResult {
    this.problem = this.#parts.redact(count > 1 ? `${first} (and ${count - 1} more)` : first)
    return 'refused'
  }

  /** Releases an old generation once no exchange uses it. */
  #release(generation: Generation): void {
    if (generation === this.generation || this.#exchanges.get(generation) !== 0) return
    this.#exchanges.delete(generation)
    void this.#disposeGeneration(generation)
    if (this.#isCrowded) this.#ask('there is room again')
  }

  /** Resolves with whether everything was released. */
  async #disposeGeneration(generation: Generation): Promise<boolean> {
    try {
      await generation.dispose()
      return true
    } catch (error) {
      this.#parts.log.error({ error }, 'some resources of the old configuration could not be released')
      return false
    }
  }

  async #run(why: string): Promise<ReloadResult> {
    this.#waiting = null
    const result = await this.#change(why)
    this.#parts.done(result)
    return result
  }

  /** Requests a reload without waiting for it. */
  #ask(why: string): void {
    this.reload(why).catch((error: unknown) => this.#parts.log.error({ why, error }, 'a reload failed'))
  }

  /** Watches these files, each with its stamp from the load or, without one, the known stamp. */
  #follow(files: Iterable<string>, reads?: Reads): void {
    this.#followed = new Map([...files].map(file => [file, reads?.get(file)?.stamp ?? this.#followed.get(file) ?? '']))
  }

  /**
   * Polls: this follows a swapped symlink, works on network drives, and never misses a rename. The first check compares with the stamps
   * from before the files were read, so that no change meanwhile is lost.
   */
  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    const seen = await Promise.all(
      [...this.#followed].map(async ([file, was]) => ({ file, was, is: await stampOf(file) })),
    )
    this.#isLooking = false
    // A load since then has newer stamps.
    const news = seen.filter(({ file, was, is }) => is !== was && this.#followed.get(file) === was)
    for (const { file, is } of news) this.#followed.set(file, is)
    if (news.length > 0 && !this.#closed) this.#ask('a file changed')
  }
}

/** Keys that cannot change while the process runs, each at its place in the file. */
function fixedProblems(now: Configuration, { configuration, sources }: LoadedFiles): Problem[] {
  const changed = FIXED.filter(key => !isDeepStrictEqual(now[key], configuration[key]))
  return changed.map(key => ({
    ...placeOf(key, { configuration, sources }),
    message: `a change of ${key} needs a restart`,
    // Nothing is loaded in part, so it blocks every later change too.
    suggestion: `put the old ${key} back or restart: until then no change of any file is loaded`,
    rule: 'needs-restart' as const,
  }))
}

/** The place of a key of gateway.yaml; the start of the file if the key is missing. */
export function placeOf(
  key: keyof Configuration,
  { configuration, sources }: Pick<LoadedFiles, 'configuration' | 'sources'>,
): Position {
  const { file } = configuration
  const lines = (sources.get(file) ?? '').split('\n')
  const at = lines.findIndex(line => line.startsWith(`${key}:`))
  return { file, line: at < 0 ? 1 : at + 1, column: 1 }
}

/** Whether a configuration matches the running one: the same texts in the same files, and the same variables. */
function isSame(loaded: LoadedFiles, running: LoadedFiles): boolean {
  return (
    sameReads(loaded.reads, running.reads) &&
    isDeepStrictEqual(loaded.configuration.secrets, running.configuration.secrets) &&
    samePlugins(loaded.configuration, running.configuration)
  )
}

/** A changed plugin file is a different module, and so a different plugin. */
function samePlugins(one: Configuration, other: Configuration): boolean {
  const plugins = ({ routes }: Configuration) => routes.flatMap(({ steps }) => steps.steps.map(({ plugin }) => plugin))
  const [these, those] = [plugins(one), plugins(other)]
  return these.length === those.length && these.every((plugin, index) => plugin === those[index])
}
