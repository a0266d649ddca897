/** Computes the cost of recorded traffic at two price lists. */
import { cost } from '#contract'
import type { Configuration } from '../../config/configuration.ts'
import { type Comparison, compare, emptyComparison, recorded } from '../../replay/compare.ts'
import { parseLine } from '../../replay/line.ts'
import { readLogs } from '../../replay/read.ts'
import { logFile } from '../commands.ts'
import type { Terminal } from '../terminal.ts'

/** The charges of a log. */
export interface TrafficCost {
  /** Lines with usage, at both prices. Answers from a cache have their recorded charge at both. */
  readonly compared: Comparison
  /** The recorded charges of the same lines, in nano-dollars. */
  readonly charged: bigint
  /** The number of lines without usage. */
  readonly unused: number
  /** The number of lines with usage whose model is missing in one of the configurations. */
  readonly unknown: number
  /** The first unreadable lines, with reasons. */
  readonly skipped: readonly { readonly file: string; readonly number: number; readonly reason: string }[]
  readonly skippedCount: number
  /** The times of the first and the last compared line, in milliseconds since the epoch; null: no line was compared. */
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
  let [charged, unused, unknown, skippedCount] = [0n, 0, 0, 0]
  let span = null as TrafficCost['span']
  for await (const batch of readLogs(files, { parse: parseLine, input: process.stdin, read() {} })) {
    for (const each of batch) {
      if ('reason' in each) {
        skippedCount++
        if (skipped.length < MOST_SKIPPED) skipped.push(each)
        continue
      }
      const { line } = each
      const { usage } = line
      // A line with usage but without a charge is compared too: another list may give a free model a price.
      if (usage === null) {
        unused++
        continue
      }
      const [was, is] = [before.models.get(line.model ?? ''), after.models.get(line.model ?? '')]
      if (was === undefined || is === undefined) {
        unknown++
        continue
      }
      charged += line.charged
      span = { from: Math.min(span?.from ?? line.at, line.at), to: Math.max(span?.to ?? line.at, line.at) }
      const at = (price: typeof was.price) => ({
        ...recorded(line),
        // The price of an answer from a cache is set by the policy.
        charged: usage.source === 'cached' ? line.charged : cost(usage, price ?? []).total,
      })
      compare(compared, line, at(was.price), at(is.price))
    }
  }
  return { compared, charged, unused, unknown, skipped, skippedCount, span }
}
