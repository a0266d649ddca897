/**
 * Replays usage logs against one configuration, or against two side by side. Lines start in the recorded order and last as long as
 * recorded, so that concurrent exchanges are concurrent again.
 */
import type { Configuration } from '../config/configuration.ts'
import { disposeAll } from '../loader/dispose.ts'
import { type Comparison, compare, emptyComparison, recorded, type Verdict } from './compare.ts'
import { likenessOf } from './differ.ts'
import { type Gap, gapsOf, LogCounts } from './gaps.ts'
import type { BalanceOf } from './ledger.ts'
import type { LogLine } from './line.ts'
import { Means, Sizes } from './provider.ts'
import type { ReadLine } from './read.ts'
import { Reorder, Timeline } from './timeline.ts'
import { World } from './world.ts'

export interface ReplayOptions {
  readonly configuration: Configuration
  /** The configuration to compare with; null: the recorded verdicts. */
  readonly against: Configuration | null
  readonly balanceOf: BalanceOf
  /** Whether balances were given. */
  readonly hasBalances: boolean
  /** Accounts with their own balance, by id or name; null: none, or missing ones are not reported. */
  readonly balancesFor?: readonly string[] | null
  /** Maximum number of lines; Infinity for all. */
  readonly limit: number
  /** Only lines of this account, by id or name. */
  readonly account: string | null
  /** Called with the number of lines that are done. */
  progress(lines: number): void
  /** Called with the result before the steps are released: a step that hangs must not delay it. */
  found?(result: ReplayResult): void | Promise<void>
  /** Called with a sentence about steps that were not released. */
  held?(sentence: string): void
}

export interface SkippedLine {
  readonly file: string
  readonly number: number
  readonly reason: string
}

export interface ReplayResult {
  readonly found: Comparison
  readonly skippedCount: number
  /** The first skipped lines. */
  readonly skipped: readonly SkippedLine[]
  /** Lines of other accounts, or beyond the limit. */
  readonly passedBy: number
  /** Accounts of these lines: names by id. */
  readonly otherAccounts: ReadonlyMap<string, string>
  /** Number of lines taken. Some may be of the same exchange, or unfinished. */
  readonly taken: number
  /** Lines that were read after later ones had started. */
  readonly late: number
  /** Repeated lines of an exchange, which were left out. */
  readonly twice: number
  /** From the start of the first line to that of the last one, in milliseconds since the epoch; null without lines. */
  readonly span: { readonly from: number; readonly to: number } | null
  /** The limits of a replay of this log against this configuration. */
  readonly gaps: readonly Gap[]
}

/** The reorder buffer: its maximum number of lines and of bytes, and the minimum time that a line waits, in the log's time. */
const REORDER = { items: 50_000, bytes: 128 * 1024 * 1024, ms: 60_000 }
const MAX_SKIPPED = 20
const MAX_ACCOUNTS = 10_000
/** Together with `PAUSE_MS` about ten seconds. */
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
      await run.advance(false)
      if (run.isFull) break
    }
    await run.advance(true)
    const result = run.result()
    await options.found?.(result)
    return result
  } finally {
    await run.dispose().catch((error: Error) => options.held?.(error.message))
  }
}

/** The ids of the last one to two million lines: each exchange counts once. */
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
  readonly #counts = new LogCounts()
  readonly #skipped: SkippedLine[] = []
  readonly #inProgress = new Set<string>()
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
    this.#counts.add(read.line)
    this.#order.push(read.line, read.bytes)
  }

  /** Starts every line that can start. */
  async advance(isLast: boolean): Promise<void> {
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

  /** Ends the exchanges in progress. Plugins outside the gateway may wait for real I/O. */
  async #finish(): Promise<void> {
    for (let left = MAX_PAUSES; ; left--) {
      await this.#timeline.pass(Number.POSITIVE_INFINITY, settled)
      if (this.#inProgress.size === 0 || left === 0) break
      await new Promise(resolve => setTimeout(resolve, PAUSE_MS))
    }
    if (this.#inProgress.size === 0) return
    this.#found.unknown.set('unfinished', this.#inProgress.size)
    this.#found.lines += this.#inProgress.size
  }

  async #begin(line: LogLine): Promise<void> {
    // Usually the same file given twice.
    if (this.#ids.has(line.id)) {
      this.#twice++
      return
    }
    this.#ids.add(line.id)
    this.#inProgress.add(line.id)
    let before: Verdict | null = this.#other ? null : recorded(line)
    let after: Verdict | null = null
    const both = () => {
      if (!before || !after) return
      this.#inProgress.delete(line.id)
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
      gaps: gapsOf(configuration, this.#counts, { against, hasBalances, balanceOf, balancesFor }),
    }
  }

  async dispose(): Promise<void> {
    await disposeAll([this.#world, this.#other].map(world => () => world?.dispose()))
  }
}

/** Resolves when nothing changes any more: a replay runs in microtasks, and this comes after them. */
function settled(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
