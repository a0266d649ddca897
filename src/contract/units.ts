/**
 * Units that providers bill, usage, prices and costs. Only this file multiplies prices. Names and meaning follow
 * `@pydantic/genai-prices`. Money is nano-dollars in `bigint`.
 */
import type { NanoUsd } from './quantities.ts'

interface UnitRow {
  /** Its key under `price` in YAML. */
  readonly key: string
  /** The name of its count in receipts, logs and columns of the store; null: the count is in `units`. */
  readonly field: string | null
  /** The number of units that a price in YAML covers; a token price states it in `per`. */
  readonly per: number
  /** Singular and plural, for people. */
  readonly one: string
  readonly many: string
  /** The units that contain this one, nearest first. A unit without a price costs what the first of these with a price costs. */
  readonly wholes: readonly Unit[]
}

const PER_MILLION = 1_000_000
const token = (field: string | null, key: string, what: string, ...wholes: readonly Unit[]): UnitRow => ({
  key,
  field,
  per: PER_MILLION,
  one: `token ${what}`,
  many: `tokens ${what}`,
  wholes,
})
const single = (key: string, one: string, many: string, per = 1): UnitRow => ({
  key,
  field: key === 'web_search' ? 'searches' : null,
  per,
  one,
  many,
  wholes: [],
})

/** A unit that providers bill. */
export type Unit =
  | 'input'
  | 'cached_input'
  | 'cache_write'
  | 'cache_write_1h'
  | 'input_audio'
  | 'cached_audio'
  | 'input_image'
  | 'output'
  | 'reasoning'
  | 'output_audio'
  | 'output_image'
  | 'image'
  | 'second'
  | 'character'
  | 'page'
  | 'search'
  | 'request'

/** All units. The count of a whole includes its parts: `input` includes cached tokens, and `output` includes reasoning tokens. */
export const UNITS: Readonly<Record<Unit, UnitRow>> = {
  input: token('prompt_tokens', 'input', 'of the prompt'),
  cached_input: token('cached_tokens', 'cached_input', 'from a cache', 'input'),
  cache_write: token('cache_write_tokens', 'cache_write', 'written to a cache', 'input'),
  cache_write_1h: token(null, 'cache_write_1h', 'written to a cache for an hour', 'cache_write', 'input'),
  input_audio: token(null, 'input_audio', 'of sound in the prompt', 'input'),
  cached_audio: token(null, 'cached_audio', 'of sound from a cache', 'cached_input', 'input_audio', 'input'),
  input_image: token(null, 'input_image', 'of pictures in the prompt', 'input'),
  output: token('completion_tokens', 'output', 'of the answer'),
  reasoning: token('reasoning_tokens', 'reasoning', 'of reasoning', 'output'),
  output_audio: token(null, 'output_audio', 'of sound in the answer', 'output'),
  output_image: token(null, 'output_image', 'of pictures in the answer', 'output'),
  image: single('image', 'image', 'images'),
  // Counted in milliseconds.
  second: single('second', 'millisecond', 'milliseconds', 1000),
  character: single('character', 'character', 'characters', PER_MILLION),
  page: single('page', 'page', 'pages'),
  search: single('web_search', 'search', 'searches'),
  request: single('request', 'request', 'requests'),
}

/** All units, in the order of receipts. */
export const UNIT_NAMES = Object.keys(UNITS) as readonly Unit[]

/** Units that are not part of another one. */
export const WHOLES: readonly Unit[] = UNIT_NAMES.filter(unit => UNITS[unit].wholes.length === 0)

/** Whether a price of this unit in YAML is for `per` tokens. */
export const isToken = (unit: Unit): boolean => UNITS[unit].one.startsWith('token')

/** Service tiers with prices of their own, besides the default tier. */
export const TIERS = ['flex', 'priority', 'batch'] as const
/** A service tier. */
export type Tier = (typeof TIERS)[number]

/** Whole numbers by unit. A missing unit was not used. Seconds are in milliseconds. */
export type Counts = { readonly [unit in Unit]?: number }

/** The units that a request used. */
export interface Usage extends Counts {
  /** The tier in which the provider answered; left out: the default tier. */
  readonly tier?: Tier
}

