/** The services that keep state from one request to the next, and where they keep it. */
import type { Buckets, Cache, Clock, KeyValue, Slots, Versions } from '#contract'
import { createBuckets } from './buckets.ts'
import { createKeyValue } from './key-value.ts'
import { LocalSlots } from './slots.ts'
import { createVersions } from './versions.ts'

/** One for each gateway; it outlives reloads. */
export interface State {
  readonly buckets: Buckets
  readonly slots: Slots
  readonly kv: KeyValue
  readonly versions: Versions
  /** @param configuration a digest of what answers may depend on */
  cacheOf(configuration: string): Cache
  /** How many wait for a slot in this process. */
  queued(): number
  /** Whether a state server answers, and how many calls it did not answer in time. */
  health(): { readonly isUp: boolean; readonly lost: number }
  close(): Promise<void>
}

/** The texts of `kv` take so much memory at most. */
export const KV_BYTES = 16 * 1024 * 1024

/** State in the memory of this process. */
export function createLocalState(clock: Clock): State {
  const slots = new LocalSlots()
  return {
    buckets: createBuckets(clock),
    slots,
    queued: () => slots.waiting,
    kv: createKeyValue(clock, KV_BYTES),
    versions: createVersions(),
    // A new one each time: what it holds may depend on the configuration.
    cacheOf: () => ({ open: (_scope, maxBytes) => createKeyValue(clock, maxBytes) }),
    health: () => ({ isUp: true, lost: 0 }),
    close: async () => {},
  }
}
