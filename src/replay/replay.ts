/**
 * Replays usage logs against a configuration, or against two side by side: lines in the order in which they began, each
 * lasting as long as it did, so that those that were under way together are so again.
 */
import type { Configuration } from '../config/configuration.ts'
import { disposeAll } from '../loader/dispose.ts'
import { type Comparison, compare, emptyComparison, recorded, type Verdict } from './compare.ts'
import { likenessOf } from './differ.ts'
import { type Gap, gapsOf, Seen } from './gaps.ts'
import type { BalanceOf } from './ledger.ts'
import type { LogLine } from './line.ts'
import { Means, Sizes } from './provider.ts'
import type { ReadLine } from './read.ts'
import { Reorder, Timeline } from './timeline.ts'
import { World } from './world.ts'

export interface ReplayOptions {
  readonly configuration: Configuration
  /** What it is compared with; null: what the log says. */
  readonly against: Configuration | null
  readonly balanceOf: BalanceOf
  /** Whether somebody has said what accounts own. */
  readonly hasBalances: boolean
  /** Whose balances are said one by one, ids or names; null: nobody's, or it is not to be told who is missing. */
  readonly balancesFor?: readonly string[] | null
  /** Only so many lines; Infinity: all. */
  readonly limit: number
  /** Only lines of this account, by id or name. */
  readonly account: string | null
  /** So many lines are done. */
  progress(lines: number): void
  /** What was found, as soon as it is: a step that does not let go must not keep it. */
  found?(result: ReplayResult): void | Promise<void>
  /** A sentence about steps that did not let go of what they hold. */
  held?(sentence: string): void
}

/** A line that was skipped. */
export interface Skipped {
  readonly file: string
  readonly number: number
  readonly reason: string
}

export interface ReplayResult {
  readonly found: Comparison
  readonly skippedCount: number
  /** The first of them. */
  readonly skipped: readonly Skipped[]
  /** Lines of other accounts, or beyond the limit. */
  readonly passedBy: number
  /** Accounts whose lines were passed by, names by id. */
  readonly otherAccounts: ReadonlyMap<string, string>
  /** How many lines were taken: one may be of an exchange that another is of, too, or have no end. */
  readonly taken: number
  /** Lines that came so long after their place in time that the others had passed it. */
  readonly late: number
  /** Lines of an exchange that was under way already, which were left out. */
  readonly twice: number
  /** From the first line's begin to the last one's, in milliseconds since the epoch; null without lines. */
  readonly span: { readonly from: number; readonly to: number } | null
  /** What a replay of this log against this configuration cannot know. */
  readonly gaps: readonly Gap[]
}

/** Lines wait for those that began before them and ended after them: at most so many, so large, and so long at least. */
const REORDER = { items: 50_000, bytes: 128 * 1024 * 1024, ms: 60_000 }
const MAX_SKIPPED = 20
const MAX_ACCOUNTS = 10_000
/** About ten seconds. */
const MAX_PAUSES = 1_000
const PAUSE_MS = 10

export async function replay(
  batches: AsyncIterable<ReadLine<LogLine>[]>,
  options: ReplayOptions,
): Promise<ReplayResult> {
  const run = new Replay(options)
  try {
    for await (const batch of batches) {
      for (const read of batch) run.read(read)
      await run.goOn(false)
      if (run.isFull) break
    }
    await run.goOn(true)
    const result = run.result()
    await options.found?.(result)
    return result
  } finally {
    await run.dispose().catch((error: Error) => options.held?.(error.message))
  }
}

/** The ids of the last million lines or two: each exchange counts once. */
class LastIds {
  #older = new Set<string>()
  #newer = new Set<string>()

  has(id: string): boolean {
    return this.#newer.has(id) || this.#older.has(id)
  }

  add(id: string): void {
    this.#newer.add(id)
    if (this.#newer.size < 1_000_000) return
    this.#older = this.#newer
    this.#newer = new Set()
  }
}

class Replay {
  readonly #options: ReplayOptions
  readonly #timeline = new Timeline()
  readonly #means = new Means()
  readonly #sizes = new Sizes()
  readonly #order = new Reorder<LogLine>(REORDER)
  readonly #world: World
  readonly #other: World | null
  readonly #found = emptyComparison()
  readonly #seen = new Seen()
  readonly #skipped: Skipped[] = []
  readonly #underWay = new Set<string>()
  readonly #ids = new LastIds()
  readonly #others = new Map<string, string>()
  #skippedCount = 0
  #taken = 0
  #passedBy = 0
  #late = 0
  #twice = 0
  #from = Number.POSITIVE_INFINITY
  #to = Number.NEGATIVE_INFINITY

