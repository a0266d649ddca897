/** Finds prices that are probably mistakes: 0, or far from those of the built-in list. */
import { formatMoney, isToken, type NanoUsd, type Price, type PriceRule, ruleFor, UNITS, type Unit } from '#contract'
import { CACHES, nanosFor } from './listed-model.ts'

/**
 * A sentence for each price of a model that is 0, or more than ten times higher or lower than in the built-in list. Compares
 * every prompt length and service tier.
 * @param before null if the built-in list has no price of the model
 * @param name of the model, for messages
 */
export function jumpsBetween(price: Price, before: Price | null, name: string): string[] {
  const found = new Map<PriceRule, string>()
  for (const { unit, above, tier } of [...price, ...(before ?? [])]) {
    const input = (above ?? -1) + 1
    const rule = ruleFor(price, unit, input, tier)
    // A unit that has the price of its whole is compared with the whole.
    if (rule === undefined || rule.unit !== unit || found.has(rule)) continue
    const now = nanosFor(rule)
    const known = before === null ? undefined : ruleFor(before, unit, input, tier)
    const then = known === undefined ? null : nanosFor(known)
    const isOwn = known?.unit === unit
    if (now === 0n ? isWrongZero(price, unit, then, isOwn) : isOwn && isFar(now, then!)) {
      found.set(rule, `${labelOf(rule)} of ${name} ${sentenceOf(unit, now, then)}`)
    }
  }
  return [...found.values()]
}

/** @param isOwn whether the built-in list has a rule for the unit itself */
function isWrongZero(price: Price, unit: Unit, then: NanoUsd | null, isOwn: boolean): boolean {
  if (CACHES.includes(unit)) return isOwn && then! > 0n
  if (then !== null) return then > 0n
  const wholes = UNITS[unit].wholes
  return unit === 'input' || unit === 'output' || price.some(rule => wholes.includes(rule.unit) && rule.nanos > 0n)
}

const isFar = (now: NanoUsd, then: NanoUsd): boolean => then > 0n && (now > then * 10n || then > now * 10n)

/** `input`, `output above 200000 tokens (priority)`. */
function labelOf({ unit, above, tier }: PriceRule): string {
  return UNITS[unit].key + (above === undefined ? '' : ` above ${above} tokens`) + (tier ? ` (${tier})` : '')
}

function sentenceOf(unit: Unit, now: NanoUsd, then: NanoUsd | null): string {
  const { per, one, many } = UNITS[unit]
  const amount = isToken(unit) ? '1M tokens' : per === 1 ? `a ${one}` : `${per} ${many}`
  const own = now === 0n ? 'is free in the price list' : `costs $${formatMoney(now)} for ${amount} in the price list`
  return then === null ? own : `${own}, and $${formatMoney(then)} in the built-in one`
}
