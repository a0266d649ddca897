/** The services that keep state between requests, and where they keep it. */
import type { Buckets, Cache, Clock, KeyValue, Slots, Versions } from '#contract'
import { createBuckets } from './buckets.ts'
import { createKeyValue } from './key-value.ts'
import { LocalSlots } from './slots.ts'
import { createVersions } from './versions.ts'

/** One for each gateway; it survives reloads. */
export interface State {
  readonly buckets: Buckets
  readonly slots: Slots
  readonly kv: KeyValue
  readonly versions: Versions
  /** @param configuration a digest of everything that answers may depend on */
  cacheOf(configuration: string): Cache
  /** The number of exchanges that wait for a slot in this process. */
  queued(): number
  /** Whether a state server answers, and the number of calls that it did not answer in time. */
  health(): { readonly isUp: boolean; readonly lost: number }
  close(): Promise<void>
}

/** Maximum memory of the texts of `kv`. */
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
    // A new one each time, because its content may depend on the configuration.
    cacheOf: () => ({ open: (_scope, maxBytes) => createKeyValue(clock, maxBytes) }),
    health: () => ({ isUp: true, lost: 0 }),
    close: async () => {},
  }
}
