/**
 * Parses units as people write them in YAML into the integers that code uses.
 *
 * Money is nano-dollars in `bigint` everywhere: a float is never part of a price or a balance. `k` is 1,000 and `Ki` is 1,024. Each unit
 * has a JSON Schema with the keyword `unit`, by which the loader parses the value before it calls `create`.
 */

/** Nano-dollars: 1 USD = 1_000_000_000n. */
export type NanoUsd = bigint

/** A number of things per time. */
export interface Rate {
  /** The number in one window. */
  readonly amount: number
  /** The window's length in milliseconds. */
  readonly perMs: number
}

/** A text that is not a value of its unit. The message is for the author of the configuration. */
export class UnitError extends Error {
  override readonly name = 'UnitError'
}

const COUNT = /^(\d+(?:\.\d+)?)\s*(k|K|Ki|M|Mi|G|Gi)?$/
const FACTOR: Record<string, number> = { k: 1e3, K: 1e3, Ki: 1024, M: 1e6, Mi: 1024 ** 2, G: 1e9, Gi: 1024 ** 3 }

/** A whole number with an optional suffix: `200k` is 200,000 and `128Ki` is 131,072. */
export function parseCount(text: string | number): number {
  const match = COUNT.exec(String(text).trim())
  if (!match) throw new UnitError(`"${text}" is not a whole number such as 4096, 200k or 128Ki`)
  const value = timesExactly(match[1]!, FACTOR[match[2] ?? ''] ?? 1)
  if (!Number.isSafeInteger(value)) throw new UnitError(`"${text}" is not a whole number`)
  return value
}

/** A decimal text times a whole factor; NaN if the product is not whole. With floats, 1.1 × 3,600,000 is not whole. */
function timesExactly(decimal: string, factor: number): number {
  const [whole, fraction = ''] = decimal.split('.')
  const product = BigInt(whole + fraction) * BigInt(factor)
  const scale = 10n ** BigInt(fraction.length)
  return product % scale === 0n ? Number(product / scale) : Number.NaN
}

const BYTES = /^(\d+(?:\.\d+)?)\s*(k|K|Ki|M|Mi|G|Gi)?B?$/

/** A size in bytes: `4MiB`, `512KiB`, `1048576`. */
export function parseBytes(text: string | number): number {
  const match = BYTES.exec(String(text).trim())
  if (!match) throw new UnitError(`"${text}" is not a size such as 4MiB, 64KiB or 1000`)
  return parseCount(`${match[1]}${match[2] ?? ''}`)
}

const SECONDS = 'seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d'
const PART = `\\d+(?:\\.\\d+)?\\s*(?:milliseconds?|ms|${SECONDS})`
const DURATION = new RegExp(`^${PART}(?:\\s*${PART})*$`)
const PARTS = /(\d+(?:\.\d+)?)\s*([a-z]+)/g
const MS: Readonly<Record<string, number>> = {
  ms: 1,
  millisecond: 1,
  ...{ s: 1000, sec: 1000, second: 1000 },
  ...{ m: 60_000, min: 60_000, minute: 60_000 },
  ...{ h: 3_600_000, hr: 3_600_000, hour: 3_600_000 },
  ...{ d: 86_400_000, day: 86_400_000 },
}

/** Plurals mean the same. */
const msOf = (word: string) => MS[word] ?? MS[word.replace(/s$/, '')]!

/** Parses a time span into milliseconds: `15s`, `10m`, `500ms`, `1h30m`, `30 days`. A number without a unit is refused. */
export function parseDuration(text: string | number): number {
  const written = String(text).trim()
  if (!DURATION.test(written)) throw new UnitError(`"${text}" is not a duration such as 500ms, 15s, 10m, 1h30m or 30d`)
  const parts = Array.from(written.matchAll(PARTS), ([, amount, word]) => timesExactly(amount!, msOf(word!)))
  const ms = parts.reduce((sum, part) => sum + part, 0)
  if (!Number.isSafeInteger(ms)) throw new UnitError(`"${text}" is not a whole number of milliseconds`)
  return ms
}

const RATE = new RegExp(`^(\\S+?)(?:\\s+per|\\s*/)\\s*(\\d+\\s*)?(${SECONDS})$`)