  constructor(options: ReplayOptions) {
    this.#options = options
    const { configuration, against, balanceOf } = options
    const parts = { timeline: this.#timeline, balanceOf, means: this.#means }
    this.#world = new World({
      ...parts,
      configuration,
      likeness: likenessOf(configuration, against),
      isBase: false,
      sizes: against && this.#sizes.beyond,
    })
    this.#other =
      against &&
      new World({
        ...parts,
        configuration: against,
        likeness: likenessOf(against, configuration),
        isBase: true,
        sizes: this.#sizes.recorded,
      })
  }

  get isFull(): boolean {
    return this.#taken >= this.#options.limit
  }

  read(read: ReadLine<LogLine>): void {
    if (!('line' in read)) {
      this.#skippedCount++
      if (this.#skipped.length < MAX_SKIPPED) this.#skipped.push(read)
      return
    }
    const { account } = this.#options
    const of = read.line.who?.account
    if (this.isFull || (account !== null && of?.id !== account && of?.name !== account)) {
      this.#passedBy++
      if (of && this.#others.size < MAX_ACCOUNTS) this.#others.set(of.id, of.name)
      return
    }
    this.#taken++
    this.#seen.add(read.line)
    this.#order.push(read.line, read.bytes)
  }

  /** Begins whatever can begin. */
  async goOn(isLast: boolean): Promise<void> {
    for (let line = this.#order.next(isLast); line; line = this.#order.next(isLast)) {
      if (line.at < this.#timeline.now()) this.#late++
      this.#from = Math.min(this.#from, line.at)
      this.#to = Math.max(this.#to, line.at)
      await this.#timeline.pass(line.at, settled)
      await this.#begin(line)
    }
    if (isLast) await this.#finish()
    this.#options.progress(this.#found.lines)
  }

  /** What is under way ends. A plugin of somebody's own may wait for something real. */
  async #finish(): Promise<void> {
    for (let left = MAX_PAUSES; ; left--) {
      await this.#timeline.pass(Number.POSITIVE_INFINITY, settled)
      if (this.#underWay.size === 0 || left === 0) break
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
    }
    if (this.#underWay.size === 0) return
    this.#found.unknown.set('unfinished', this.#underWay.size)
    this.#found.lines += this.#underWay.size
  }

  async #begin(line: LogLine): Promise<void> {
    // The same file twice, mostly.
    if (this.#ids.has(line.id)) {
      this.#twice++
      return
    }
    this.#ids.add(line.id)
    this.#underWay.add(line.id)
    let before: Verdict | null = this.#other ? null : recorded(line)
    let after: Verdict | null = null
    const both = () => {
      if (!before || !after) return
      this.#underWay.delete(line.id)
      this.#sizes.forget(line.id)
      compare(this.#found, line, before, after)
    }
    this.#other?.begin(line, verdict => {
      before = verdict
      both()
    })
    this.#world.begin(line, verdict => {
      after = verdict
      both()
    })
    await settled()
    this.#means.add(line)
  }

  result(): ReplayResult {
    const { configuration, against, hasBalances, balanceOf, balancesFor = null } = this.#options
    return {
      found: this.#found,
      skippedCount: this.#skippedCount,
      skipped: this.#skipped,
      passedBy: this.#passedBy,
      otherAccounts: this.#others,
      taken: this.#taken,
      late: this.#late,
      twice: this.#twice,
      span: this.#to < this.#from ? null : { from: this.#from, to: this.#to },
      gaps: gapsOf(configuration, this.#seen, { against, hasBalances, balanceOf, balancesFor }),
    }
  }

  async dispose(): Promise<void> {
    await disposeAll([this.#world, this.#other].map(world => () => world?.dispose()))
  }
}

/** Until nothing moves: everything in a replay is done in microtasks, and this comes after them. */
function settled(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
