/**
 * The spool: a file beside the database for settles that the database did not accept. A settle is on disk before `append` returns. The
 * store settles the lines when a write succeeds again, at the latest at the next start.
 *
 * A disk without space for the database has none for this file either, so its space is reserved ahead. Line breaks are written, because
 * a file that is only made longer (`truncate`) has no blocks. A record is one line: a checksum and JSON. It has a fixed size, so that a
 * torn record does not harm the others.
 */
import { createHash } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type SettleRequest, type Usage, withoutZeros } from '#contract'
import { createFile } from '../files/files.ts'
import { SETTLE_FIELDS } from './ledger-fields.ts'
import { checkSettle } from './preconditions.ts'

/** A line of the spool with its settle; undefined when it is torn. */
export interface SpooledLine {
  readonly line: string
  readonly settle: SettleRequest | undefined
}

export interface Spool {
  /** Reserves space on disk for this number of records. If it does not suffice, throws and reserves none. */
  reserve(records: number): void
  /** Throws if the record is not on disk. */
  append(request: SettleRequest): void
  read(): readonly SpooledLine[]
  /** Moves a line to `<spool>.rejected`, for a person to check. */
  reject(line: string): void
  /** Keeps the reserved space. */
  empty(): void
  /** Removes the file of an owner that has ended. */
  remove(): void
}

/** The spool of a thread: the main one (lane 0) beside the store, each other one in a file of its own. */
export const spoolPath = (store: string, lane: number): string => `${store}.spool${lane === 0 ? '' : `.${lane}`}`

/** The spools of a store: that of the main thread, whether it exists or not, and the existing ones of other threads. */
export const spoolsOf = (store: string): string[] => [spoolPath(store, 0), ...spoolsOfThreads(store)]

/** The existing spools of other threads than the main one; none without the store's folder. */
export const spoolsOfThreads = (store: string): string[] => filesBeside(store, /^\.spool\.\d+$/)

/** The existing files with rejected lines of the store's spools. */
export const rejectedSpools = (store: string): string[] => filesBeside(store, /^\.spool(\.\d+)?\.rejected$/)

/** The existing files whose names are the store's with such an end. */
function filesBeside(store: string, end: RegExp): string[] {
  if (!existsSync(dirname(store))) return []
  const name = basename(store)
  return readdirSync(dirname(store))
    .filter(file => file.startsWith(name) && end.test(file.slice(name.length)))
    .map(file => join(dirname(store), file))
}

/** Bytes of a record. A longer one leaves out its trail, then its attempts: they do not change the charge. */
export const RECORD_BYTES = 2048
/** Maximum number of records that are reserved: 64 MiB. */
export const MAX_RESERVED = 32_768

const LINE_BREAK = 0x0a
/** For reads and writes at any place; creates the file if it is missing. */
const CREATE = constants.O_RDWR | constants.O_CREAT
const CHECKSUM_LENGTH = 16
const CHECKED = new RegExp(`^([0-9a-f]{${CHECKSUM_LENGTH}}) (\\{.*\\})$`)

export function createSpool(path: string): Spool {
  /** The end of the last record. Undefined before the first search. */
  let end: number | undefined
  /** The end of the blocks that this process has written. */
  let reserved = 0

  function findEnd(file: number): number {
    const { size } = fstatSync(file)
    // A smaller file is another one: the old one was deleted.
    if (end !== undefined && end <= size) return end
    const bytes = readUpTo(file, size)
    let used = bytes.length
    while (used > 0 && isBlank(bytes[used - 1]!)) used--
    // A multiple of the record size, after at least one line break, so that a torn record and the next one are two lines.
    end = used === 0 ? 0 : Math.ceil((used + 1) / RECORD_BYTES) * RECORD_BYTES
    return end
  }

  return {
    remove: () => rmSync(path, { force: true }),
    reserve(records) {
      const bytes = Math.min(records, MAX_RESERVED) * RECORD_BYTES
      if (bytes === 0) return
      const found = statSync(path, { throwIfNoEntry: false })
      if (found && found.size >= bytes && (reserved >= bytes || found.blocks * 512 >= bytes)) return
      withFile(path, CREATE, file => {
        const { size } = fstatSync(file)
        try {
          fill(file, Math.min(findEnd(file), size), Math.max(bytes, size))
          fsyncSync(file)
          reserved = Math.max(bytes, size)
        } catch (error) {
          // A part of the space is useless here, and the database may need it.
          ftruncateSync(file, size)
          throw error
        }
      })
    },
    append(request) {
      const record = encode(request)
      withFile(path, CREATE, file => {
        const at = findEnd(file)
        fill(file, Math.min(fstatSync(file).size, at), at)
        writeAll(file, record, at)
        fsyncSync(file)
        end = at + record.length
      })
    },
    read() {
      if (!existsSync(path)) return []
      const text = withFile(path, 'r', file => readUpTo(file, findEnd(file))).toString()
      const lines = text.replaceAll('\0', '\n').match(/[^\n]+/g) ?? []
      return lines.map(line => ({ line, settle: decode(line) }))
    },
    reject(line) {
      withFile(`${path}.rejected`, 'a', file => {
        writeAll(file, Buffer.from(`${line}\n`), null)
        fsyncSync(file)
      })
    },
    empty() {
      if (!existsSync(path)) return
      withFile(path, CREATE, file => {
        fill(file, 0, Math.min(findEnd(file), fstatSync(file).size))
        fsyncSync(file)
        end = 0
      })
    },
  }
}

