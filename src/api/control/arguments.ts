/**
 * Reads the arguments of a verb, from a command line or over a socket. Each is checked, and unknown ones are refused: a mistyped argument
 * must not be ignored.
 */
import { type NanoUsd, parseMoney, UnitError } from '#contract'
import { parseSignedMoney } from '../signed-money.ts'

/** A mistake in the call of a verb. Its message is for people. */
export class VerbError extends Error {
  override readonly name = 'VerbError'
}

export interface Arguments {
  /** A text of 1 to 200 characters on one line, without spaces around it. */
  name(key: string): string
  /** A list of names, at least one. */
  names(key: string): readonly string[]
  /** Dollars as a string, above 0: `"5.25"`. */
  money(key: string): NanoUsd
  /** Dollars as a string, also negative, but not 0: `"-5.25"`. */
  signedMoney(key: string): NanoUsd
  /** A time as ISO 8601; milliseconds since the epoch. */
  time(key: string): number
  /** A whole number of milliseconds from 0 to `most`. */
  milliseconds(key: string, most: number): number
  /** Undefined: the argument is missing or null. */
  optional<Value>(key: string, read: (key: string) => Value): Value | undefined
  /** Undefined: the argument is missing. Null removes the value. */
  nullable<Value>(key: string, read: (key: string) => Value): Value | null | undefined
  /** Refuses arguments that were not read. */
  end(): void
}

const MAX_NAME_LENGTH = 200
/** Control, direction and unassigned characters, which could change the display of a terminal or a log line. */
const INVISIBLE = /[\p{C}\p{Zl}\p{Zp}]/u

/** Creates a reader for the arguments of a call. Mistakes throw a `VerbError` with the verb, the argument and the rule. */
export function readArguments(verb: string, args: Readonly<Record<string, unknown>>): Arguments {
  const unread = new Set(Object.keys(args))
  const wrong = (key: string, rule: string): VerbError => new VerbError(`${verb}: "${key}" ${rule}`)
  const take = (key: string): unknown => {
    unread.delete(key)
    return Object.hasOwn(args, key) ? args[key] : undefined
  }
  const text = (key: string, value: unknown): string => {
    if (value === undefined || value === null) throw wrong(key, 'is missing')
    if (typeof value !== 'string') throw wrong(key, 'must be a text')
    if (value.trim() === '') throw wrong(key, 'is empty')
    if (value.length > MAX_NAME_LENGTH) throw wrong(key, `is longer than ${MAX_NAME_LENGTH} characters`)
    if (INVISIBLE.test(value)) throw wrong(key, 'has line breaks or characters that cannot be seen')
    if (value !== value.trim()) throw wrong(key, 'has spaces around it')
    return value
  }

  const amountOf = (key: string, parse: (text: string) => NanoUsd, rule: string): NanoUsd => {
    const value = text(key, take(key))
    let amount: NanoUsd
    try {
      amount = parse(value)
    } catch (error) {
      if (error instanceof UnitError) throw wrong(key, `is wrong: ${error.message}`)
      throw error
    }
    if (amount === 0n) throw wrong(key, rule)
    return amount
  }

  const orNull = <Value>(key: string, read: (key: string) => Value): Value | null | undefined => {
    const value = Object.hasOwn(args, key) ? args[key] : undefined
    if (value !== null && value !== undefined) return read(key)
    unread.delete(key)
    return value
  }

  return {
    name: key => text(key, take(key)),
    names(key) {
      const value = take(key)
      if (!Array.isArray(value) || value.length === 0) throw wrong(key, 'must be a list of at least one name')
      return value.map(item => text(key, item))
    },
    money: key => amountOf(key, parseMoney, 'must be more than $0'),
    signedMoney: key => amountOf(key, parseSignedMoney, 'must not be $0'),
    time(key) {
      const value = text(key, take(key))
      const ms = Date.parse(value)
      if (!/^\d{4}-\d\d-\d\dT/.test(value) || Number.isNaN(ms)) throw wrong(key, 'must be a time in ISO 8601')
      return ms
    },
    milliseconds(key, most) {
      const value = take(key)
      if (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > most) {
        throw wrong(key, `must be a whole number of milliseconds from 0 to ${most}`)
      }
      return value as number
    },
    optional: (key, read) => orNull(key, read) ?? undefined,
    nullable: orNull,
    end() {
      if (unread.size > 0) throw wrong([...unread].join('", "'), 'is not an argument of this verb')
    },
  }
}
