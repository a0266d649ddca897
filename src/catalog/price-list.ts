/** Reads a price list from a file: LiteLLM's `model_prices_and_context_window.json`, or models.dev's `api.json`. */
import { hash } from 'node:crypto'
import type { Vendor } from '../providers/dialects/vendors.ts'
import { brokenAt, eachMember, MAX_DEPTH } from './json-places.ts'
import { isDay, isMap, type ListedModel, type ListProblem, MARK, sourceOf } from './listed-model.ts'
import { litellmModels } from './litellm-list.ts'
import { modelsDevModels } from './models-dev-list.ts'

export interface PriceList {
  /** The file's name, for messages. */
  readonly name: string
  /** The day of the list, as YYYY-MM-DD; null without `_tollgate.date`. */
  readonly date: string | null
  /** The name with the day, or with a digest of the text. Receipts have it. */
  readonly source: string
  readonly format: 'LiteLLM' | 'models.dev'
  /** By the list's name of the provider, then by the provider's name of the model, in lower case. */
  readonly providers: ReadonlyMap<string, ReadonlyMap<string, ListedModel>>
  /** Problems that make the whole list unusable. */
  readonly problems: readonly ListProblem[]
}

/**
 * Reads a price list. Never throws.
 * @param name for messages
 */
export function readPriceList(name: string, text: string): PriceList {
  const digest = hash('sha256', text, 'hex').slice(0, 8)
  const empty = { name, date: null, source: `${name} (${digest})`, format: 'LiteLLM', providers: new Map() } as const
  // The file may not be a price list, and may contain secrets.
  const failed = (message: string): PriceList => ({
    ...empty,
    problems: [{ path: [], message, suggestion: FORMATS, concealed: true }],
  })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    const { line, column } = brokenAt(text)!
    return failed(`this price list is not JSON (line ${line}, column ${column})`)
  }
  if (!isMap(value)) return failed('this price list is not a JSON object')
  const problems = repeatedKeys(text)
  if (problems === null) return failed(`this price list has more than ${MAX_DEPTH} objects and lists in one another`)
  const rows = Object.values(value)
  const mark = value[MARK]
  const written = isMap(mark) ? mark['date'] : undefined
  const date = isDay(written) ? written : null
  if (written !== undefined && date === null) {
    const message = `the date of the price list is ${JSON.stringify(written)}, which is not a calendar date`
    problems.push({ path: [MARK, 'date'], message, suggestion: 'write it as YYYY-MM-DD' })
  }
  const list = { ...empty, ...(date === null ? {} : { date, source: sourceOf(name, date) }), problems }
  if (rows.some(row => isMap(row) && isMap(row['models']))) {
    return { ...list, format: 'models.dev', providers: modelsDevModels(value) }
  }
  if (rows.some(row => isMap(row) && typeof row['litellm_provider'] === 'string')) {
    return { ...list, providers: litellmModels(value) }
  }
  return failed('this price list has no model')
}

const FORMATS =
  "write a file in the format of LiteLLM's model_prices_and_context_window.json or of models.dev's api.json"

/** The model of a vendor in a list; null if the list does not have it. */
export function listedIn({ format, providers }: PriceList, vendor: Vendor, model: string): ListedModel | null {
  const name = model.toLowerCase()
  for (const provider of namesIn(format, vendor)) {
    const found = providers.get(provider)?.get(name)
    if (found !== undefined) return found
  }
  return null
}

export function allListedIn({ format, providers }: PriceList, vendor: Vendor): ListedModel[] {
  return namesIn(format, vendor).flatMap(provider => [...(providers.get(provider)?.values() ?? [])])
}

/** The names of a vendor in a list of this format. */
export function namesIn(format: PriceList['format'], vendor: Vendor): readonly string[] {
  return format === 'LiteLLM' ? vendor.litellm : [vendor.modelsDev ?? vendor.name]
}

/** Duplicate keys: `JSON.parse` silently takes the last one. Null if the text is nested too deeply. */
function repeatedKeys(text: string): ListProblem[] | null {
  const problems: ListProblem[] = []
  const isWhole = eachMember(text, ({ path, key, isRepeated }) => {
    if (!isRepeated) return
    const at = path()
    const message = `"${at.join('.')}" is in the price list twice`
    problems.push({ path: at, offset: key, message, suggestion: 'remove one of them' })
  })
  return isWhole ? problems : null
}
