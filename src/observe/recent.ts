/**
 * The recent exchanges: a ring buffer in memory, with trails. It includes exchanges that were refused before a hold, which have no
 * receipt.
 *
 * Measured: an exchange of five steps takes 1.2 KiB, so a full ring takes 12 MiB. Adding takes 0.1 to 0.3 µs, a failed search 0.1 ms.
 * Trails and attempts are shared with the exchange, not copied. Nothing else of the exchange is kept, so requests are freed.
 */
import type { TrailEntry } from '#contract'
import type { ExchangeSummary } from './summary.ts'

export interface Recent {
  add(exchange: ExchangeSummary): void
  find(id: string): ExchangeSummary | undefined
  /** The number of exchanges, its maximum, and a conservative estimate of their memory. */
  readonly size: number
  readonly most: number
  readonly bytes: number
}

export interface RecentLimits {
  readonly exchanges: number
  readonly bytes: number
}

/** Maximum number of exchanges: ten seconds of a busy gateway, a day of a quiet one. */
export const MAX_RECENT = 10_000

const LIMITS: RecentLimits = { exchanges: MAX_RECENT, bytes: 16 * 1024 * 1024 }
/** Characters of a note or of an attempt's detail. Longer ones are cut here, but not in receipts or the log. */
const MAX_TEXT_LENGTH = 1000

/** An object with its fields and the texts that are not shared. */
const EXCHANGE_BYTES = 880
const ENTRY_BYTES = 96
const ATTEMPT_BYTES = 56
/** An entry of `would` with its place in the list; the name of its header, which is ASCII, is added. */
const WOULD_BYTES = 72

export function createRecent({ exchanges: most, bytes: mostBytes }: RecentLimits = LIMITS): Recent {
  const ring: (ExchangeSummary | undefined)[] = new Array<ExchangeSummary | undefined>(most).fill(undefined)
  /** The index of the next exchange; `size` exchanges precede it. */
  let next = 0
  let size = 0
  let bytes = 0

  function dropOldest(): void {
    const at = (next - size + most) % most
    bytes -= bytesOf(ring[at]!)
    ring[at] = undefined
    size--
  }

  return {
    add(given) {
      const exchange = withShortDetails(withShortNotes(given))
      if (size === most) dropOldest()
      ring[next] = exchange
      next = (next + 1) % most
      size++
      bytes += bytesOf(exchange)
      while (bytes > mostBytes && size > 0) dropOldest()
    },
    // Only people search, and rarely, so a scan costs less than an index of all exchanges.
    find: id => ring.find(exchange => exchange?.id === id),
    get size() {
      return size
    },
    most,
    get bytes() {
      return bytes
    },
  }
}

function bytesOf({ trail, attempts, attemptDetails, tags }: ExchangeSummary): number {
  let bytes = EXCHANGE_BYTES + trail.length * ENTRY_BYTES + attempts.length * ATTEMPT_BYTES
  for (let at = 0; at < trail.length; at++) {
    const { note, would } = trail[at]!
    if (note !== undefined) bytes += 24 + 2 * note.length
    if (would !== undefined) for (const { header = '' } of would) bytes += WOULD_BYTES + header.length
  }
  if (attemptDetails !== null) for (const detail of attemptDetails) bytes += 24 + 2 * (detail?.length ?? 0)
  if (tags !== null) for (const name in tags) bytes += 48 + 2 * tags[name]!.length
  return bytes
}

function withShortNotes(exchange: ExchangeSummary): ExchangeSummary {
  if (!exchange.trail.some(isLong)) return exchange
  return { ...exchange, trail: exchange.trail.map(entry => (isLong(entry) ? shortened(entry) : entry)) }
}

const isLong = ({ note }: TrailEntry): boolean => note !== undefined && note.length > MAX_TEXT_LENGTH

const shortened = (entry: TrailEntry): TrailEntry => ({ ...entry, note: cut(entry.note!) })

function withShortDetails(exchange: ExchangeSummary): ExchangeSummary {
  const { attemptDetails: details } = exchange
  if (!details?.some(detail => (detail?.length ?? 0) > MAX_TEXT_LENGTH)) return exchange
  // The last word is removed: the redactor would not find half of a secret later.
  return { ...exchange, attemptDetails: details.map(detail => detail && withoutLastWord(cut(detail))) }
}

const withoutLastWord = (text: string) => text.replace(/\S*…$/, '…')

/** Cuts through a buffer, because a slice would keep the whole text alive. */
function cut(text: string): string {
  return text.length <= MAX_TEXT_LENGTH ? text : `${Buffer.from(text.slice(0, MAX_TEXT_LENGTH)).toString()}…`
}
