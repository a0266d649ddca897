/** `price` and `cost`: converts prices from YAML to rules, and checks them. */
import {
  formatMoney,
  isToken,
  type NanoUsd,
  type Price,
  type PriceRule,
  TIERS,
  UNIT_NAMES,
  UNITS,
  type Unit,
} from '#contract'
import { MAX_DOLLARS } from '../catalog/listed-model.ts'
import type { PriceKey, PriceParts, PriceShape, RouteShape } from './file-shapes.ts'
import type { Source } from './yaml/source.ts'

/** The largest amount of a price, for a million tokens or one of another unit. Far above any real price, and far below an overflow of 64-bit sums. */
export const MAX_PRICE: NanoUsd = BigInt(MAX_DOLLARS) * 1_000_000_000n

/** Each key of a price with its unit; `minute` has the unit `second`. */
export const PRICE_KEYS: readonly (readonly [key: PriceKey, unit: Unit])[] = [
  ...UNIT_NAMES.map(unit => [UNITS[unit].key as PriceKey, unit] as const),
  ['minute', 'second'],
]
const MINUTE_MS = 60_000

/** Null for `free`. Prompt or answer tokens without a price cost nothing. */
export function priceFrom(shape: PriceShape | 'free'): Price | null {
  if (shape === 'free') return null
  const scale = shape.per === '1K tokens' ? 1000n : 1n
  return [
    ...rulesOf({ input: 0n, output: 0n, ...shape }, scale),
    ...stepsOf(shape, scale),
    ...TIERS.flatMap(tier => {
      const parts = shape.tier?.[tier]
      if (parts === undefined) return []
      return [...rulesOf(parts, scale, { tier }), ...stepsOf(parts, scale, { tier })]
    }),
  ]
}

type Condition = Pick<PriceRule, 'above' | 'tier'>

function stepsOf({ above = [] }: PriceParts, scale: bigint, condition: Condition = {}): PriceRule[] {
  return above.flatMap(({ tokens, ...parts }) => rulesOf(parts, scale, { ...condition, above: tokens }))
}

function rulesOf(parts: PriceParts, scale: bigint, condition: Condition = {}): PriceRule[] {
  return PRICE_KEYS.flatMap(([key, unit]) => {
    const amount = parts[key]
    if (amount === undefined) return []
    const per = key === 'minute' ? MINUTE_MS : UNITS[unit].per
    return [{ unit, nanos: isToken(unit) ? amount * scale : amount, per, ...condition }]
  })
}

/** Reports prices that can only be typing errors, and steps that contradict each other. */
export function checkPrice(source: Source, at: string, shape: PriceShape | 'auto' | 'free' | undefined): void {
  if (typeof shape !== 'object') return
  const scale = shape.per === '1K tokens' ? 1000n : 1n
  if (shape.second !== undefined && shape.minute !== undefined) {
    source.report(`${at}/minute`, 'a price can have second or minute, not both', { rule: 'useless-key', key: true })
  }
  checkParts(source, at, shape, scale)
  for (const [tier, parts] of Object.entries(shape.tier ?? {})) {
    if (typeof parts === 'object') checkParts(source, `${at}/tier/${tier}`, parts, scale)
  }
}

function checkParts(source: Source, at: string, parts: PriceParts, scale: bigint): void {
  checkSizes(source, at, parts, scale)
  const seen = new Set<number>()
  for (const [index, step] of (Array.isArray(parts.above) ? parts.above : []).entries()) {
    if (typeof step !== 'object' || step === null) continue
    checkSizes(source, `${at}/above/${index}`, step, scale)
    if (step.tokens === undefined) continue
    if (PRICE_KEYS.every(([key]) => !source.mayHave(`${at}/above/${index}/${key}`))) {
      source.report(`${at}/above/${index}`, 'this step has no price', {
        rule: 'no-effect',
        suggestion: 'write a price for tokens above this length, such as "input: $2.50"',
      })
    }
    if (seen.has(step.tokens)) {
      source.report(`${at}/above/${index}/tokens`, `another step also begins above ${step.tokens} tokens`, {
        rule: 'duplicate-entry',
        suggestion: 'write all prices above this length in one step',
      })
    }
    seen.add(step.tokens)
  }
}

function checkSizes(source: Source, at: string, parts: PriceParts, scale: bigint): void {
  for (const [key, unit] of PRICE_KEYS) {
    const amount = parts[key]
    if (typeof amount !== 'bigint' || amount * (isToken(unit) ? scale : 1n) <= MAX_PRICE) continue
    const each = isToken(unit) ? 'per 1M tokens' : `a ${key.replace('web_', '')}`
    source.report(`${at}/${key}`, `${key} is more than $${formatMoney(MAX_PRICE).replace(/\.0+$/, '')} ${each}`, {
      rule: 'out-of-bounds',
    })
  }
}

/** The hold of a raw route must cover its most expensive request, whose cost only the operator knows. */
export function checkHold(source: Source, at: string, { price, hold }: Partial<RouteShape>): void {
  if (price === 'free') {
    if (hold === undefined) return
    source.report(`${at}/hold`, 'a free route has no hold', {
      rule: 'useless-key',
      key: true,
      suggestion: 'remove this line',
    })
  } else if (typeof price === 'object' && hold === undefined) {
    if (source.mayHave(`${at}/hold`)) return
    const key = WITHOUT_CEILING.find(each => (price[each] ?? 0n) > 0n)
    if (key === undefined) return
    source.report(`${at}/price/${key}`, `${key} has no maximum that is known before the answer`, {
      rule: 'no-hold',
      suggestion: 'write the cost of the most expensive request on the route, such as "hold: $0.50"',
    })
  } else if (hold !== undefined && typeof price === 'object' && hold < (price.request ?? 0n)) {
    source.report(`${at}/hold`, 'hold is less than the price of a request', { rule: 'no-hold' })
  } else if (hold === 0n && typeof price === 'object' && paysMore(price)) {
    source.report(`${at}/hold`, 'hold is $0, and a request is never charged more than its hold', {
      rule: 'no-hold',
      suggestion: 'write the cost of the most expensive request, or "price: free"',
    })
  } else if (hold !== undefined && hold > MAX_HOLD) {
    source.report(`${at}/hold`, `hold is more than $${MAX_HOLD / 1_000_000_000n} a request`, { rule: 'out-of-bounds' })
  }
}

/** The amounts of these units are not known from the request. */
const WITHOUT_CEILING = ['output', 'image', 'second', 'minute', 'page'] as const

/** Whether anything besides the request has a price. */
const paysMore = (price: PriceShape) => PRICE_KEYS.some(([key]) => key !== 'request' && (price[key] ?? 0n) > 0n)

/** Far above any real request, and far below an overflow of 64-bit sums. */
const MAX_HOLD: NanoUsd = 100_000n * 1_000_000_000n
