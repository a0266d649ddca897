/** A store whose database this thread reads itself. */
import type { KeyLookup, Keys } from '#contract'
import type { ServedStore } from './served-store.ts'
import type { StoreReads } from './store.ts'

/** Keys that are looked up without waiting. */
export interface LocalKeys extends Keys {
  find(token: string, nowMs: number): KeyLookup
}

/** What is committed can be read without waiting. */
export interface LocalStore extends ServedStore {
  readonly reads: StoreReads
  readonly keys: LocalKeys
}
