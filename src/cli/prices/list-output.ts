/** Writes a price list with the models of some vendors, one on each line, so that a review shows the changes. */
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { isMap, type ListProblem, MARK, type Members } from '../../catalog/listed-model.ts'
import { namesIn, type PriceList, readPriceList } from '../../catalog/price-list.ts'
import { MAX_LIST_BYTES, readTextFile } from '../../config/yaml/text-file.ts'
import type { Vendor } from '../../providers/dialects/vendors.ts'
import { CommandError } from '../terminal.ts'

/** The rows of a list: LiteLLM's by model name, models.dev's by provider with `models`. */
export type Rows = Readonly<Record<string, Members>>

/** The fields of a row that Tollgate reads. The others are not written, because they would make changes harder to review. */
const READ = {
  LiteLLM:
    /cost|^tiered_pricing$|^(litellm_provider|mode|max_tokens|max_input_tokens|max_output_tokens|supports_reasoning|deprecation_date|successor_model)$/,
  'models.dev': /^(cost|limit|modalities|reasoning|status|shutdown_date|deprecation_date)$/,
}

/**
 * The rows of some vendors.
 * @param text of a valid list
 * @param vendors null: all
 */
export function keptRows(text: string, { format }: PriceList, vendors: readonly Vendor[] | null): Rows {
  const all = Object.entries(JSON.parse(text) as Members).filter(([key]) => key !== MARK && key !== 'sample_spec')
  const names = vendors && new Set(vendors.flatMap(vendor => namesIn(format, vendor)))
  return Object.fromEntries(
    all.flatMap(([key, row]) => {
      if (!isMap(row)) return []
      const provider = format === 'LiteLLM' ? row['litellm_provider'] : key
      if (typeof provider !== 'string' || names?.has(provider) === false) return []
      if (format === 'LiteLLM') return [[key, readOf(row, format)]]
      const models = isMap(row['models']) ? row['models'] : {}
      const read = Object.entries(models).flatMap(([id, model]) => (isMap(model) ? [[id, readOf(model, format)]] : []))
      return read.length === 0 ? [] : [[key, { models: Object.fromEntries(read) }]]
    }),
  )
}

const readOf = (row: Members, format: PriceList['format']): Members =>
  Object.fromEntries(Object.entries(row).filter(([key, value]) => READ[format].test(key) && value !== null))

/** The number of models in the rows. */
export const countOf = (rows: Rows, format: PriceList['format']): number =>
  format === 'LiteLLM'
    ? Object.keys(rows).length
    : Object.values(rows).reduce((sum, { models }) => sum + Object.keys(models as object).length, 0)

/** The mistakes in some rows of a list, and those of the whole list. */
export function problemsIn({ format, providers, problems }: PriceList, rows: Rows): ListProblem[] {
  const isKept = ([first, , model]: readonly string[]) =>
    first === undefined ||
    (Object.hasOwn(rows, first) &&
      (format === 'LiteLLM' || model === undefined || Object.hasOwn(rows[first]!['models'] as object, model)))
  const models = [...providers.values()].flatMap(all => [...all.values()])
  return [...problems, ...models.flatMap(model => model.problems)].filter(({ path }) => isKept(path))
}

/** The text of a list, sorted by name, with its date and source first. */
export function listText(rows: Rows, format: PriceList['format'], mark: { date: string; from: string }): string {
  const lines = [`  ${JSON.stringify(MARK)}: ${inLine(mark)}`]
  for (const [key, row] of inOrder(rows)) {
    if (format === 'LiteLLM') lines.push(`  ${JSON.stringify(key)}: ${inLine(row)}`)
    else {
      const models = inOrder(row['models'] as Rows).map(([id, model]) => `    ${JSON.stringify(id)}: ${inLine(model)}`)
      lines.push(`  ${JSON.stringify(key)}: { "models": {\n${models.join(',\n')}\n  } }`)
    }
  }
  return `{\n${lines.join(',\n')}\n}\n`
}

const inOrder = (rows: Rows): [string, Members][] => Object.entries(rows).sort(([a], [b]) => (a < b ? -1 : 1))

/** JSON on one line with blanks between its members. Texts in JSON contain no line breaks. */
const inLine = (value: object): string => JSON.stringify(value, null, 1).replace(/\n\s*/g, ' ')

/**
 * Checks that a path has a price list or no file, so that nothing else is overwritten.
 * Throws a `CommandError` with the file's name.
 * @param shown the path, for people
 */
export async function checkReplaceable(path: string, shown: string): Promise<void> {
  let text: string
  try {
    text = await readTextFile(path, MAX_LIST_BYTES)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return
    throw new CommandError(`${shown} cannot be read and was not replaced: ${code ?? message}`)
  }
  const mistake = readPriceList(basename(path), text).problems.find(problem => problem.path.length === 0)
  if (mistake === undefined) return
  throw new CommandError(
    `${shown} was not replaced: ${mistake.message}. Remove the file, or write another one with --out.`,
  )
}

/**
 * Replaces a file atomically. A link stays a link, and the file keeps its mode. Throws a `CommandError` if the folder is not
 * writable.
 */
export function replaceFile(path: string, text: string): void {
  const real = realPathOf(path)
  const aside = join(dirname(real), `.tollgate-prices-${process.pid}`)
  try {
    const mode = statSync(real, { throwIfNoEntry: false })?.mode
    const file = openSync(aside, 'w', 0o644)
    try {
      if (mode !== undefined) fchmodSync(file, mode & 0o7777)
      writeFileSync(file, text)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
    renameSync(aside, real)
  } catch (error) {
    rmSync(aside, { force: true })
    throw new CommandError(`${path} cannot be written: ${(error as NodeJS.ErrnoException).code}`)
  }
}

/** Whether two paths are the same file, also through links. */
export const isSameFile = (one: string, other: string): boolean => realPathOf(one) === realPathOf(other)

function realPathOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
