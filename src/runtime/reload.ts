/**
 * Changes the configuration of a gateway that serves. The files are loaded and checked, a new generation is built beside
 * the one that serves, tried, and swapped in; exchanges end in the generation in which they began, and one that no
 * exchange uses any more is let go. What is wrong with the new files changes nothing: it is told, and the old ones serve.
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

/** A configuration that could be loaded, with the texts of its YAML files by absolute path. */
export type Loaded = Exclude<LoadResult, { readonly problems: unknown }>

export interface ReloadParts {
  readonly first: Loaded
  load(): Promise<LoadResult>
  /** Builds a generation; `previous` is the one that serves. Throws when a step cannot be made. */
  build(configuration: Configuration, previous: Generation | undefined): Promise<Generation>
  /** Sends one request through each policy, to nobody. Answers with what is wrong. */
  attempt(generation: Generation): Promise<readonly Problem[]>
  /** Makes the other threads ready for it: they begin when `done` says `changed`. Left out: there are none. */
  agree?(loaded: Loaded): Promise<void>
  /** Steps that `attempt` does not run. */
  notRun(generation: Generation): readonly string[]
  readonly log: Log
  /** Takes the loaded secrets out of a text. */
  redact(text: string): string
  /** Milliseconds since the epoch. */
  now(): number
  /** A reload is over. */
  done(result: ReloadResult): void
}

/** What a step does wrong, where it stands in its policy. */
export function brokenPlugin({ file, line, column }: Position, message: string, suggestion?: string): Problem {
  return { file, line, column, rule: 'broken-plugin', message, ...(suggestion === undefined ? {} : { suggestion }) }
}

/** `unchanged`: the files say what runs already. */
export type ReloadResult = 'changed' | 'unchanged' | 'refused'

export interface Reloads {
  /** The generation in which new exchanges begin. */
  generation(): Generation
  /** What runs, and since when. */
  running(): Loaded & { readonly at: number }
  /** Why the files on disk are not what runs; null when they are, as far as anybody has looked. */
  problem(): string | null
  /** An exchange begins in a generation, and is over. */
  entered(generation: Generation): void
  left(generation: Generation): void
  /** How many generations live: the one that serves, and those whose exchanges are not over. */
  live(): number
  /** Loads the files as they are now. One reload at a time: what is asked for meanwhile is done once, after it. */
  reload(why: string): Promise<ReloadResult>
  /** Reloads when a file changes its content. */
  watch(everyMs: number): void
  /** Lets go of every generation; rejects, when all have been tried, where something could not be let go of. */
  dispose(): Promise<void>
  /**
   * For a thread that follows the main one: builds the generation that comes next. It serves from `commit` on; another
   * `prepare`, or `abandon`, lets go of it.
   */
  prepare(loaded: Loaded): Promise<void>
  /** False when nothing is prepared. */
  commit(): boolean
  abandon(): Promise<void>
}

/** Each keeps its steps and connections: more of them would mean that exchanges last longer than configurations. */
const MAX_LIVE = 8

