/** Texts in memory, each with a time to live. The least recently used ones are evicted. */
import { LRUCache } from 'lru-cache'
import type { Clock, KeyValue } from '#contract'

/** Approximate size of an entry beside its text. */
const ENTRY_BYTES = 256

interface Entry {
  readonly value: string
  readonly until: number
}

export function createKeyValue(clock: Clock, maxBytes: number): KeyValue {
  const entries = new LRUCache<string, Entry>({
    maxSize: Math.max(1, maxBytes),
    sizeCalculation: ({ value }, name) => 2 * (value.length + name.length) + ENTRY_BYTES,
  })
  return {
    get(name) {
      const entry = entries.get(name)
      if (entry === undefined) return undefined
      if (clock.now() < entry.until) return entry.value
      entries.delete(name)
      return undefined
    },
    set(name, value, ttlMs) {
      checkTtl(ttlMs)
      entries.set(name, { value, until: clock.now() + ttlMs })
    },
    delete: name => void entries.delete(name),
  }
}

/** Also checks texts that are kept elsewhere. */
export function checkTtl(ttlMs: number): void {
  if (!(ttlMs > 0 && ttlMs <= Number.MAX_SAFE_INTEGER)) {
    throw new RangeError(`the time to live must be more than 0 ms, not ${ttlMs}`)
  }
}
