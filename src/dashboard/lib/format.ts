/**
 * Formats of figures and times. Money is text and bigint, never a floating-point number. Its strings are dollars with 9
 * decimals, as the API sends them.
 */

const NANO = 1_000_000_000n
const MINUS = '\u2212'

/** `$1.25`, `$1,234.50`; below a dollar three significant figures: `$0.0523`, `$0.000034`. Rounded to nearest: for charges. */
export function money(dollars: string): string {
  return written(nano(dollars), NEAREST)
}

/** Rounded down: for balances. `$4.99` for `4.998560000`. */
export function moneyAtLeast(dollars: string): string {
  return written(nano(dollars), AT_MOST)
}

/** All decimals up to the last that is not zero: `$0.000033750`, and `$1.25` for `1.250000000`. */
export function exactMoney(dollars: string): string {
  const value = nano(dollars)
  const size = value < 0n ? -value : value
  const decimals = fraction(size, 9).replace(/0+$/, '').padEnd(2, '0')
  return `${value < 0n ? MINUS : ''}$${grouped(size / NANO)}.${decimals}`
}

/** The format of a column's amounts. */
export interface ColumnOptions {
  /** A balance: rounded down. */
  readonly owned?: boolean | undefined
  /** All decimals of each amount. */
  readonly exact?: boolean | undefined
}

/**
 * The amounts of a column, with aligned decimal points. Amounts below a dollar have as many decimals as the longest of them;
 * others have cents. Figure spaces fill the rest.
 */
export function moneyColumn(column: readonly string[], { owned = false, exact = false }: ColumnOptions = {}): string[] {
  const single = column.map(each => (exact ? exactMoney(each) : owned ? moneyAtLeast(each) : money(each)))
  const most = Math.max(2, ...single.map(text => text.length - text.indexOf('.') - 1))
  return column.map((each, index) => {
    const value = nano(each)
    const isSmall = value !== 0n && value < NANO && value > -NANO
    const text = isSmall && !exact ? rounded(value, most, owned ? AT_MOST : NEAREST) : single[index]!
    return text + FIGURE_SPACE.repeat(most - (text.length - text.indexOf('.') - 1))
  })
}

const FIGURE_SPACE = '\u2007'

/** Nano-dollars of `1.25`. Any other text is zero: the API sends none like it. */
export function nano(dollars: string): bigint {
  const [, minus, whole, decimals] = /^(-?)(\d+)(?:\.(\d{1,9}))?$/.exec(dollars) ?? []
  if (whole === undefined) return 0n
  const value = BigInt(whole) * NANO + BigInt((decimals ?? '').padEnd(9, '0'))
  return minus === '-' ? -value : value
}

/** Nano-dollars in the API's format: `1.250000000`. */
export function dollars(value: bigint): string {
  const size = value < 0n ? -value : value
  return `${value < 0n ? '-' : ''}${size / NANO}.${fraction(size, 9)}`
}

/** The sum of dollar strings. */
export function sum(values: Iterable<string>): string {
  let total = 0n
  for (const value of values) total += nano(value)
  return dollars(total)
}

/** A typed amount (`5`, `$2.50`, `1,000`) as a dollar string; null if it is not an amount. */
export function amountOf(typed: string): string | null {
  const text = typed.trim().replace(/^\$\s*/, '')
  if (!/^(\d+|\d{1,3}(,\d{3})+)(\.\d{1,9})?$/.test(text)) return null
  const plain = text.replaceAll(',', '')
  // More digits exceed the 64 bits of an account.
  return plain.split('.')[0]!.length > 9 ? null : dollars(nano(plain))
}

/** A part of the whole in percent, 0 to 100, for the width of a bar. Never for money itself. */
export function percent(part: bigint, whole: bigint): number {
  if (whole <= 0n || part <= 0n) return 0
  return part >= whole ? 100 : Number((part * 10_000n) / whole) / 100
}

/** `12,345` */
export function count(value: number): string {
  return value.toLocaleString('en')
}

