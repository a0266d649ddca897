/** `tollgate prices diff`: shows what another price list would change. */
import { problemText } from '../configuration.ts'
import { json, showNano } from '../format.ts'
import { loadWithStandIns } from '../simulated.ts'
import type { ExitCode, Terminal } from '../terminal.ts'
import { diffText } from './changes-text.ts'
import { dateProblems, type ListInput, listProblemText, readListInput } from './list-input.ts'
import { keptRows, problemsIn } from './list-output.ts'
import { diffJson, diffOf, type PriceDiff, unaccepted } from './price-changes.ts'
import { nameOf } from './rates.ts'
import { trafficCost } from './traffic-cost.ts'
import { trafficJson, trafficText } from './traffic-text.ts'
import { vendorsOf } from './used-vendors.ts'

export interface DiffOptions {
  readonly config: string
  /** `VENDOR/MODEL` whose price may become 0 or change more than tenfold. */
  readonly accept: readonly string[]
  /** Logs of the plugin usage-log. */
  readonly logs: readonly string[]
  readonly json: boolean
  readonly today: Date
}

/** Prints the comparison. Returns 1 if the list has mistakes or a change must be accepted. */
export async function diffPrices(terminal: Terminal, from: string, options: DiffOptions): Promise<ExitCode> {
  const { config, today, accept } = options
  const input = await readListInput(terminal, from, today)
  const before = await loadWithStandIns(terminal, config, { today })
  if ('problems' in before) {
    terminal.err(`${await problemText(terminal, before)}\nA configuration with problems cannot be compared.\n`)
    return 1
  }
  const rows = input.list.problems.some(({ path }) => path.length === 0)
    ? {}
    : keptRows(input.text, input.list, vendorsOf(before.configuration))
  const mistakes = [...problemsIn(input.list, rows), ...dateProblems(input, before.catalog?.list ?? null, today)]
  if (mistakes.length > 0) {
    terminal.err(listProblemText(terminal, input, mistakes))
    return 1
  }
  const after = await loadWithStandIns(terminal, config, { today, priceList: { ...input, accept, anyPrice: true } })
  if ('problems' in after) {
    terminal.err(`${await problemText(terminal, after)}\nThe gateway would reject this price list.\n`)
    return 1
  }
  const diff = diffOf(before, after, [...(before.configuration.priceList?.accept ?? []), ...accept])
  const failed = await refusals(terminal, config, { input, diff, accept, today })
  const { logs } = options
  const traffic =
    logs.length === 0 ? null : await trafficCost(terminal, logs, before.configuration, after.configuration)
  if (options.json) {
    const list = { from: input.from, format: input.list.format, date: input.list.date }
    const log = traffic && trafficJson(traffic)
    terminal.out(json({ ok: failed.length === 0, list, ...diffJson(diff), log, failed }))
  } else {
    terminal.out(diffText(diff) + (traffic === null ? '' : `\n${trafficText(traffic)}`))
    if (failed.length > 0) terminal.err(`\n${failed.join('\n')}\n`)
  }
  return failed.length === 0 ? 0 : 1
}

/** The reasons why the list cannot be used unchanged: changes that must be accepted, and prices that a load would reject. */
export async function refusals(
  terminal: Terminal,
  config: string,
  { input, diff, accept, today }: { input: ListInput; diff: PriceDiff | null; accept: readonly string[]; today: Date },
): Promise<string[]> {
  const open = diff === null ? [] : unaccepted(diff)
  const sentences = open.map(({ model, listed, rates }) => {
    const subject = listed.length === 0 ? model : listed.join(' and ')
    const marked = rates.filter(({ mark }) => mark !== null)
    const how = marked.map(rate => `${nameOf(rate)} ${showNano(rate.before ?? 0n)} -> ${showNano(rate.after ?? 0n)}`)
    const options = listed.map(row => `--accept ${row}`).join(' ')
    return `${subject}: ${how.join(', ')}.${options === '' ? '' : ` If this is correct, add ${options}.`}`
  })
  const strict = await loadWithStandIns(terminal, config, { today, priceList: { ...input, accept } })
  const problems = 'problems' in strict ? [(await problemText(terminal, strict)).trimEnd()] : []
  return [...new Set(sentences), ...problems]
}
