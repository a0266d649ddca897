/** Exact decimals: converts prices per token to prices per million without floats. */

/** `-?digits[.digits][e±digits]`, as YAML and Python write numbers. */
const NUMBER = /^([+-]?)(\d[\d_]*)?(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/

/** A number as digits and a power of ten; null if the text is not a number. */
export function decimalOf(text: string): { readonly digits: bigint; readonly exponent: number } | null {
  const match = NUMBER.exec(text.trim())
  if (!match || (match[2] === undefined && !match[3])) return null
  const whole = (match[2] ?? '').replaceAll('_', '')
  const decimals = match[3] ?? ''
  const digits = BigInt(`${match[1] === '-' ? '-' : ''}${whole}${decimals}` || '0')
  return { digits, exponent: Number(match[4] ?? 0) - decimals.length }
}

/** The number times a power of ten as an integer, rounded up; null if the text is not a number or is negative. */
export function scaled(text: string, power: number): { readonly value: bigint; readonly exact: boolean } | null {
  const decimal = decimalOf(text)
  if (decimal === null || decimal.digits < 0n) return null
  const exponent = decimal.exponent + power
  if (exponent >= 0) return { value: decimal.digits * 10n ** BigInt(exponent), exact: true }
  const divisor = 10n ** BigInt(-exponent)
  const value = (decimal.digits + divisor - 1n) / divisor
  return { value, exact: value * divisor === decimal.digits }
}

/** Dollars per token to nano-dollars per million tokens: 10^6 tokens, 10^9 nano-dollars. */
export function perMillion(text: string): { readonly value: bigint; readonly exact: boolean } | null {
  return scaled(text, 15)
}

/** An integer, also written like `128000.0`; null if the text is not one. */
export function wholeOf(text: string): number | null {
  const number = scaled(text, 0)
  if (number === null || !number.exact || number.value > BigInt(Number.MAX_SAFE_INTEGER)) return null
  return Number(number.value)
}
