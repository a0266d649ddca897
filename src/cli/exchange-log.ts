/** Reads an exchange log, as the plugin `usage-log` writes it: a JSON object a line; `.gz` too. What is no exchange is told. */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { createGunzip } from 'node:zlib'
import type { TrailEntry } from '#contract'
import { CommandError } from './terminal.ts'

/** What is read of a line; there is more in it. */
export interface LoggedExchange {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly policy: string
  readonly account: { readonly id: string; readonly name: string } | null
  readonly key: { readonly id: string; readonly name: string } | null
  readonly trail: readonly Pick<TrailEntry, 'step' | 'verdict' | 'code'>[]
}

/** A line: an exchange, or why it is none. Empty lines are not told. */
export type LogLine =
  | { readonly number: number; readonly exchange: LoggedExchange }
  | { readonly number: number; readonly problem: string }

/** @param show is told how many bytes of the file have been read */
export async function* readExchangeLog(
  file: string,
  show: (done: number, total: number) => void,
): AsyncGenerator<LogLine> {
  const { size } = await stat(file).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(
      `The log ${file} cannot be read: ${error.code === 'ENOENT' ? 'there is no such file' : error.message}.`,
    )
  })
  const bytes = createReadStream(file)
  const text = file.endsWith('.gz') ? bytes.pipe(createGunzip()) : bytes
  if (text !== bytes) bytes.on('error', error => text.destroy(error))
  let number = 0
  try {
    for await (const line of createInterface({ input: text, crlfDelay: Number.POSITIVE_INFINITY })) {
      number++
      if (number % 1000 === 0) show(bytes.bytesRead, size)
      if (line.trim() !== '') yield { number, ...read(line) }
    }
  } catch (error) {
    throw new CommandError(`The log ${file} cannot be read: ${(error as Error).message}.`)
  } finally {
    bytes.destroy()
  }
}

function read(line: string): { readonly exchange: LoggedExchange } | { readonly problem: string } {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    return { problem: 'it is not JSON (a last line may be torn)' }
  }
  if (typeof value !== 'object' || value === null) return { problem: 'it is not an object' }
  const { id, at, policy, account, key, trail } = value as Readonly<Record<string, unknown>>
  if (typeof id !== 'string') return { problem: '"id" is missing' }
  const atMs = typeof at === 'string' ? Date.parse(at) : Number.NaN
  if (Number.isNaN(atMs)) return { problem: '"at" is not a time' }
  if (typeof policy !== 'string') return { problem: '"policy" is missing' }
  if (!Array.isArray(trail) || !trail.every(isEntry)) return { problem: '"trail" is not a list of steps' }
  return { exchange: { id, at: atMs, policy, account: named(account), key: named(key), trail } }
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
