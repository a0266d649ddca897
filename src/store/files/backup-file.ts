/**
 * The file of a backup: a SQLite database, followed by one line with metadata and a digest of everything. SQLite reads only the pages of
 * the database, so its programs can open the file directly.
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

/** The metadata in the last line. */
export interface BackupSeal {
  /** The version of this line and of the content. */
  readonly format: number
  /** The version of the program that made it. */
  readonly tollgate: string
  /** ISO 8601: it has all commits before this time. */
  readonly at: string
}

const FORMAT = 1
const START = '\ntollgate-backup '
const LONGEST = 1024
const DIGEST = /^(\{"format":\d+,.*),"sha256":"([0-9a-f]{64})"\}\n$/

/** Adds the last line to a closed database, and syncs the file. */
export async function seal(path: string, { tollgate, at }: Omit<BackupSeal, 'format'>): Promise<void> {
  const hash = createHash('sha256')
  for await (const bytes of createReadStream(path)) hash.update(bytes)
  const metadata = START + JSON.stringify({ format: FORMAT, tollgate, at }).slice(0, -1)
  const file = openSync(path, 'a')
  try {
    writeSync(file, `${metadata},"sha256":"${hash.update(metadata).digest('hex')}"}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/**
 * Copies the database of a backup into an empty file, and syncs it. Throws a `StoreError` if the file is not a backup, has a newer
 * format, or was changed.
 *
 * @param to null: the file is only checked
 */
export async function unseal(path: string, to: string | null): Promise<BackupSeal> {
  const { metadata, digest, length } = readSeal(path)
  const { format, tollgate, at } = parsed(metadata, path)
  if (format > FORMAT) {
    throw new StoreError(
      `${path} was made by Tollgate ${tollgate} in format ${format}; this version reads formats up to ${FORMAT}. Run that version or a newer one.`,
    )
  }
  const hash = createHash('sha256')
  const source = length === 0 ? [] : createReadStream(path, { end: length - 1 })
  const target = to === null ? drained : createWriteStream(to, { flags: 'r+', flush: true })
  await pipeline(source, hashing(hash), target)
  if (hash.update(metadata).digest('hex') !== digest) throw damaged(path, 'its digest does not match')
  return { format, tollgate, at }
}

function readSeal(path: string) {
  const file = openSync(path, 'r')
  try {
    const { size } = fstatSync(file)
    const bytes = Buffer.alloc(Math.min(size, LONGEST))
    readSync(file, bytes, 0, bytes.length, size - bytes.length)
    const start = bytes.lastIndexOf(START)
    if (start < 0) throw damaged(path, 'it was not written by `tollgate backup`, or it is truncated')
    const [, metadata, digest] = DIGEST.exec(bytes.toString('utf8', start + START.length)) ?? []
    if (metadata === undefined || digest === undefined) throw damaged(path, 'its last line is incomplete')
    return { metadata: START + metadata, digest, length: size - bytes.length + start }
  } finally {
    closeSync(file)
  }
}

function parsed(metadata: string, path: string): BackupSeal {
  try {
    return JSON.parse(`${metadata.slice(START.length)}}`)
  } catch {
    throw damaged(path, 'its last line is incomplete')
  }
}

function damaged(path: string, why: string): StoreError {
  return new StoreError(
    `${basename(path)} is not a complete backup: ${why}. Use another one. (Put a copy that was not made by \`tollgate backup\` in place by hand.)`,
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
