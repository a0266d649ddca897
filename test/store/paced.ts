/**
 * Measures how late the chunks of a paced stream are while many exchanges hold and settle. The caller checks the figures.
 */
import type { LocalStore } from '../../src/store/local-store.ts'
import { aHold, aSettle } from './requests.ts'

/** The delays of chunks after their planned times. */
export interface Lateness {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export interface PacedOptions {
  readonly store: LocalStore
  readonly accountId: string
  /** The prefix of every exchange's id. */
  readonly prefix: string
  readonly perSecond: number
  readonly durationMs: number
  readonly now: () => number
  /** The milliseconds for which this thread has waited for a core so far. Other load causes this wait, so it is not counted. */
  readonly waited?: () => number
}

const CHUNK_EVERY_MS = 5

/** Resolves when everything is settled. */
export async function pacedChunks({
  store,
  accountId,
  prefix,
  perSecond,
  durationMs,
  now,
  waited = () => 0,
}: PacedOptions): Promise<{
  readonly late: Lateness
  readonly exchanges: number
}> {
  const late: number[] = []
  const charging: Promise<unknown>[] = []
  const begunAt = now()
  let dueAt = begunAt + CHUNK_EVERY_MS
  let waitedMs = waited()
  await new Promise<void>(resolve => {
    const timer = setInterval(() => {
      const at = now()
      late.push(Math.max(0, at - dueAt - (waited() - waitedMs)))
      waitedMs = waited()
      // The next chunk is planned from this time, as a provider would send it: one stall is one late chunk.
      dueAt = at + CHUNK_EVERY_MS
      if (at - begunAt >= durationMs) {
        clearInterval(timer)
        resolve()
        return
      }
      const owed = Math.floor(((at - begunAt) / 1000) * perSecond) - charging.length
      for (let index = 0; index < owed; index++) charging.push(charge(`${prefix}${charging.length}`))
    }, CHUNK_EVERY_MS)
  })
  await Promise.all(charging)
  return { late: summary(late), exchanges: charging.length }

  async function charge(exchange: string): Promise<void> {
    await store.ledger.hold(aHold({ accountId, exchange, amount: 100n }))
    await store.ledger.settle(aSettle({ exchange, amount: 40n }))
  }
}

export function summary(values: number[]): Lateness {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0
  return { p50Ms: at(0.5), p99Ms: at(0.99), maxMs: sorted.at(-1) ?? 0 }
}