function withFile<Result>(path: string, flags: string | number, act: (file: number) => Result): Result {
  if (flags !== 'r' && !existsSync(path)) createFile(path)
  const file = openSync(path, flags)
  try {
    return act(file)
  } finally {
    closeSync(file)
  }
}

/** A file system reads zeros where nothing was written. */
function isBlank(byte: number): boolean {
  return byte === LINE_BREAK || byte === 0
}

function readUpTo(file: number, size: number): Buffer {
  const bytes = Buffer.alloc(size)
  let read = 0
  for (let more = 1; more > 0 && read < size; read += more) more = readSync(file, bytes, read, size - read, read)
  return bytes.subarray(0, read)
}

const BREAKS = Buffer.alloc(1 << 16, LINE_BREAK)

function fill(file: number, from: number, to: number): void {
  for (let at = from; at < to; at += BREAKS.length)
    writeAll(file, BREAKS.subarray(0, Math.min(BREAKS.length, to - at)), at)
}

function writeAll(file: number, bytes: Uint8Array, at: number | null): void {
  for (let written = 0; written < bytes.length; ) {
    written += writeSync(file, bytes, written, bytes.length - written, at === null ? null : at + written)
  }
}

/** A record with the full size, filled up with line breaks. */
function encode(request: SettleRequest): Buffer {
  for (const less of [request, { ...request, trail: [] }, { ...request, trail: [], attempts: [] }]) {
    const json = JSON.stringify(less, moneyAsText)
    const line = `${checksum(json)} ${json}`
    if (Buffer.byteLength(line) >= RECORD_BYTES) continue
    const record = Buffer.alloc(RECORD_BYTES, LINE_BREAK)
    record.write(line)
    return record
  }
  throw new RangeError(`The settle of ${request.exchange} is longer than ${RECORD_BYTES} bytes without its trail.`)
}

function decode(line: string): SettleRequest | undefined {
  const [, sum, json = line] = CHECKED.exec(line) ?? []
  // Versions before the checksum wrote JSON alone; half a JSON object never parses.
  if (sum !== undefined && sum !== checksum(json)) return undefined
  try {
    const fields = JSON.parse(json)
    for (const name of MONEY) fields[name] = BigInt(fields[name])
    fields.usage ??= oldUsage(fields)
    checkSettle(fields)
    return fields
  } catch {
    return undefined
  }
}

/** Lines of earlier versions have a field for each count. */
function oldUsage(fields: Readonly<Record<string, number>>): Usage {
  return withoutZeros({
    input: fields['promptTokens'],
    cached_input: fields['cachedTokens'],
    cache_write: fields['cacheWriteTokens'],
    output: fields['completionTokens'],
    reasoning: fields['reasoningTokens'],
    search: fields['searches'],
  } as Usage)
}

const MONEY = SETTLE_FIELDS.filter(({ kind }) => kind === 'money').map(({ name }) => name)

/** JSON has no big integers: money becomes a decimal string. */
function moneyAsText(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

function checksum(json: string): string {
  return createHash('sha256').update(json).digest('hex').slice(0, CHECKSUM_LENGTH)
}