/** `940`, `12.3k`, `1.2M`: for tokens whose exact number is in the title. */
export function compact(value: number): string {
  for (const [size, unit] of [
    [1e9, 'B'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    // 999,950 would be written as 1000.0k: it belongs to the next unit.
    if (value >= size * 0.99995 && value >= 1000) return `${trim(value / size)}${unit}`
  }
  return count(value)
}

/** A limit as gateway.yaml writes it: `128Ki` for 131,072, `128k` for 128,000, otherwise as `compact`. */
export function limit(tokens: number): string {
  if (tokens >= 1000 && tokens % 1000 === 0) return tokens % 1e6 === 0 ? compact(tokens) : `${count(tokens / 1000)}k`
  if (tokens > 0 && tokens % MEBI === 0) return `${count(tokens / MEBI)}Mi`
  return tokens > 0 && tokens % KIBI === 0 ? `${count(tokens / KIBI)}Ki` : compact(tokens)
}

const KIBI = 1024
const MEBI = 1024 * KIBI

/** `340 ms`, `1.2 s`, `2 min 3 s`, `3 h 4 min`, `2 d 5 h` */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 59_950) return `${trim(ms / 1000)} s`
  const seconds = Math.round(ms / 1000)
  if (seconds < 3600) return two(seconds, 60, 'min', 1, 's')
  if (seconds < 86_400) return two(seconds, 3600, 'h', 60, 'min')
  return two(seconds, 86_400, 'd', 3600, 'h')
}

/** `just now`, `3 minutes ago`, `in 6 days` */
export function relative(iso: string, now: number): string {
  const ms = Date.parse(iso) - now
  const size = Math.abs(ms)
  if (size < 10_000) return 'just now'
  for (const [unit, length, from] of UNITS) {
    // Past times are rounded down, future ones to nearest: "in 5 days" for a minute less than 6 is wrong.
    const units = ms < 0 ? Math.floor(size / length) : Math.round(size / length)
    if (size >= from) return RELATIVE.format(Math.sign(ms) * units, unit)
  }
  return RELATIVE.format(Math.round(ms / 1000), 'second')
}

/** A unit, its length, and the shortest time it is used for: days are clearer than months for the first three months. */
const UNITS = [
  ['year', 31_536_000_000, 63_072_000_000],
  ['month', 2_592_000_000, 7_948_800_000],
  ['day', 86_400_000, 86_400_000],
  ['hour', 3_600_000, 3_600_000],
  ['minute', 60_000, 60_000],
] as const
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'always' })
const DATE = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })
const DATE_TIME = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
})

/** `21 Nov 2026`, in the browser's time zone. */
export function date(iso: string): string {
  return DATE.format(new Date(iso))
}

/** `21 Nov 2026, 09:11:23 GMT+1` */
export function dateTime(iso: string): string {
  return DATE_TIME.format(new Date(iso))
}

/** `1 key`, `2 keys` */
export function plural(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`
}

/** Adds to an amount before the part below a unit is cut off, so that the result is rounded. */
type Rounding = (size: bigint, unit: bigint, isBelow: boolean) => bigint

const NEAREST: Rounding = (size, unit) => size + unit / 2n
const AT_MOST: Rounding = (size, unit, isBelow) => (isBelow ? size + unit - 1n : size)

function written(value: bigint, rounding: Rounding): string {
  const text = rounded(value, decimalsFor(value), rounding)
  // Two decimals always; more only without trailing zeros.
  return text.replace(/(\.\d\d\d*?)0+$/, '$1')
}

/** Cents from a dollar on; below it three significant figures. */
function decimalsFor(value: bigint): number {
  const size = value < 0n ? -value : value
  return size === 0n || size >= NANO ? 2 : Math.min(9, Math.max(2, 9 - String(size).length + 3))
}

function rounded(value: bigint, decimals: number, rounding: Rounding): string {
  const isBelow = value < 0n
  const unit = 10n ** BigInt(9 - decimals)
  const size = (rounding(isBelow ? -value : value, unit, isBelow) / unit) * unit
  return `${isBelow ? MINUS : ''}$${grouped(size / NANO)}.${fraction(size, decimals)}`
}

function fraction(size: bigint, decimals: number): string {
  return String(size % NANO)
    .padStart(9, '0')
    .slice(0, decimals)
}

function grouped(value: bigint): string {
  return value.toLocaleString('en')
}

function trim(value: number): string {
  return value.toFixed(1).replace(/\.0$/, '')
}

function two(seconds: number, big: number, bigName: string, small: number, smallName: string): string {
  const rest = Math.floor((seconds % big) / small)
  return `${Math.floor(seconds / big)} ${bigName}${rest === 0 ? '' : ` ${rest} ${smallName}`}`
}
