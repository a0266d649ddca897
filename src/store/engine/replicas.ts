/** What replicas of the gateway share besides money and keys: what each shows of itself, and how often somebody may try something. */
import type { Counted, TryRule } from '../people/tries.ts'

/** What another replica that is alive has published. */
export interface ReplicaView {
  /** Of the replica, for people. */
  readonly name: string
  readonly view: string
}

export interface ReplicaReads {
  /** Of all but one that have published and were heard of lately. */
  views(except: number): readonly ReplicaView[]
}

/** A try that counts at all replicas together. */
export interface SharedTry {
  /** Of the limit. */
  readonly name: string
  readonly rule: TryRule
  readonly subject: string
}

/** For how long to wait, and which of the tries was refused, by its index; or how the tries were counted. */
export type SharedResult =
  | { readonly waitMs: number; readonly refusedBy: number }
  | { readonly counted: readonly Counted[] }

export interface Replicas {
  /** This one's, for people. */
  readonly name: string
  /** Tells the others something of this one, in place of what it has told before. */
  publish(view: string): Promise<void>
  /** What the others have told. */
  others(): Promise<readonly ReplicaView[]>
  /** Counts all of the tries, or none of them where one limit refuses. */
  countTries(tries: readonly SharedTry[]): Promise<SharedResult>
  takeTriesBack(tries: readonly SharedTry[], counted: readonly Counted[]): Promise<void>
}

/** A `SharedTry` in the thread that writes. */
export interface TryRow {
  readonly name: string
  readonly rule: TryRule
  /** Digest of the subject under the store's secret. */
  readonly subject: Uint8Array
}
