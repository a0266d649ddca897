/**
 * The last resort of a charge that the database would not take: a file of its own beside it, one JSON line a settle,
 * on disk before `append` returns. The store settles from it when a write succeeds again, at the latest at the next start.
 */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, truncateSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import type { SettleRequest } from '#contract'
import { checkSettle } from './check.ts'
import { syncFolder } from './files.ts'

/** A line of the spool, and what it says; undefined when it is torn. */
export interface SpooledLine {
  readonly line: string
  readonly settle: SettleRequest | undefined
}

export interface Spool {
  /** Throws when the line is not on disk. */
  append(request: SettleRequest): void
  read(): readonly SpooledLine[]
  /** Puts a line aside for a person to look at: `<spool>.rejected`. */
  reject(line: string): void
  empty(): void
}

export function createSpool(path: string): Spool {
  return {
    append: request => appendLine(path, encode(request)),
    read() {
      if (!existsSync(path)) return []
      const lines = readFileSync(path, 'utf8').split('\n')
      return lines.filter(line => line !== '').map(line => ({ line, settle: decode(line) }))
    },
    reject: line => appendLine(`${path}.rejected`, line),
    empty() {
      if (!existsSync(path)) return
      truncateSync(path)
      sync(path)
    },
  }
}

function appendLine(path: string, line: string): void {
  const isNew = !existsSync(path)
  const file = openSync(path, 'a', 0o600)
  try {
    // Begun with a line break too: what an earlier, torn append left must not swallow this one.
    const bytes = Buffer.from(`\n${line}\n`)
    for (let written = 0; written < bytes.length; ) written += writeSync(file, bytes, written)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  if (isNew) syncFolder(dirname(path))
}

function sync(path: string): void {
  const file = openSync(path, 'r+')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** JSON has no big integers: money is written as a decimal string. */
function encode(request: SettleRequest): string {
  return JSON.stringify({ ...request, amount: String(request.amount), overrun: String(request.overrun) })
}

/** Half a JSON object never parses, so a torn line is recognised without a checksum. */
function decode(line: string): SettleRequest | undefined {
  try {
    const fields = JSON.parse(line)
    const settle: SettleRequest = { ...fields, amount: BigInt(fields.amount), overrun: BigInt(fields.overrun) }
    checkSettle(settle)
    return settle
  } catch {
    return undefined
  }
}
