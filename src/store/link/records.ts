/**
 * A hold and a settle as bytes in a mailbox: numbers of 8 bytes (money as 64-bit integers), then the lengths of the texts,
 * then all texts as one, so that they are written and read by one call of the runtime.
 */
import type { HoldRequest, NanoUsd } from '#contract'
import type { SettleRecord } from '../money/settle-record.ts'
import type { Mailbox } from './mailbox.ts'

const HOLD_BYTES = 9 * 8 + 5 * 4
const SETTLE_BYTES = 8 * 8 + 6 * 4
/** In the place of a text's length. */
const NULL = -1

/** Whether an amount is a 64-bit integer. */
export const fits64 = (amount: NanoUsd): boolean => BigInt.asIntN(64, amount) === amount

/** All texts of a hold; null when its record cannot say it: an amount is too large, or a text is none. */
export function holdText({
  exchange,
  accountId,
  keyId,
  model,
  idempotencyKey,
  amount,
  price,
}: HoldRequest): string | null {
  const { input, cachedInput, cacheWrite, output, request, search = 0n } = price
  const isMoney = fits64(amount) && fits64(input) && fits64(cachedInput) && fits64(cacheWrite) && fits64(output)
  if (!isMoney || !fits64(request) || !fits64(search)) return null
  if (!isText(exchange) || !isText(accountId) || !isText(keyId) || !isText(model)) return null
  if (idempotencyKey === null) return exchange + accountId + keyId + model
  return isText(idempotencyKey) ? exchange + accountId + keyId + model + idempotencyKey : null
}

const isText = (value: unknown): boolean => typeof value === 'string'

/** Most bytes of a hold's record: a character of a string takes at most three bytes of UTF-8. */
export const holdBytes = (text: string): number => HOLD_BYTES + 3 * text.length

/** @param text `holdText` of it. Returns the bytes that were written. */
export function writeHold({ bytes, view }: Mailbox, at: number, hold: HoldRequest, text: string): number {
  const { price } = hold
  const to = new Writer(view, at)
  to.money(hold.amount)
  to.number(hold.capTokens)
  to.money(price.input)
  to.money(price.cachedInput)
  to.money(price.cacheWrite)
  to.money(price.output)
  to.money(price.request)
  to.number(price.search === undefined ? 0 : 1)
  to.money(price.search ?? 0n)
  to.lengthOf(hold.exchange)
  to.lengthOf(hold.accountId)
  to.lengthOf(hold.keyId)
  to.lengthOf(hold.model)
  to.lengthOf(hold.idempotencyKey)
  return HOLD_BYTES + bytes.write(text, at + HOLD_BYTES)
}

export function readHold(ring: Mailbox, at: number, length: number): HoldRequest {
  const from = new Reader(ring, at, HOLD_BYTES, length)
  const amount = from.money()
  const capTokens = from.number()
  const price = {
    input: from.money(),
    cachedInput: from.money(),
    cacheWrite: from.money(),
    output: from.money(),
    request: from.money(),
  }
  const hasSearch = from.number() === 1
  const search = from.money()
  const hold: HoldRequest = {
    amount,
    capTokens,
    price: hasSearch ? { ...price, search } : price,
    exchange: from.text()!,
    accountId: from.text()!,
    keyId: from.text()!,
    model: from.text()!,
    idempotencyKey: from.text(),
  }
  from.end()
  return hold
}

/** As `holdText`. */
export function settleText(settle: SettleRecord): string | null {
  const { exchange, source, outcome, code, attempts, trail, amount, overrun } = settle
  if (!fits64(amount) || !fits64(overrun)) return null
  if (!isText(exchange) || !isText(source) || !isText(outcome) || !isText(attempts) || !isText(trail)) return null
  if (code === null) return exchange + source + outcome + attempts + trail
  return isText(code) ? exchange + source + outcome + code + attempts + trail : null
}

export const settleBytes = (text: string): number => SETTLE_BYTES + 3 * text.length

/** @param text `settleText` of it. Returns the bytes that were written. */
export function writeSettle({ bytes, view }: Mailbox, at: number, settle: SettleRecord, text: string): number {
  const to = new Writer(view, at)
  to.money(settle.amount)
  to.money(settle.overrun)
  to.number(settle.promptTokens)
  to.number(settle.cachedTokens)
  to.number(settle.cacheWriteTokens)
  to.number(settle.completionTokens)
  to.number(settle.reasoningTokens)
  to.number(settle.searches ?? 0)
  to.lengthOf(settle.exchange)
  to.lengthOf(settle.source)
  to.lengthOf(settle.outcome)
  to.lengthOf(settle.code)
  to.lengthOf(settle.attempts)
  to.lengthOf(settle.trail)
  return SETTLE_BYTES + bytes.write(text, at + SETTLE_BYTES)
}

export function readSettle(ring: Mailbox, at: number, length: number): SettleRecord {
  const from = new Reader(ring, at, SETTLE_BYTES, length)
  const settle: SettleRecord = {
    amount: from.money(),
    overrun: from.money(),
    promptTokens: from.number(),
    cachedTokens: from.number(),
    cacheWriteTokens: from.number(),
    completionTokens: from.number(),
    reasoningTokens: from.number(),
    searches: from.number(),
    exchange: from.text()!,
    source: from.text() as SettleRecord['source'],
    outcome: from.text() as SettleRecord['outcome'],
    code: from.text() as SettleRecord['code'],
    attempts: from.text()!,
    trail: from.text()!,
  }
  from.end()
  return settle
}

/** Writes numbers one after the other. */
class Writer {
  readonly #view: DataView
  #at: number

  constructor(view: DataView, at: number) {
    this.#view = view
    this.#at = at
  }

  money(amount: NanoUsd): void {
    this.#view.setBigInt64(this.#at, amount, true)
    this.#at += 8
  }

  number(value: number): void {
    this.#view.setFloat64(this.#at, value, true)
    this.#at += 8
  }

  lengthOf(text: string | null): void {
    this.#view.setInt32(this.#at, text === null ? NULL : text.length, true)
    this.#at += 4
  }
}

/** Reads what a `Writer` has written, in the same order, and each text with its length. */
class Reader {
  readonly #view: DataView
  readonly #texts: string
  #at: number
  #used = 0

  constructor(ring: Mailbox, at: number, numbers: number, length: number) {
    this.#view = ring.view
    this.#at = at
    this.#texts = ring.bytes.toString('utf8', at + numbers, at + length)
  }

  money(): NanoUsd {
    this.#at += 8
    return this.#view.getBigInt64(this.#at - 8, true)
  }

  number(): number {
    this.#at += 8
    return this.#view.getFloat64(this.#at - 8, true)
  }

  text(): string | null {
    this.#at += 4
    const length = this.#view.getInt32(this.#at - 4, true)
    if (length === NULL) return null
    this.#used += length
    return this.#texts.substring(this.#used - length, this.#used)
  }

  /** Throws when the lengths of the texts are not that of all together. */
  end(): void {
    if (this.#used !== this.#texts.length) throw new Error('A record in the mailbox is damaged')
  }
}
