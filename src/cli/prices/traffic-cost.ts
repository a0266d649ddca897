/** Recorded traffic at two price lists: who would have paid how much. */
import { cost } from '#contract'
import type { Configuration } from '../../config/configuration.ts'
import { type Comparison, compare, emptyComparison, recorded } from '../../replay/compare.ts'
import { parseLine } from '../../replay/line.ts'
import { readLogs } from '../../replay/read.ts'
import { logFile } from '../commands.ts'
import type { Terminal } from '../terminal.ts'

/** The charges of a log. */
export interface TrafficCost {
  /** Lines that were charged, with the cost of their usage at both prices. */
  readonly compared: Comparison
  /** The recorded charges of the same lines, in nano-dollars. */
  readonly charged: bigint
  /** Lines without usage or without a charge. */
  readonly free: number
  /** Charged lines whose model one of the configurations does not have. */
  readonly unknown: number
  /** Lines that cannot be read, with the reason of each of the first. */
  readonly skipped: readonly { readonly file: string; readonly number: number; readonly reason: string }[]
  readonly skippedCount: number
  /** Milliseconds since the epoch of the first and the last line that was charged; null: the log has no such line. */
  readonly span: { readonly from: number; readonly to: number } | null
}

type Models = Pick<Configuration, 'models'>

const MOST_SKIPPED = 10

/** The cost of the usage in logs of the plugin usage-log at the prices of two configurations. */
export async function trafficCost(
  terminal: Terminal,
  logs: readonly string[],
  before: Models,
  after: Models,
): Promise<TrafficCost> {
  const files = logs.map(file => logFile(terminal, file))
  const compared = emptyComparison()
  const skipped: TrafficCost['skipped'][number][] = []
  let [charged, free, unknown, skippedCount] = [0n, 0, 0, 0]
  let span = null as TrafficCost['span']
  for await (const batch of readLogs(files, { parse: parseLine, input: process.stdin, read() {} })) {
    for (const each of batch) {
      if ('reason' in each) {
        skippedCount++
        if (skipped.length < MOST_SKIPPED) skipped.push(each)
        continue
      }
      const { line } = each
      if (line.usage === null || line.charged === 0n) {
        free++
        continue
      }
      const [was, is] = [before.models.get(line.model ?? ''), after.models.get(line.model ?? '')]
      if (was === undefined || is === undefined) {
        unknown++
        continue
      }
      charged += line.charged
      span = { from: Math.min(span?.from ?? line.at, line.at), to: Math.max(span?.to ?? line.at, line.at) }
      const at = (price: typeof was.price) => ({ ...recorded(line), charged: cost(line.usage!, price ?? []).total })
      compare(compared, line, at(was.price), at(is.price))
    }
  }
  return { compared, charged, free, unknown, skipped, skippedCount, span }
}
