/**
 * The file of a backup: a SQLite database, and one line behind it with what was copied and a digest of all of it. SQLite reads as
 * many pages as the database says, so programs for SQLite open the file as it is.
 */
import { createHash, type Hash } from 'node:crypto'
import {
  closeSync,
  createReadStream,
  createWriteStream,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  writeSync,
} from 'node:fs'
import { basename } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { StoreError } from '../error.ts'

/** What the last line says. */
export interface BackupSeal {
  /** Of this line and of what is inside. */
  readonly format: number
  /** The version of the program that made it. */
  readonly tollgate: string
  /** ISO 8601: no commit before it is missing. */
  readonly at: string
}

const FORMAT = 1
const START = '\ntollgate-backup '
const LONGEST = 1024
const DIGEST = /^(\{"format":\d+,.*),"sha256":"([0-9a-f]{64})"\}\n$/

/** Adds the last line to a database that nobody has open, and syncs the file. */
export async function seal(path: string, { tollgate, at }: Omit<BackupSeal, 'format'>): Promise<void> {
  const hash = createHash('sha256')
  for await (const bytes of createReadStream(path)) hash.update(bytes)
  const said = START + JSON.stringify({ format: FORMAT, tollgate, at }).slice(0, -1)
  const file = openSync(path, 'a')
  try {
    writeSync(file, `${said},"sha256":"${hash.update(said).digest('hex')}"}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/**
 * Copies the database out of a backup into a file that is empty, and syncs it. Throws a `StoreError` when the file is no backup,
 * is of a newer format, or is not as it was made.
 *
 * @param to null: the file is only checked
 */
export async function unseal(path: string, to: string | null): Promise<BackupSeal> {
  const { said, digest, length } = readSeal(path)
  const { format, tollgate, at } = parsed(said, path)
  if (format > FORMAT) {
    throw new StoreError(
      `${path} was made by Tollgate ${tollgate} in format ${format}, and this version reads formats up to ${FORMAT}. Run that version or a newer one.`,
    )
  }
  const hash = createHash('sha256')
  const source = length === 0 ? [] : createReadStream(path, { end: length - 1 })
  const target = to === null ? drained : createWriteStream(to, { flags: 'r+', flush: true })
  await pipeline(source, hashing(hash), target)
  if (hash.update(said).digest('hex') !== digest) throw damaged(path, 'its digest is another one')
  return { format, tollgate, at }
}

function readSeal(path: string) {
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    const bytes = Buffer.alloc(Math.min(size, LONGEST))
    readSync(file, bytes, 0, bytes.length, size - bytes.length)
    const start = bytes.lastIndexOf(START)
    if (start < 0) throw damaged(path, 'it was not written by `tollgate backup`, or is cut off')
    const [, said, digest] = DIGEST.exec(bytes.toString('utf8', start + START.length)) ?? []
    if (said === undefined || digest === undefined) throw damaged(path, 'its last line is not whole')
    return { said: START + said, digest, length: size - bytes.length + start }
  } finally {
    closeSync(file)
  }
}

function parsed(said: string, path: string): BackupSeal {
  try {
    return JSON.parse(`${said.slice(START.length)}}`)
  } catch {
    throw damaged(path, 'its last line is not whole')
  }
}

function damaged(path: string, why: string): StoreError {
  return new StoreError(
    `${basename(path)} is not a whole backup: ${why}. Take another one. (A copy that was not made by \`tollgate backup\` is put in place by hand.)`,
  )
}

function hashing(hash: Hash) {
  return async function* (source: AsyncIterable<Buffer>) {
    for await (const bytes of source) {
      hash.update(bytes)
      yield bytes
    }
  }
}

async function drained(source: AsyncIterable<Buffer>): Promise<void> {
  for await (const _ of source);
}
