/**
 * The price catalog: prices, sizes and deprecations of providers' models. The operator's own list has precedence, then the built-in
 * one, then the family of the model's name, then a default.
 */

import { isToken, type Price } from '#contract'
import { nearest } from '../common/nearest.ts'
import type { DialectName } from '../providers/dialects/dialect-names.ts'
import { type Vendor, vendorNamed } from '../providers/dialects/vendors.ts'
import { BUILT_IN, type BuiltInList, loadBuiltInList } from './built-in-list.ts'
import { familyOf } from './families.ts'
import { type Deprecation, isModelName, type ListedModel, type ListProblem, sourceOf } from './listed-model.ts'
import { jumpsBetween } from './price-jumps.ts'
import { allListedIn, listedIn, type PriceList } from './price-list.ts'

/** A value and its source: the name of a list, `family` or `default`. */
export interface WithSource<T> {
  readonly value: T
  readonly source: string
}

/** A provider's model in the catalog. */
export interface CatalogModel {
  readonly id: string
  /** Null if no list has token prices for chats. Each rule names its list. */
  readonly price: Price | null
  /** The list that the price is from, and its day. */
  readonly source: string
  readonly date: string | null
  readonly changes: string | null
  readonly hourly: boolean
  readonly dated: boolean
  readonly uncounted: readonly string[]
  /** Tokens of prompt and answer together. */
  readonly context: WithSource<number>
  /** Tokens. */
  readonly maxOutput: WithSource<number>
  readonly reasoning: WithSource<boolean>
  readonly chat: boolean
  readonly deprecation: Deprecation | null
  /** Problems of this model in the operator's list. */
  readonly problems: readonly ListProblem[]
}

/** Finds models by vendor and the provider's name. */
export interface PriceCatalog {
  /** The operator's list; null if the configuration has none. */
  readonly list: PriceList | null
  /** The model; null if no list has it. */
  find(vendor: Vendor, model: string): CatalogModel | null
  /** The names of a vendor's chat models with a price that a dialect can use. */
  ids(vendor: Vendor, dialect: DialectName): readonly string[]
  /** The nearest known name; undefined if no name is near. */
  nearest(vendor: Vendor, model: string): string | undefined
}

/** Azure sells OpenAI's models, but its list has few of them. */
const OPENAI = vendorNamed('openai')!

/** Sizes if neither a list nor a family has them, in tokens. */
const DEFAULT = { context: 128 * 1024, longContext: 1024 * 1024, maxOutput: 8192 }

/** The models that a dialect can use, at vendors with models of several makers. */
const MODELS_OF_DIALECT: Readonly<Partial<Record<DialectName, RegExp>>> = {
  gemini: /^(gemini|gemma)/,
  vertex: /^(gemini|gemma)/,
  'vertex-anthropic': /^claude/,
  'bedrock-invoke': /anthropic\.claude/,
}

/**
 * Loads the catalog: 45 ms and 18 MiB, so only for configurations that need it.
 * @param list the operator's list
 * @param accept models (`VENDOR/MODEL`) whose price may be 0 or far from the built-in one
 * @param today prices are of this day
 * @param anyPrice accepts such prices of all models, to compare lists
 */
export async function loadPriceCatalog(
  list: PriceList | null,
  accept: readonly string[],
  today: Date,
  { anyPrice = false }: { readonly anyPrice?: boolean } = {},
): Promise<PriceCatalog> {
  const builtIn = await loadBuiltInList(today)
  const ids = new Map<string, readonly string[]>()
  const idsOf = (vendor: Vendor): readonly string[] => {
    if (!ids.has(vendor.name)) ids.set(vendor.name, allIds(vendor, list, accept, builtIn, today))
    return ids.get(vendor.name)!
  }
  return {
    list,
    find(vendor, model) {
      const own = list === null ? null : listedIn(list, vendor, model)
      const other = builtIn.find(vendor, model)
      if (own === null && other === null) return null
      const jumps = own === null || anyPrice ? [] : jumpsOf(vendor, own, other, accept)
      const isAccepted = accept.includes(`${vendor.name}/${own?.id}`)
      const mistakes = (own?.problems ?? []).filter(({ isAcceptable }) => !(isAcceptable && isAccepted))
      return combined(model, list, own, other, [...mistakes, ...jumps])
    },
    ids: (vendor, dialect) => idsOf(vendor).filter(id => MODELS_OF_DIALECT[dialect]?.test(id) ?? true),
    nearest: (vendor, model) =>
      nearest(model, [...idsOf(vendor), ...(vendor.dialect === 'azure' ? idsOf(OPENAI) : [])]),
  }
}

