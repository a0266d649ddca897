/**
 * Changes the configuration of a gateway that serves. The files are loaded and checked, a new generation is built beside
 * the one that serves, tried, and swapped in; exchanges end in the generation in which they began, and one that no
 * exchange uses any more is let go. What is wrong with the new files changes nothing: it is told, and the old ones serve.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Log } from '#contract'
import { createDeadlineClock, type DeadlineClock } from '../common/clock.ts'
import type { Configuration } from '../config/configuration.ts'
import type { LoadResult } from '../config/load.ts'
import { formatProblem, type Problem, sentence } from '../config/yaml/problem.ts'
import { type Reads, sameReads, stampOf } from '../config/yaml/reads.ts'
import type { Generation } from './generation.ts'

/** A configuration that could be loaded, with the texts of its YAML files by absolute path. */
export type Loaded = Exclude<LoadResult, { readonly problems: unknown }>

export interface ReloadParts {
  readonly first: Loaded
  load(): Promise<LoadResult>
  /** Builds a generation; `previous` is the one that serves. Throws when a step cannot be made. */
  build(configuration: Configuration, previous: Generation | undefined): Promise<Generation>
  /** Sends one request through each policy, to nobody. Answers with what is wrong, as sentences. */
  attempt(generation: Generation): Promise<readonly string[]>
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
}

/** Each keeps its steps and connections: more of them would mean that exchanges last longer than configurations. */
const MAX_LIVE = 8

/** What belongs to the process and not to a generation, by its key in gateway.yaml. */
const FIXED = ['listen', 'dashboard', 'admin', 'store', 'secret'] as const

