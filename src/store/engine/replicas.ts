/** State that replicas share besides money and keys: published views, and counts of tries to sign in or register. */
import type { CountedTry, TryRule } from '../people/tries.ts'

/** The view that another living replica has published. */
export interface ReplicaView {
  /** The replica's name for people. */
  readonly name: string
  readonly view: string
}

export interface ReplicaReads {
  /** The views of all replicas with a recent lease, except the replica with this number. */
  views(except: number): readonly ReplicaView[]
}

/** A try that counts for all replicas together. */
export interface SharedTry {
  /** The limit's name. */
  readonly name: string
  readonly rule: TryRule
  readonly subject: string
}

/** The wait after a refusal and the index of the refused try, or the counted tries. */
export type SharedResult =
  | { readonly waitMs: number; readonly refusedBy: number }
  | { readonly counted: readonly CountedTry[] }

export interface Replicas {
  /** This replica's name for people. */
  readonly name: string
  /** Replaces the view that this replica shows to the others. */
  publish(view: string): Promise<void>
  others(): Promise<readonly ReplicaView[]>
  /** Counts all tries, or none if a limit refuses one. */
  countTries(tries: readonly SharedTry[]): Promise<SharedResult>
  takeTriesBack(tries: readonly SharedTry[], counted: readonly CountedTry[]): Promise<void>
}

/** A `SharedTry` for the writer. */
export interface TryRow {
  readonly name: string
  readonly rule: TryRule
  /** Digest of the subject under the store's secret. */
  readonly subject: Uint8Array
}
