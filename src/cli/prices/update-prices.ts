/** `tollgate prices update`: writes the price list of a configuration for review. It does not change a running gateway. */
import { existsSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { LoadResult } from '../../config/load.ts'
import { pathOf } from '../commands.ts'
import { problemText, shownPath } from '../configuration.ts'
import { count, json } from '../format.ts'
import { askGateway } from '../operate.ts'
import { findStore } from '../place.ts'
import { loadWithStandIns } from '../simulated.ts'
import { CommandError, type ExitCode, type Terminal } from '../terminal.ts'
import { diffText } from './changes-text.ts'
import { refusals } from './diff-prices.ts'
import { dateProblems, type ListInput, listProblemText, readListInput } from './list-input.ts'
import {
  checkReplaceable,
  countOf,
  isSameFile,
  keptRows,
  listText,
  problemsIn,
  type Rows,
  replaceFile,
} from './list-output.ts'
import { diffJson, diffOf } from './price-changes.ts'
import { vendorsOf } from './used-vendors.ts'

export interface UpdateOptions {
  readonly config: string
  /** The file to write; null: the file in the configuration. */
  readonly out: string | null
  readonly accept: readonly string[]
  /** Whether to keep the models of all vendors. */
  readonly all: boolean
  readonly json: boolean
  readonly today: Date
}

type LoadSuccess = Extract<LoadResult, { readonly configuration: object }>

/** The default name of a list. */
const NEW_LIST = 'prices.json'

/** Reads, checks, compares and writes a list. Returns 1 and writes nothing if the list is rejected. */
export async function updatePrices(terminal: Terminal, from: string, options: UpdateOptions): Promise<ExitCode> {
  const { config, today, accept } = options
  const input = await readListInput(terminal, from, today)
  const before = await loadBefore(terminal, options)
  const given = await loadWithStandIns(terminal, config, { today, priceList: { ...input, accept, anyPrice: true } })
  const loaded = before ?? ('configuration' in given ? given : null)
  const rows = loaded === null ? {} : rowsOf(input, loaded, options.all)
  const mistakes = [...problemsIn(input.list, rows), ...dateProblems(input, before?.catalog?.list ?? null, today)]
  if (mistakes.length > 0) return refused(terminal, listProblemText(terminal, input, mistakes))
  if ('problems' in given) return refused(terminal, await problemText(terminal, given))
  if (countOf(rows, input.list.format) === 0) {
    const vendors = vendorsOf(given.configuration).map(({ title }) => title)
    throw new CommandError(
      `${input.from} has no model of ${vendors.length === 0 ? 'a provider of the configuration' : vendors.join(', ')}. --all keeps all models.`,
    )
  }
  const file = outOf(terminal, given, options)
  await checkReplaceable(file, shownPath(terminal, file))
  const text = listText(rows, input.list.format, { date: input.date, from: input.from })
  const after = await loadWithStandIns(terminal, config, { today, priceList: { file, text, accept, anyPrice: true } })
  if ('problems' in after) return refused(terminal, await problemText(terminal, after))
  const diff = before && diffOf(before, after, [...(before.configuration.priceList?.accept ?? []), ...accept])
  const failed = await refusals(terminal, config, { input, diff, accept, today })
  if (failed.length === 0) {
    await checkNotServed(terminal, file, given, options)
    replaceFile(file, text)
  }
  const next = failed.length > 0 ? [] : await nextSteps(terminal, { file, given, after: text, options })
  const models = countOf(rows, input.list.format)
  if (options.json) {
    const written =
      failed.length > 0 ? null : { file, format: input.list.format, date: input.date, from: input.from, models }
    terminal.out(json({ ok: failed.length === 0, written, ...(diff === null ? {} : diffJson(diff)), next, failed }))
  } else {
    terminal.out(diff === null ? '' : `${diffText(diff)}\n`)
    if (failed.length > 0) terminal.err(`${failed.join('\n')}\n\nNothing was written.\n`)
    else
      terminal.out(
        `Written: ${shownPath(terminal, file)}, ${count(models, 'model')} of ${input.date} from ${input.from}.\n${next.map(line => `${line}\n`).join('')}`,
      )
  }
  return failed.length === 0 ? 0 : 1
}

/** The configuration with its own list, or with the built-in one if that cannot be used; null if neither loads. */
async function loadBefore(terminal: Terminal, { config, today }: UpdateOptions): Promise<LoadSuccess | null> {
  const own = await loadWithStandIns(terminal, config, { today })
  if ('configuration' in own) return own
  const builtIn = await loadWithStandIns(terminal, config, { today, priceList: null })
  return 'configuration' in builtIn ? builtIn : null
}

function rowsOf(input: ListInput, { configuration }: LoadSuccess, all: boolean): Rows {
  if (input.list.problems.some(({ path }) => path.length === 0)) return {}
  return keptRows(input.text, input.list, all ? null : vendorsOf(configuration))
}

function refused(terminal: Terminal, problems: string): ExitCode {
  terminal.err(`${problems}\nNothing was written.\n`)
  return 1
}

function outOf(terminal: Terminal, { configuration }: LoadSuccess, { out }: UpdateOptions): string {
  if (out !== null) return pathOf(terminal, out)
  if (configuration.priceList !== null) return configuration.priceList.file
  const file = join(dirname(configuration.file), NEW_LIST)
  if (!existsSync(file)) return file
  throw new CommandError(
    `${shownPath(terminal, file)} exists, but is not the catalog of the configuration. Add "catalog: ${NEW_LIST}" to it, or write another file with --out.`,
  )
}

/** Throws if a running gateway uses the file: it would reload, and charge the new prices before a review. */
async function checkNotServed(
  terminal: Terminal,
  file: string,
  { configuration }: LoadSuccess,
  { config }: UpdateOptions,
): Promise<void> {
  if (configuration.priceList === null || !isSameFile(configuration.priceList.file, file)) return
  const place = await findStore(terminal, config).catch((error: unknown) => {
    // The store may be in a variable that is not set in this shell.
    if (error instanceof CommandError) return null
    throw error
  })
  if (place === null || (await askGateway(place, 'model.list', {})) === null) return
  throw new CommandError(
    `A gateway runs with ${config} and would use ${shownPath(terminal, file)} at once. Write another file with --out, review it, and move it into place.`,
  )
}

interface WrittenList {
  readonly file: string
  readonly given: LoadSuccess
  readonly after: string
  readonly options: UpdateOptions
}

/** The remaining steps for the operator, one sentence each. */
async function nextSteps(terminal: Terminal, { file, given, after, options }: WrittenList): Promise<string[]> {
  const { config, accept, today } = options
  const { priceList, file: configFile } = given.configuration
  const shown = shownPath(terminal, file)
  const own = priceList?.accept ?? []
  const more = accept.filter(row => !own.includes(row))
  const without =
    more.length === 0
      ? given
      : await loadWithStandIns(terminal, config, { today, priceList: { file, text: after, accept: [] } })
  // Without these entries a load would reject the list, or omit free models of wildcards.
  const isNeeded = 'problems' in without || without.configuration.models.size < given.configuration.models.size
  const accepted = isNeeded ? [...own, ...more] : own
  const name = relative(dirname(configFile), file)
  const line =
    accepted.length === 0 ? `catalog: ${name}` : `catalog: { file: ${name}, accept: [${accepted.join(', ')}] }`
  const isNamed = priceList !== null && isSameFile(priceList.file, file) && accepted.length === own.length
  return [
    ...(isNamed ? [] : [`Add to ${config}:  ${line}`]),
    `Review ${shown}, run ${terminal.self} check, and reload the gateway. Until then, no price changes.`,
  ]
}