/** What belongs to the process and not to a generation, by its key in gateway.yaml. */
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
  running: Loaded & { readonly at: number }
  generation: Generation
  problem: string | null = null
  /** Exchanges of each generation. */
  readonly #exchanges = new Map<Generation, number>()
  /** The last reload that was asked for, when it is over; and one that has not begun, and sees all that is there by then. */
  #last: Promise<unknown> = Promise.resolve()
  #waiting: Promise<ReloadResult> | null = null
  /** Whether the files were not looked at because too many generations live. */
  #isCrowded = false
  /** The files that count, by path, with the stamp of what was last loaded of each, or seen since. */
  #followed = new Map<string, string>()
  #rounds: DeadlineClock | null = null
  #next: { readonly loaded: Loaded; readonly generation: Generation } | null = null
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
    const gone = await Promise.all([...this.#exchanges.keys()].map(each => this.#disposeGeneration(each)))
    this.#exchanges.clear()
    if (gone.includes(false)) throw new Error('not everything of the configuration could be let go of')
  }

  async #change(why: string): Promise<ReloadResult> {
    if (this.#closed) return 'unchanged'
    const loaded = await this.#parts.load()
    if (this.#closed) return 'unchanged'
    this.#isCrowded = false
    // Until it serves, both may change what comes next: what runs, and what was read or missed now.
    this.#follow([...this.running.reads.keys(), ...loaded.reads.keys()], loaded.reads)
    if ('problems' in loaded) return this.#refuse(why, loaded.problems)
    if (isSame(loaded, this.running)) {
      if (this.problem !== null) this.#parts.log.info({ why }, 'the files say again what runs')
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

  async prepare(loaded: Loaded): Promise<void> {
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

  async #swap(why: string, loaded: Loaded): Promise<ReloadResult> {
    try {
      await this.prepare(loaded)
    } catch (error) {
      if (!(error instanceof PlanError) || !error.position) return this.#refuseInWords(why, (error as Error).message)
      return this.#refuse(why, [brokenPlugin(error.position, error.reason)])
    }
    const next = this.#next!.generation
    const wrong = await this.#try(next, loaded)
    if (wrong.length > 0 || this.#closed) {
      await this.abandon()
      if (typeof wrong === 'string') return this.#refuseInWords(why, wrong)
      return wrong.length === 0 ? 'unchanged' : this.#refuse(why, wrong)
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

  /** Answers with what is wrong: the steps' mistakes, or a sentence. */
  async #try(next: Generation, loaded: Loaded): Promise<readonly Problem[] | string> {
    try {
      const wrong = await this.#parts.attempt(next)
      if (wrong.length > 0 || this.#closed) return wrong
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

  /** Once nobody is in it, an old generation is let go. */
  #release(generation: Generation): void {
    if (generation === this.generation || this.#exchanges.get(generation) !== 0) return
    this.#exchanges.delete(generation)
    void this.#disposeGeneration(generation)
    if (this.#isCrowded) this.#ask('there is room again')
  }

  /** Answers whether all of it went. */
  async #disposeGeneration(generation: Generation): Promise<boolean> {
    try {
      await generation.dispose()
      return true
    } catch (error) {
      this.#parts.log.error({ error }, 'not everything of a configuration could be let go of')
      return false
    }
  }

  async #run(why: string): Promise<ReloadResult> {
    this.#waiting = null
    const result = await this.#change(why)
    this.#parts.done(result)
    return result
  }

  /** For those who wait for no answer. */
  #ask(why: string): void {
    this.reload(why).catch((error: unknown) => this.#parts.log.error({ why, error }, 'a reload failed'))
  }

  /** These files count from now on, each with its stamp of the load or, without one, the one that is known. */
  #follow(files: Iterable<string>, reads?: Reads): void {
    this.#followed = new Map([...files].map(file => [file, reads?.get(file)?.stamp ?? this.#followed.get(file) ?? '']))
  }

  /**
   * By polling: it follows a symlink that is swapped, works on network drives, and never misses a rename. The first look
   * compares with what was there before the files were read, so that nothing is lost which was written meanwhile.
   */
  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    const seen = await Promise.all(
      [...this.#followed].map(async ([file, was]) => ({ file, was, is: await stampOf(file) })),
    )
    this.#isLooking = false
    // What was loaded since knows better.
    const news = seen.filter(({ file, was, is }) => is !== was && this.#followed.get(file) === was)
    for (const { file, is } of news) this.#followed.set(file, is)
    if (news.length > 0 && !this.#closed) this.#ask('a file changed')
  }
}

/** What cannot change while the process lives, each at its place in the file. */
function fixedProblems(now: Configuration, { configuration, sources }: Loaded): Problem[] {
  const changed = FIXED.filter(key => !isDeepStrictEqual(now[key], configuration[key]))
  return changed.map(key => ({
    ...placeOf(key, { configuration, sources }),
    message: `a change of ${key} needs a restart`,
    // As nothing is loaded in part, it holds back every later change too.
    suggestion: `put the old ${key} back or restart: until then no change of any file is loaded`,
    rule: 'needs-restart' as const,
  }))
}

/** The place of a key of gateway.yaml; that of the file when it is not there. */
export function placeOf(
  key: keyof Configuration,
  { configuration, sources }: Pick<Loaded, 'configuration' | 'sources'>,
): Position {
  const { file } = configuration
  const lines = (sources.get(file) ?? '').split('\n')
  const at = lines.findIndex(line => line.startsWith(`${key}:`))
  return { file, line: at < 0 ? 1 : at + 1, column: 1 }
}

/** Whether a configuration says what runs already: the same texts in the same files, and the same variables. */
function isSame(loaded: Loaded, running: Loaded): boolean {
  return (
    sameReads(loaded.reads, running.reads) &&
    isDeepStrictEqual(loaded.configuration.secrets, running.configuration.secrets) &&
    samePlugins(loaded.configuration, running.configuration)
  )
}

/** A changed plugin file is another module, and so another plugin. */
function samePlugins(one: Configuration, other: Configuration): boolean {
  const plugins = ({ routes }: Configuration) => routes.flatMap(({ steps }) => steps.steps.map(({ plugin }) => plugin))
  const [these, those] = [plugins(one), plugins(other)]
  return these.length === those.length && these.every((plugin, index) => plugin === those[index])
}