/** The price of one unit. If several rules of a unit apply, the most specific counts: first by tier, then by the largest `above`. */
export interface PriceRule {
  readonly unit: Unit
  /** The price of `per` units. */
  readonly nanos: NanoUsd
  readonly per: number
  /** Applies to requests whose prompt has more tokens than this, including cached and written ones; it then covers the whole request. */
  readonly above?: number
  readonly tier?: Tier
  /** The price list and its day; left out: the price is from gateway.yaml. */
  readonly source?: string
}

/** Copied into the hold, so a reload cannot change a bill. A unit without a rule costs what its whole costs, or nothing. */
export type Price = readonly PriceRule[]

/** A line of a cost. */
export interface CostLine {
  readonly unit: Unit
  readonly quantity: number
  /** The price of `per` units. */
  readonly rate: NanoUsd
  readonly per: number
  /** In millionths of a nano-dollar, rounded down. */
  readonly amount: bigint
}

/** An amount and its lines. */
export interface Cost {
  readonly lines: readonly CostLine[]
  /** The total minus the sum of the lines, in millionths of a nano-dollar. */
  readonly rounding: bigint
  /** Rounded up once. */
  readonly total: NanoUsd
}

/** The cost of nothing. */
export const NO_COST: Cost = { lines: [], rounding: 0n, total: 0n }

/** A multiple of every `per`, so that all amounts can be added before rounding. */
const DENOMINATOR = 3_000_000n
const TO_MILLIONTHS = DENOMINATOR / 1_000_000n

/** Returns the cost of usage. Its parts must fit their wholes (`fitted`). A request counts once, even if the usage does not list it. */
export function cost(usage: Usage, price: Price): Cost {
  const rules = rulesFor(price, usage.input ?? 0, usage.tier)
  const lines: Line[] = []
  let sum = 0n
  // By index, here and below: before V8 has optimised it, a loop with `of` allocates an object in each round.
  for (let at = 0; at < UNIT_NAMES.length; at++) {
    const unit = UNIT_NAMES[at]!
    const rule = rules[unit]
    if (rule === undefined || (usage[unit] === undefined && unit !== 'request')) continue
    const quantity = unit === 'request' ? (usage.request ?? 1) : ownCount(usage, unit)
    // A part without a rule is charged with its whole.
    if (!(quantity <= 0)) sum += charge(lines, rule, rule.unit, quantity)
  }
  return added(lines, sum)
}

/**
 * Returns the highest possible cost of usage within bounds. Each whole costs the most expensive rule that it or one of its parts can
 * reach, in any tier.
 * @param bound the maximum of `input`, `output`, and each other unit that is not part of one
 */
export function ceiling(bound: Counts, price: Price): Cost {
  const lines: Line[] = []
  let sum = 0n
  for (let at = 0; at < WHOLES.length; at++) {
    const unit = WHOLES[at]!
    const quantity = unit === 'request' ? (bound.request ?? 1) : (bound[unit] ?? 0)
    if (quantity <= 0) continue
    const rule = dearestRule(price, unit, bound)
    if (rule !== undefined) sum += charge(lines, rule, unit, quantity)
  }
  return added(lines, sum)
}

/** Returns the most expensive rule that a whole or one of its parts can reach within the bound; undefined: it is free. */
export function dearestRule(price: Price, whole: Unit, { input = 0 }: Counts): PriceRule | undefined {
  const { steps, dearest: ofSteps } = cachedFor(price)
  const ofStep = (ofSteps[stepOf(steps, input)] ??= {})
  if (whole in ofStep) return ofStep[whole]
  let dearest: PriceRule | undefined
  for (const rule of price) {
    if (rule.unit !== whole && !UNITS[rule.unit].wholes.includes(whole)) continue
    if (rule.above !== undefined && input <= rule.above) continue
    if (dearest === undefined || scaledRate(rule) > scaledRate(dearest)) dearest = rule
  }
  ofStep[whole] = dearest
  return dearest
}

/** Returns how many units of a whole an amount pays for at the most expensive rule; infinity if they are free. */
export function affordable(amount: NanoUsd, price: Price, whole: Unit, bound: Counts): number {
  const rule = dearestRule(price, whole, bound)
  return rule === undefined || rule.nanos === 0n
    ? Number.POSITIVE_INFINITY
    : Number((amount * DENOMINATOR) / scaledRate(rule))
}