function allIds(
  vendor: Vendor,
  list: PriceList | null,
  accept: readonly string[],
  builtIn: BuiltInList,
  today: Date,
): readonly string[] {
  const listed = list === null ? [] : allListedIn(list, vendor)
  const offered = listed.filter(({ id, chat, price, problems }) => {
    if (!chat || isRegional(vendor, id)) return false
    // A model with a problem is kept, so that a wildcard reports it.
    if (price === null) return problems.length > 0
    // A free model that the operator has not accepted is a problem only if gateway.yaml names it, so a wildcard omits it.
    return !isFree(price) || problems.length > 0 || accept.includes(`${vendor.name}/${id}`)
  })
  const day = today.toISOString().slice(0, 10)
  const ended = new Set(listed.filter(({ deprecation }) => (deprecation?.date ?? day) < day).map(({ id }) => id))
  return [...new Set([...offered.map(({ id }) => id), ...builtIn.ids(vendor)])].filter(
    // Names of fine-tuned models end with the operator's own name.
    id => isModelName(id) && !ended.has(id) && !id.startsWith('ft:'),
  )
}

/** LiteLLM's names for regions and contracts, such as `eu/gpt-4o`, which no provider accepts. */
const isRegional = ({ name }: Vendor, id: string): boolean => /^(azure|bedrock)/.test(name) && id.includes('/')

function combined(
  name: string,
  list: PriceList | null,
  own: ListedModel | null,
  other: ListedModel | null,
  problems: readonly ListProblem[],
): CatalogModel {
  const builtIn = { ...BUILT_IN, source: sourceOf(BUILT_IN.name, BUILT_IN.date) }
  const listed = own !== null && list !== null ? list : builtIn
  const priced = own?.price != null ? own : (other ?? own)!
  const { source, date } = priced === own ? listed : builtIn
  const family = familyOf(name)
  const ofFamily = <T>(value: T | undefined, rest: T): WithSource<T> =>
    value === undefined ? { value: rest, source: 'default' } : { value, source: 'family' }
  const sourced = <T>(of: (model: ListedModel) => T | null, rest: WithSource<T>): WithSource<T> => {
    const first = own === null ? null : of(own)
    if (first !== null) return { value: first, source: listed.name }
    const second = other === null ? null : of(other)
    return second === null ? rest : { value: second, source: BUILT_IN.name }
  }
  // A price for long prompts implies that they fit.
  const hasSteps = priced.price?.some(({ above = 0 }) => above >= DEFAULT.context) === true
  const otherwise = hasSteps ? DEFAULT.longContext : DEFAULT.context
  const first = sourced(model => model.context, ofFamily(family?.context, otherwise))
  // LiteLLM has the maximum prompt, which is less than the context. A larger value in the built-in list is the context.
  const context =
    other?.context != null && other.context > first.value ? { value: other.context, source: BUILT_IN.name } : first
  const maxOutput = sourced(model => model.maxOutput, ofFamily(family?.maxOutput, DEFAULT.maxOutput))
  return {
    id: priced.id,
    price: priced.price?.map(rule => ({ ...rule, source })) ?? null,
    source,
    date,
    changes: priced.changes,
    hourly: priced.hourly,
    dated: priced.dated,
    uncounted: priced.uncounted,
    context,
    // Some lists have a context below the maximum output, if the context is of the prompt only.
    maxOutput: { ...maxOutput, value: Math.min(maxOutput.value, context.value) },
    reasoning: sourced(model => model.reasoning, ofFamily(family?.reasoning, false)),
    chat: priced.chat,
    deprecation: own?.deprecation ?? other?.deprecation ?? null,
    problems,
  }
}

const isFree = (price: Price): boolean => price.every(({ unit, nanos }) => nanos === 0n || !isToken(unit))

/** A price of 0, or ten times another, is treated as a mistake until the operator accepts it. */
function jumpsOf(
  vendor: Vendor,
  own: ListedModel,
  other: ListedModel | null,
  accept: readonly string[],
): ListProblem[] {
  const name = `${vendor.name}/${own.id}`
  if (own.price === null || accept.includes(name)) return []
  const suggestion = `if the price is right, write "accept: [${name}]" below catalog`
  const before = other?.price ?? null
  if (before === null && isFree(own.price)) {
    return [{ path: own.path, message: `${name} is free in the price list`, suggestion }]
  }
  return jumpsBetween(own.price, before, name).map(message => ({ path: own.path, message, suggestion }))
}
