/** The built-in price list: `@pydantic/genai-prices`, which comes with its data. */

import type { ModelInfo, ModelPrice } from '@pydantic/genai-prices'
import type { Price, PriceRule, Unit } from '#contract'
import { DAY_MS } from '../common/clock.ts'
import type { Vendor } from '../providers/dialects/vendors.ts'
import { dearest } from './dearest.ts'
import { type ListedModel, ruleOf, sourceOf } from './listed-model.ts'

/** The version in package.json and the day of its release. */
export const BUILT_IN = { name: 'genai-prices 0.1.8', date: '2026-09-23' }

/** The source of a price, as in receipts. */
const SOURCE = sourceOf(BUILT_IN.name, BUILT_IN.date)

/** The keys of its prices, each with the gateway's unit and the number of units that a price is for. */
const KEYS: Readonly<Record<string, readonly [unit: Unit, per: number]>> = {
  input_mtok: ['input', 1_000_000],
  cache_read_mtok: ['cached_input', 1_000_000],
  cache_write_mtok: ['cache_write', 1_000_000],
  cache_write_1h_mtok: ['cache_write_1h', 1_000_000],
  input_audio_mtok: ['input_audio', 1_000_000],
  cache_audio_read_mtok: ['cached_audio', 1_000_000],
  input_image_mtok: ['input_image', 1_000_000],
  output_mtok: ['output', 1_000_000],
  output_reasoning_mtok: ['reasoning', 1_000_000],
  output_audio_mtok: ['output_audio', 1_000_000],
  output_image_mtok: ['output_image', 1_000_000],
  input_mchars: ['character', 1_000_000],
  input_document_kpages: ['page', 1000],
  web_searches_kcount: ['search', 1000],
  requests_kcount: ['request', 1000],
}
const MODULE = '@pydantic/genai-prices'
type Genai = typeof import('@pydantic/genai-prices')

/** Finds models in the built-in list. */
export interface BuiltInList {
  /** Null if the list does not have it. */
  find(vendor: Vendor, model: string): ListedModel | null
  /** The names of the vendor's models for chats that have a price. */
  ids(vendor: Vendor): readonly string[]
}

/**
 * Loads the built-in list (45 ms, 18 MiB).
 * @param today prices are of this day
 */
export async function loadBuiltInList(today: Date): Promise<BuiltInList> {
  const genai = (await import(MODULE)) as Genai
  const found = new Map<string, ListedModel | null>()
  const find = (vendor: Vendor, model: string): ListedModel | null => {
    if (vendor.genai === undefined) return null
    const key = `${vendor.genai} ${model}`
    if (!found.has(key)) found.set(key, findIn(genai, vendor.genai, model, today))
    return found.get(key)!
  }
  return {
    find,
    ids: vendor => {
      const provider = vendor.genai === undefined ? undefined : genai.findProvider({ providerId: vendor.genai })
      const names = (provider?.models ?? [])
        .flatMap(model => namesOf(model))
        .filter(name => !NOT_SOLD[vendor.genai!]?.test(name))
      return [...new Set(names)].filter(name => find(vendor, name)?.chat === true && find(vendor, name)!.price !== null)
    },
  }
}

function findIn(genai: Genai, provider: string, name: string, today: Date): ListedModel | null {
  // An empty usage costs nothing; the call finds the model by the list's own rules.
  const result = genai.calcPrice({}, name, { providerId: provider, timestamp: today })
  if (result === null) return null
  const { model } = result
  const prices = isHourly(model) ? pricesOn(genai, provider, name, today) : [result.model_price]
  const price = dearest(prices.map(priceFrom))
  const uncounted = Object.keys(result.model_price).filter(key => !(key in KEYS))
  return {
    id: model.id,
    price: hasTokens(price) ? price : null,
    changes: changeAfter(model, today),
    hourly: prices.length > 1,
    dated: isDated(genai, provider, name, model),
    context: model.context_window ?? null,
    maxOutput: null,
    reasoning: null,
    chat: hasTokens(price) && !NO_CHATS.test(model.id),
    deprecation: model.deprecated ? { date: null, successor: null } : null,
    uncounted,
    path: [],
    problems: [],
  }
}

/** The list's names for models sold by other vendors, by its name for the vendor. */
const NOT_SOLD: Readonly<Record<string, RegExp>> = {
  openai: /gpt-oss|:|^gpt-\d-\d(?!\d{3})|^gpt-35|-(high|extended)$/,
  anthropic: /\.|claude-v/,
  google: /:|\/|^gemini-(flash|pro)/,
  aws: /^regional\.|^[^.]*$/,
}

/** Names of models that have token prices but do not answer chats. */
export const NO_CHATS =
  /(^|[/.@:-])(realtime|live|transcribe|tts|sonic|voice|whisper|embed|embedding|embeddings|moderation|image|dall-e|imagen|veo|sora|omni|instruct-completion)(?![a-z])|^(ada|babbage|curie|davinci)$|^text-davinci|^gpt-3\.5-turbo-instruct|^ft:|\.ft-$/

const hasTokens = (price: Price): boolean =>
  price.some(({ unit }) => unit === 'input') && price.some(({ unit }) => unit === 'output')

/** The names by which the list finds exactly this model. */
function namesOf({ id, match }: ModelInfo): string[] {
  const equals: string[] = []
  const walk = (logic: ModelInfo['match']): void => {
    if ('or' in logic) logic.or.forEach(walk)
    else if ('equals' in logic) equals.push(logic.equals)
  }
  walk(match)
  return [...new Set([id, ...equals])]
}

/** Whether the list finds the model by the beginning of its name, with any date after it. */
function isDated(genai: Genai, provider: string, name: string, model: ModelInfo): boolean {
  if ('equals' in model.match || ('or' in model.match && model.match.or.every(each => 'equals' in each))) return false
  return ['-20260101', '-2026-01-01', '@20260101'].some(
    day => genai.calcPrice({}, name + day, { providerId: provider })?.model.id === model.id,
  )
}

const isHourly = ({ prices }: ModelInfo): boolean =>
  Array.isArray(prices) && prices.some(({ constraint }) => constraint?.type === 'time_of_date')

/** The different prices within a day. */
function pricesOn(genai: Genai, provider: string, name: string, today: Date): ModelPrice[] {
  const day = Math.floor(today.getTime() / DAY_MS) * DAY_MS
  const every = Array.from({ length: 48 }, (_, half) => new Date(day + half * (DAY_MS / 48) + 1000))
  return [
    ...new Set(every.map(timestamp => genai.calcPrice({}, name, { providerId: provider, timestamp })!.model_price)),
  ]
}

function priceFrom(prices: ModelPrice): Price {
  const source = SOURCE
  return Object.entries(prices).flatMap(([key, value]): PriceRule[] => {
    const known = Object.hasOwn(KEYS, key) ? KEYS[key]! : null
    if (known === null || value === undefined) return []
    const [unit, per] = known
    if (typeof value === 'number') return [ruleOf(unit, value, per, { source })]
    return [
      ruleOf(unit, value.base, per, { source }),
      ...value.tiers.map(({ start, price }) => ruleOf(unit, price, per, { above: start, source })),
    ]
  })
}

function changeAfter({ prices }: ModelInfo, today: Date): string | null {
  if (!Array.isArray(prices)) return null
  const days = prices.flatMap(({ constraint }) => (constraint?.type === 'start_date' ? [constraint.start_date] : []))
  return days.filter(day => new Date(`${day}T00:00:00Z`) > today).sort()[0] ?? null
}