export async function createReloads(parts: ReloadParts): Promise<Reloads> {
  let running = { ...parts.first, at: parts.now() }
  let current = await parts.build(running.configuration, undefined)
  let problem: string | null = null
  /** Exchanges of each generation. */
  const exchanges = new Map<Generation, number>([[current, 0]])
  /** The last reload that was asked for, when it is over; and one that has not begun, and sees all that is there by then. */
  let last: Promise<unknown> = Promise.resolve()
  let waiting: Promise<ReloadResult> | null = null
  /** Whether the files were not looked at because too many generations live. */
  let isCrowded = false
  /** The files that count, by path, with the stamp of what was last loaded of each, or seen since. */
  let followed = new Map<string, string>()
  follow(running.reads.keys(), running.reads)
  let rounds: DeadlineClock | null = null
  let isLooking = false
  let closed = false

  async function change(why: string): Promise<ReloadResult> {
    if (closed) return 'unchanged'
    const loaded = await parts.load()
    if (closed) return 'unchanged'
    isCrowded = false
    // Until it serves, both may change what comes next: what runs, and what was read or missed now.
    follow([...running.reads.keys(), ...loaded.reads.keys()], loaded.reads)
    if ('problems' in loaded) return refuse(why, loaded.problems)
    if (isSame(loaded, running)) {
      if (problem !== null) parts.log.info({ why }, 'the files say again what runs')
      problem = null
      follow(loaded.reads.keys())
      return 'unchanged'
    }
    const fixed = fixedProblems(running.configuration, loaded)
    if (fixed.length > 0) return refuse(why, fixed)
    if (exchanges.size >= MAX_LIVE) {
      isCrowded = true
      return refuseInWords(why, `${MAX_LIVE} configurations are in use by exchanges that are not over; try again later`)
    }
    return swap(why, loaded)
  }

  async function swap(why: string, loaded: Loaded): Promise<ReloadResult> {
    let next: Generation
    try {
      next = await parts.build(loaded.configuration, current)
    } catch (error) {
      return refuseInWords(why, (error as Error).message)
    }
    const wrong = await parts.attempt(next).catch((error: unknown) => [`the dryRun failed: ${String(error)}`])
    if (wrong.length > 0 || closed) {
      await disposeGeneration(next)
      return wrong.length === 0 ? 'unchanged' : refuseInWords(why, ...wrong)
    }
    const old = current
    exchanges.set(next, 0)
    current = next
    running = { ...loaded, at: parts.now() }
    problem = null
    follow(loaded.reads.keys())
    release(old)
    const notRun = parts.notRun(next).join(', ')
    parts.log.info({ why, live: exchanges.size, ...(notRun && { not_run: notRun }) }, 'the configuration has changed')
    return 'changed'
  }

  function refuse(why: string, problems: readonly Problem[]): ReloadResult {
    for (const each of problems) {
      const { file, line, column } = each
      parts.log.error({ why, file, line, column, problem: sentence(each) }, 'the configuration is not changed')
    }
    const [first] = problems
    return refusedFor(first ? formatProblem(first) : 'the configuration cannot be loaded', problems.length)
  }

  function refuseInWords(why: string, ...messages: readonly string[]): ReloadResult {
    for (const message of messages) parts.log.error({ why, problem: message }, 'the configuration is not changed')
    return refusedFor(messages[0]!, messages.length)
  }

  function refusedFor(first: string, count: number): ReloadResult {
    problem = parts.redact(count > 1 ? `${first} (and ${count - 1} more)` : first)
    return 'refused'
  }

  /** Once nobody is in it, an old generation is let go. */
  function release(generation: Generation): void {
    if (generation === current || exchanges.get(generation) !== 0) return
    exchanges.delete(generation)
    void disposeGeneration(generation)
    if (isCrowded) ask('there is room again')
  }

  /** Answers whether all of it went. */
  async function disposeGeneration(generation: Generation): Promise<boolean> {
    try {
      await generation.dispose()
      return true
    } catch (error) {
      parts.log.error({ error }, 'not everything of a configuration could be let go of')
      return false
    }
  }

  async function run(why: string): Promise<ReloadResult> {
    waiting = null
    const result = await change(why)
    parts.done(result)
    return result
  }

  /** For those who wait for no answer. */
  function ask(why: string): void {
    reloads.reload(why).catch((error: unknown) => parts.log.error({ why, error }, 'a reload failed'))
  }

  /** These files count from now on, each with its stamp of the load or, without one, the one that is known. */
  function follow(files: Iterable<string>, reads?: Reads): void {
    followed = new Map([...files].map(file => [file, reads?.get(file)?.stamp ?? followed.get(file) ?? '']))
  }

  /**
   * By polling: it follows a symlink that is swapped, works on network drives, and never misses a rename. The first look
   * compares with what was there before the files were read, so that nothing is lost which was written meanwhile.
   */
  async function look(): Promise<void> {
    if (isLooking) return
    isLooking = true
    const seen = await Promise.all([...followed].map(async ([file, was]) => ({ file, was, is: await stampOf(file) })))
    isLooking = false
    // What was loaded since knows better.
    const news = seen.filter(({ file, was, is }) => is !== was && followed.get(file) === was)
    for (const { file, is } of news) followed.set(file, is)
    if (news.length > 0 && !closed) ask('a file changed')
  }

  const reloads: Reloads = {
    generation: () => current,
    running: () => running,
    problem: () => problem,
    entered(generation) {
      exchanges.set(generation, (exchanges.get(generation) ?? 0) + 1)
    },
    left(generation) {
      exchanges.set(generation, exchanges.get(generation)! - 1)
      release(generation)
    },
    live: () => exchanges.size,
    reload(why) {
      if (waiting !== null) return waiting
      const mine = last.then(() => run(why))
      waiting = mine
      last = mine.catch(() => {})
      return mine
    },
    watch(everyMs) {
      rounds?.stop()
      rounds = createDeadlineClock(everyMs)
      rounds.watch(() => void look())
    },
    async dispose() {
      closed = true
      rounds?.stop()
      await last
      const gone = await Promise.all([...exchanges.keys()].map(disposeGeneration))
      exchanges.clear()
      if (gone.includes(false)) throw new Error('not everything of the configuration could be let go of')
    },
  }
  return reloads
}

/** What cannot change while the process lives, each at its place in the file. */
function fixedProblems(now: Configuration, { configuration, sources }: Loaded): Problem[] {
  const changed = FIXED.filter(key => !isDeepStrictEqual(now[key], configuration[key]))
  return changed.map(key => {
    const { file } = configuration
    const lines = (sources.get(file) ?? '').split('\n')
    const at = lines.findIndex(line => line.startsWith(`${key}:`))
    const line = at < 0 ? 1 : at + 1
    return {
      file,
      line,
      column: 1,
      message: `a change of ${key} needs a restart`,
      suggestion: 'the old one serves',
      rule: 'needs-restart' as const,
    }
  })
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
