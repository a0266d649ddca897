/** Parses lines of a usage log for `explain --shadow`: account, key and trail. */
import type { TrailEntry } from '#contract'
import { LineError, parseObject } from '../../replay/line.ts'

/** An exchange of the log, with the fields that are used. */
export interface LoggedExchange {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly policy: string
  readonly account: { readonly id: string; readonly name: string } | null
  readonly key: { readonly id: string; readonly name: string } | null
  readonly trail: readonly Pick<TrailEntry, 'step' | 'verdict' | 'code'>[]
}

/** Throws a `LineError` if the text is not a line of this version. */
export function parseLogged(text: string): LoggedExchange {
  const { id, at, policy, account, key, trail } = parseObject(text)
  if (typeof id !== 'string') throw new LineError('`id` is missing')
  const atMs = typeof at === 'string' ? Date.parse(at) : Number.NaN
  if (Number.isNaN(atMs)) throw new LineError('`at` is not a time')
  if (typeof policy !== 'string') throw new LineError('`policy` is missing')
  if (!Array.isArray(trail) || !trail.every(isEntry)) throw new LineError('`trail` is not a list of steps')
  return { id, at: atMs, policy, account: named(account), key: named(key), trail }
}

function isEntry(value: unknown): value is LoggedExchange['trail'][number] {
  if (typeof value !== 'object' || value === null) return false
  const { step, verdict, code } = value as Readonly<Record<string, unknown>>
  return typeof step === 'string' && typeof verdict === 'string' && (code === undefined || typeof code === 'string')
}

function named(value: unknown): { readonly id: string; readonly name: string } | null {
  if (typeof value !== 'object' || value === null) return null
  const { id, name } = value as Readonly<Record<string, unknown>>
  return typeof id === 'string' ? { id, name: typeof name === 'string' ? name : id } : null
}