type Line = { -readonly [Name in keyof CostLine]: CostLine[Name] }

/** Adds units to the line of their rule. Returns their amount multiplied by `DENOMINATOR`. */
function charge(lines: Line[], rule: PriceRule, unit: Unit, quantity: number): bigint {
  const { nanos: rate, per } = rule
  if (unit === 'request' && rate === 0n) return 0n
  const amount = BigInt(quantity) * scaledRate(rule)
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at]!
    if (line.unit !== unit) continue
    line.quantity += quantity
    line.amount = (BigInt(line.quantity) * scaledRate(rule)) / TO_MILLIONTHS
    return amount
  }
  lines.push({ unit, quantity, rate, per, amount: amount / TO_MILLIONTHS })
  return amount
}

function added(lines: readonly CostLine[], sum: bigint): Cost {
  let shown = 0n
  for (let at = 0; at < lines.length; at++) shown += lines[at]!.amount
  const total = (sum + DENOMINATOR - 1n) / DENOMINATOR
  return { lines, rounding: total * 1_000_000n - shown, total }
}

const scaledRates = new WeakMap<PriceRule, bigint>()

function scaledRate(rule: PriceRule): bigint {
  let rate = scaledRates.get(rule)
  if (rate === undefined) {
    rate = rule.nanos * (DENOMINATOR / BigInt(rule.per))
    scaledRates.set(rule, rate)
  }
  return rate
}

/** The rule that applies to each unit: its own, or that of a whole. */
type Rules = { readonly [unit in Unit]?: PriceRule }

/** Values derived from the price and the steps that a prompt reaches. Cached, because every request needs them. */
interface PriceCache {
  /** All values of `above`, lowest first. */
  readonly steps: readonly number[]
  /** Indexed by `stepOf` and tier. */
  readonly rules: (Rules | undefined)[]
  /** Indexed by `stepOf`. */
  readonly dearest: ({ [whole in Unit]?: PriceRule | undefined } | undefined)[]
}

const caches = new WeakMap<Price, PriceCache>()

function cachedFor(price: Price): PriceCache {
  let found = caches.get(price)
  if (found === undefined) {
    const steps = new Set(price.map(({ above }) => above).filter(above => above !== undefined))
    found = { steps: [...steps].sort((one, other) => one - other), rules: [], dearest: [] }
    caches.set(price, found)
  }
  return found
}

/** Returns the number of steps that a prompt reaches. */
function stepOf(steps: readonly number[], input: number): number {
  let reached = 0
  while (reached < steps.length && !(input <= steps[reached]!)) reached++
  return reached
}

function rulesFor(price: Price, input: number, tier: Tier | undefined): Rules {
  const { steps, rules } = cachedFor(price)
  const at = stepOf(steps, input) * (TIERS.length + 1) + (tier === undefined ? 0 : TIERS.indexOf(tier) + 1)
  return (rules[at] ??= findRules(price, input, tier))
}

function findRules(price: Price, input: number, tier: Tier | undefined): Rules {
  const best: { [unit in Unit]?: PriceRule } = {}
  for (const rule of price) {
    if (rule.above !== undefined && input <= rule.above) continue
    if (rule.tier !== undefined && rule.tier !== tier) continue
    const other = best[rule.unit]
    if (other === undefined || isCloser(rule, other)) best[rule.unit] = rule
  }
  const rules: { [unit in Unit]?: PriceRule } = {}
  for (const unit of UNIT_NAMES) {
    const rule = best[unit] ?? UNITS[unit].wholes.map(whole => best[whole]).find(Boolean)
    if (rule !== undefined) rules[unit] = rule
  }
  return rules
}

function isCloser(rule: PriceRule, other: PriceRule): boolean {
  if ((rule.tier === undefined) !== (other.tier === undefined)) return rule.tier !== undefined
  return (rule.above ?? -1) > (other.above ?? -1)
}

/** Returns the units that are in none of the unit's parts. */
function ownCount(usage: Usage, unit: Unit): number {
  const count = usage[unit] ?? 0
  switch (unit) {
    case 'input': {
      const parts =
        (usage.cached_input ?? 0) + (usage.cache_write ?? 0) + (usage.input_audio ?? 0) + (usage.input_image ?? 0)
      // Cached sound is part of both.
      return count - parts + (usage.cached_audio ?? 0)
    }
    case 'cached_input':
    case 'input_audio':
      return count - (usage.cached_audio ?? 0)
    case 'cache_write':
      return count - (usage.cache_write_1h ?? 0)
    case 'output':
      return count - (usage.reasoning ?? 0) - (usage.output_audio ?? 0) - (usage.output_image ?? 0)
    default:
      return count
  }
}

