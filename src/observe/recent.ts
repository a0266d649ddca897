/**
 * The last finished exchanges with their trails, in memory, including those that were refused before a hold and have no receipt. A ring:
 * the newest replaces the oldest.
 *
 * Measured cost: 1.2 KiB for an exchange of five steps, 12 MiB when full; 0.1 to 0.3 microseconds to add one. A lookup without a result
 * takes 0.1 milliseconds. The trail and the attempts are not copied. Nothing else of the exchange is kept, so that the memory of its
 * request can be freed.
 */
import type { TrailEntry } from '#contract'
import type { ExchangeSummary } from './summary.ts'

export interface Recent {
  add(exchange: ExchangeSummary): void
  find(id: string): ExchangeSummary | undefined
  /** How many are remembered, how many can be, and how much they take by a careful estimate. */
  readonly size: number
  readonly most: number
  readonly bytes: number
}

export interface RecentLimits {
  readonly exchanges: number
  readonly bytes: number
}

/** Ten seconds of a busy gateway, a day of a quiet one. */
/** The maximum number of exchanges. */
export const MAX_RECENT = 10_000

const LIMITS: RecentLimits = { exchanges: MAX_RECENT, bytes: 16 * 1024 * 1024 }
/** Characters of a note or of an attempt's detail. Longer ones are cut here, in receipts and in the log they are not. */
const MAX_TEXT_LENGTH = 1000

/** An object with its fields, and what of its texts is not shared with others. */
const EXCHANGE_BYTES = 880
const ENTRY_BYTES = 96
const ATTEMPT_BYTES = 56
/** With its place in the list, and the text of a header's name, which is ASCII. */
const DEED_BYTES = 72

export function createRecent({ exchanges: most, bytes: mostBytes }: RecentLimits = LIMITS): Recent {
  const ring: (ExchangeSummary | undefined)[] = new Array<ExchangeSummary | undefined>(most).fill(undefined)
  /** Where the next one goes, and how many there are before it. */
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
    // Asked by people, rarely: looking through them costs less than an index on every exchange.
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
    if (would !== undefined) for (const { header = '' } of would) bytes += DEED_BYTES + header.length
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
  // Without the last word: half of a secret is not found later.
  return { ...exchange, attemptDetails: details.map(detail => detail && withoutLastWord(cut(detail))) }
}

const withoutLastWord = (text: string) => text.replace(/\S*…$/, '…')

/** By way of a buffer: a slice would keep the whole text. */
function cut(text: string): string {
  return text.length <= MAX_TEXT_LENGTH ? text : `${Buffer.from(text.slice(0, MAX_TEXT_LENGTH)).toString()}…`
}