/** A rate: `60 per minute`, `200k/min`, `5 per 10 s`. */
export function parseRate(text: string): Rate {
  const match = RATE.exec(String(text).trim())
  if (!match) throw new UnitError(`"${text}" is not a rate such as "60 per minute" or "200k/hour"`)
  const amount = parseCount(match[1]!)
  const windows = match[2] === undefined ? 1 : Number(match[2])
  if (amount < 1 || windows < 1) throw new UnitError(`"${text}" must allow at least 1`)
  return { amount, perMs: windows * msOf(match[3]!) }
}

const MONEY = /^\$?(\d{1,9})(?:\.(\d{1,9}))?$/
const TOO_MUCH = /^\$?0*[1-9]\d{9,}(?:\.\d{1,9})?$/
/** The sum of several such amounts still fits in 64 bits. */
const LARGEST_AMOUNT = '$999999999.999999999'

/** Parses dollars into nano-dollars, exactly: `$0.15` is 150_000_000n. More than nine decimals are refused, not rounded. */
export function parseMoney(text: string | number): NanoUsd {
  const written = String(text).trim()
  const match = MONEY.exec(written)
  if (!match && TOO_MUCH.test(written)) {
    throw new UnitError(`"${text}" is more than the largest amount of dollars, ${LARGEST_AMOUNT}`)
  }
  if (!match) throw new UnitError(`"${text}" is not an amount of dollars such as $0.15 (at most 9 decimals)`)
  return BigInt(match[1]!) * 1_000_000_000n + BigInt((match[2] ?? '').padEnd(9, '0'))
}

/** Formats nano-dollars for JSON and headers: dollars with 9 decimals, `"0.000450000"`. */
export function formatMoney(nano: NanoUsd): string {
  // A fast path: nearly all charges are below a dollar.
  if (nano >= 0n && nano < 1_000_000_000n) return `0.${(nano + 1_000_000_000n).toString().slice(1)}`
  const digits = (nano < 0n ? -nano : nano).toString().padStart(10, '0')
  return `${nano < 0n ? '-' : ''}${digits.slice(0, -9)}.${digits.slice(-9)}`
}

/** Formats a time span like OpenAI in `x-ratelimit-reset-*`: `1s`, `6m0s`, `120ms`. */
export function formatSpan(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.ceil(ms))}ms`
  const seconds = Math.ceil(ms / 1000)
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60), seconds % 60]
  return `${h ? `${h}h` : ''}${h || m ? `${m}m` : ''}${s}s`
}

/** Names of units for a settings schema, in `{ $ref: 'tollgate:units#/$defs/rate' }` or from `unit()`. */
export type UnitName = 'rate' | 'duration' | 'bytes' | 'tokens' | 'money'

/** The parser of each unit; the loader calls it after the schema has accepted the text. */
export const parseUnit: Record<UnitName, (text: string | number) => unknown> = {
  rate: text => parseRate(String(text)),
  duration: parseDuration,
  bytes: parseBytes,
  tokens: parseCount,
  money: parseMoney,
}

/** The `$id` under which the loader registers the unit schemas. */
export const UNITS_ID = 'tollgate:units'

/** JSON Schemas of the units. The loader defines the keyword `unit`: it parses the value and reports the parser's error. */
export const UNIT_SCHEMAS = {
  $id: UNITS_ID,
  $defs: {
    rate: { type: 'string', unit: 'rate', description: 'A number per time: "60 per minute", "200k/hour".' },
    duration: { type: 'string', unit: 'duration', description: 'A time span: "500ms", "15s", "10m", "1h30m", "30d".' },
    bytes: { type: ['string', 'integer'], unit: 'bytes', description: 'A size: "4MiB", "64KiB", or bytes.' },
    tokens: { type: ['string', 'integer'], unit: 'tokens', description: 'A number of tokens: 4096, "200k", "128Ki".' },
    money: { type: ['string', 'number'], unit: 'money', description: 'Dollars: "$0.15", at most 9 decimals.' },
  },
} as const

/** Returns a reference to a unit for a settings schema: `requests: { ...unit('rate'), description: '…' }`. */
export function unit(name: UnitName): { $ref: string } {
  return { $ref: `${UNITS_ID}#/$defs/${name}` }
}
