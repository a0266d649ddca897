/**
 * Encodes a hold and a settle in a mailbox. Numbers of 8 bytes (money as 64-bit integers) come first, then the lengths of the texts,
 * then all texts. Thus one call of the runtime decodes all texts.
 */
import type { NanoUsd } from '#contract'
import { type Field, HOLD_FIELDS, type HoldRecord, SETTLE_FIELDS, type SettleRecord } from '../money/ledger-fields.ts'
import type { Mailbox } from './mailbox.ts'

/** Represent null: as the length of a text, and as an amount. A count that is null is NaN. */
const NULL = -1
const NULL_MONEY = -(2n ** 63n)

/** Whether an amount is a 64-bit integer. */
export const fits64 = (amount: NanoUsd): boolean => BigInt.asIntN(64, amount) === amount

type Values = readonly unknown[]

/** Writes and reads the records of one list of fields. */
class RecordForm<Record extends Values> {
  readonly #money: readonly number[]
  readonly #counts: readonly number[]
  readonly #texts: readonly number[]
  /** The size of the numbers and the lengths. */
  readonly #bytes: number
  readonly #isOptional: readonly boolean[]
  readonly #nothing: readonly null[]

  constructor(fields: readonly Field<never>[]) {
    const placesOf = (isOne: (field: Field<never>) => boolean) =>
      fields.flatMap((field, at) => (isOne(field) ? [at] : []))
    this.#money = placesOf(({ kind }) => kind === 'money')
    this.#counts = placesOf(({ kind }) => kind === 'count')
    this.#texts = placesOf(({ kind }) => kind === 'text' || kind === 'json')
    this.#bytes = 8 * (this.#money.length + this.#counts.length) + 4 * this.#texts.length
    this.#isOptional = fields.map(({ optional = false }) => optional)
    this.#nothing = fields.map(() => null)
  }

  /**
   * Maximum number of bytes of a record: a character of a string takes at most three bytes of UTF-8. Null if a record cannot be encoded:
   * an amount is too large, or a text is not a string.
   */
  bytes(record: Record): number | null {
    for (const at of this.#money) {
      const amount = record[at] as NanoUsd | null
      if (amount === null ? !this.#isOptional[at] : !fits64(amount) || amount === NULL_MONEY) return null
    }
    let bytes = this.#bytes
    for (const at of this.#texts) {
      const value = record[at]
      if (typeof value === 'string') bytes += 3 * value.length
      else if (value !== null || !this.#isOptional[at]) return null
    }
    return bytes
  }

  /** Returns the number of written bytes. */
  write({ bytes, view }: Mailbox, begin: number, record: Record): number {
    let to = begin
    for (const at of this.#money) {
      view.setBigInt64(to, (record[at] as NanoUsd | null) ?? NULL_MONEY, true)
      to += 8
    }
    for (const at of this.#counts) {
      view.setFloat64(to, (record[at] as number | null) ?? Number.NaN, true)
      to += 8
    }
    // One by one: a joined string would be created only for this.
    let end = begin + this.#bytes
    for (const at of this.#texts) {
      const value = record[at] as string | null
      view.setInt32(to, value === null ? NULL : value.length, true)
      to += 4
      if (value !== null) end += bytes.write(value, end)
    }
    return end - begin
  }

  /** Throws if the lengths of the texts do not add up to the whole text. */
  read({ bytes, view }: Mailbox, begin: number, length: number): Record {
    const text = bytes.toString('utf8', begin + this.#bytes, begin + length)
    const values: unknown[] = this.#nothing.slice()
    let from = begin
    for (const at of this.#money) {
      const amount = view.getBigInt64(from, true)
      if (amount !== NULL_MONEY) values[at] = amount
      from += 8
    }
    for (const at of this.#counts) {
      const count = view.getFloat64(from, true)
      if (!Number.isNaN(count)) values[at] = count
      from += 8
    }
    let used = 0
    for (const at of this.#texts) {
      const size = view.getInt32(from, true)
      from += 4
      if (size === NULL) continue
      values[at] = text.substring(used, used + size)
      used += size
    }
    if (used !== text.length) throw new Error('A record in the mailbox is damaged')
    return values as unknown as Record
  }
}

export const HOLDS = new RecordForm<HoldRecord>(HOLD_FIELDS)
export const SETTLES = new RecordForm<SettleRecord>(SETTLE_FIELDS)
