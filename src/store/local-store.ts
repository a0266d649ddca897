/** A store whose database this thread reads itself. */
import type { KeyLookup, Keys } from '#contract'
import type { ServedStore } from './served-store.ts'
import type { StoreReads } from './store.ts'

export interface LocalKeys extends Keys {
  find(token: string, nowMs: number): KeyLookup
}

export interface LocalStore extends ServedStore {
  readonly reads: StoreReads
  readonly keys: LocalKeys
}
