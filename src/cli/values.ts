/**
 * Parsers of command line values. Commander calls them, so a mistake is reported with the option and the rule, and ends with
 * exit code 2 before the command starts.
 */
import { InvalidArgumentError } from 'commander'
import { parseSignedMoney } from '../api/signed-money.ts'
import { formatMoney, parseDuration, parseMoney, UnitError } from '../contract/quantities.ts'

/** Parses a positive amount of dollars: `10`, `5.25`, `$0.000000001`. Returns it with 9 decimals, as verbs expect. */
export function moneyValue(text: string): string {
  const amount = asArgument(() => parseMoney(text))
  if (amount === 0n) throw new InvalidArgumentError('It must be more than $0.')
  return formatMoney(amount)
}

/** The same, but negative amounts are allowed: `-5`, `-$5`. */
export function signedMoneyValue(text: string): string {
  const amount = asArgument(() => parseSignedMoney(text))
  if (amount === 0n) throw new InvalidArgumentError('It must not be $0.')
  return formatMoney(amount)
}

/** Parses a span such as `24h` or `0s` to milliseconds. */
export function durationValue(text: string): number {
  return asArgument(() => parseDuration(text))
}

const DAY = /^\d{4}-\d\d-\d\d$/
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d)$/

/**
 * Parses an expiry in the future: a span from now (`30d`), a date (`2027-01-31`: its first moment in UTC), or a time with zone
 * (`2027-01-31T12:00:00Z`). Returns ISO 8601.
 */
export function expiryValue(text: string, nowMs: number): string {
  const at = DAY.test(text) || MOMENT.test(text) ? momentOf(text) : nowMs + spanOf(text)
  if (at <= nowMs) throw new InvalidArgumentError(`${new Date(at).toISOString()} is not in the future.`)
  if (at > Date.UTC(9999, 11, 31))
    throw new InvalidArgumentError('It is after the year 9999; omit the option for never.')
  return new Date(at).toISOString()
}

/** Parses names separated by commas: `a,b`. */
export function listValue(text: string): readonly string[] {
  const names = text.split(',').map(name => name.trim())
  if (names.includes('')) throw new InvalidArgumentError('It must be names separated by commas: a,b')
  return [...new Set(names)]
}

function momentOf(text: string): number {
  const at = Date.parse(text)
  // Date.parse reads the 31st of February as the 3rd of March. A date that does not round-trip does not exist.
  const day = text.slice(0, 10)
  if (Number.isNaN(at) || new Date(`${day}T00:00:00Z`).toISOString().slice(0, 10) !== day) {
    throw new InvalidArgumentError('This date does not exist.')
  }
  return at
}

function spanOf(text: string): number {
  try {
    return parseDuration(text)
  } catch (error) {
    if (!(error instanceof UnitError)) throw error
    throw new InvalidArgumentError(
      'It must be a span from now (30d, 12h) or a time in UTC (2027-01-31, 2027-01-31T12:00Z).',
    )
  }
}

function asArgument<Value>(read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    if (error instanceof UnitError) throw new InvalidArgumentError(`${capitalised(error.message)}.`)
    throw error
  }
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