/** Returns usage whose parts fit their wholes. Excess is cut, in the order of the units. */
export function fitted(usage: Usage): Usage {
  const { input = 0, output = 0 } = usage
  const cached = Math.min(usage.cached_input ?? 0, input)
  const written = Math.min(usage.cache_write ?? 0, input - cached)
  const cachedAudio = Math.min(usage.cached_audio ?? 0, cached)
  const rest = input - cached - written
  const audio = Math.min(Math.max(usage.input_audio ?? 0, cachedAudio), rest + cachedAudio)
  const reasoning = Math.min(usage.reasoning ?? 0, output)
  const outputAudio = Math.min(usage.output_audio ?? 0, output - reasoning)
  const fits: Writable = { ...usage }
  set(fits, 'cached_input', cached)
  set(fits, 'cache_write', written)
  set(fits, 'cache_write_1h', Math.min(usage.cache_write_1h ?? 0, written))
  set(fits, 'input_audio', audio)
  set(fits, 'cached_audio', cachedAudio)
  set(fits, 'input_image', Math.min(usage.input_image ?? 0, rest - (audio - cachedAudio)))
  set(fits, 'reasoning', reasoning)
  set(fits, 'output_audio', outputAudio)
  set(fits, 'output_image', Math.min(usage.output_image ?? 0, output - reasoning - outputAudio))
  return withoutZeros(fits)
}

type Writable = { -readonly [Name in keyof Usage]: Usage[Name] }

/** Skips unchanged counts: most usage has few parts, and absent fields take no memory. */
function set(usage: Writable, unit: Unit, count: number): void {
  if ((usage[unit] ?? 0) !== count) usage[unit] = count
}

/** Removes units that were not used. */
export function withoutZeros(usage: Usage): Usage {
  const used: Writable = {}
  for (let at = 0; at < UNIT_NAMES.length; at++) set(used, UNIT_NAMES[at]!, usage[UNIT_NAMES[at]!] || 0)
  if (usage.tier !== undefined) used.tier = usage.tier
  return used
}

/** Returns the rule that applies to a unit, its own or that of a whole; undefined: it is free. */
export function ruleFor(price: Price, unit: Unit, input = 0, tier?: Tier): PriceRule | undefined {
  return rulesFor(price, input, tier)[unit]
}

/** Returns the price of a unit in an ordinary request, for `per` units of its rule. A part without a rule costs what its whole costs. */
export function rateOf(price: Price, unit: Unit): NanoUsd {
  return ruleFor(price, unit)?.nanos ?? 0n
}

/**
 * Returns the margin between price and cost of a unit, in percent of the price, rounded down to a tenth. Null: the price is 0.
 * @param price the unit's rule, as from `ruleFor`; undefined: it is free
 */
export function marginOf(price: PriceRule | undefined, cost: PriceRule | undefined): number | null {
  const [ours, theirs] = [price, cost].map(rule => (rule === undefined ? 0n : scaledRate(rule))) as [bigint, bigint]
  if (ours === 0n) return null
  const part = (ours - theirs) * 1000n
  // Division of bigint rounds towards 0.
  return Number(part / ours - (part % ours < 0n ? 1n : 0n)) / 10
}

/** Whether a rule charges for one of these units, or for a part of one. */
export function paysFor(price: Price, ...units: readonly Unit[]): boolean {
  return price.some(
    ({ unit, nanos }) =>
      nanos > 0n && (units.includes(unit) || UNITS[unit].wholes.some(whole => units.includes(whole))),
  )
}

/** Creates a price without `above` and `tier` from nano-dollars by unit: per million tokens or characters, per second. */
export function plainPrice(rates: { readonly [unit in Unit]?: NanoUsd }): Price {
  return UNIT_NAMES.flatMap(unit => {
    const nanos = rates[unit]
    return nanos === undefined ? [] : [{ unit, nanos, per: UNITS[unit].per }]
  })
}
