/**
 * Amounts in sentences for clients. Many clients retry an error whose text contains the digits of a status: "$0.018557500" reads as
 * 500 to them. So amounts here have at most six decimals, and none of these digits.
 */
import { formatMoney, type NanoUsd } from '#contract'

/** Statuses after which clients try again. */
const STATUS = /408|409|425|429|50[0-4]|52\d/
const DECIMALS = 6
const NANO_DIGITS = 9

/** At least the amount, in dollars: `$0.018558`. Most amounts differ by less than a millionth, no amount by more than about 2 %. */
export const roundedUp = (amount: NanoUsd): string => rounded(amount, 'up')

/** At most the amount, or 0 where it is below 0. */
export const roundedDown = (amount: NanoUsd): string => rounded(amount > 0n ? amount : 0n, 'down')

function rounded(amount: NanoUsd, direction: 'up' | 'down'): string {
  let nano = stepped(amount, 10n ** BigInt(NANO_DIGITS - DECIMALS), direction)
  for (;;) {
    const text = shown(nano)
    const match = STATUS.exec(text)
    if (match === null) return `$${text}`
    // `unit`: the place value of the last matched digit. The next multiple of it, and the largest amount below `least`, have another digit there.
    const decimals = text.length - 1 - text.indexOf('.')
    const at = text.length - (match.index + match[0].length)
    const unit = 10n ** BigInt(NANO_DIGITS - decimals + (at > decimals ? at - 1 : at))
    const least = stepped(nano, unit, 'down')
    nano = direction === 'up' ? least + unit : least - 10n ** BigInt(NANO_DIGITS - DECIMALS)
  }
}

function stepped(amount: NanoUsd, step: bigint, direction: 'up' | 'down'): NanoUsd {
  const rest = amount % step
  return rest === 0n ? amount : amount - rest + (direction === 'up' ? step : 0n)
}

/** With two to six decimals. */
function shown(nano: NanoUsd): string {
  return formatMoney(nano)
    .slice(0, DECIMALS - NANO_DIGITS)
    .replace(/(\.\d\d\d*?)0+$/, '$1')
}
