/**
 * Appends lines to a file in the background, with one write per turn of the event loop. Lines that cannot be written are counted and
 * reported in the log. Each path has one writer, which all steps and generations of the configuration share.
 */
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readlinkSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import type { Clock, Log } from '#contract'

/** The size at which a file is renamed, and the number of renamed files to keep. */
export interface Rotation {
  readonly maxBytes: number
  readonly keep: number
}

export interface WriterParts {
  readonly clock: Clock
  readonly log: Log
}

export interface Lines {
  /** Never throws, never waits. Calls `line` at once. */
  write(line: () => string): void
  /** Resolves when all lines of this user are in the file. */
  close(): Promise<void>
}

/** The limit of lines that wait for a slow disk. Above it new lines are lost and counted. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024
const REPORT_EVERY_MS = 60_000
/** The interval of the check whether another program has renamed the file. */
const LOOK_EVERY_MS = 1_000
/** For the user of this process only: the file says who asked for what. */
const MODE = 0o600

const writers = new Map<string, Writer>()

/** The absolute path of a setting; relative paths begin at the folder of the policy. */
export function pathOf(file: string, folder = '.'): string {
  return resolve(folder, file)
}

/** Throws an Error with the reason if the file cannot be opened. The rotation of the latest user applies. */
export function openLines(path: string, rotation: Rotation, parts: WriterParts): Lines {
  const known = writers.get(path)
  if (!known) probe(path)
  const writer = known ?? new Writer(path, parts)
  writers.set(path, writer)
  writer.users++
  writer.rotation = rotation
  writer.parts = parts
  let closing: Promise<void> | null = null
  return {
    write: line => writer.write(line),
    close() {
      closing ??= release(path, writer)
      return closing
    },
  }
}

async function release(path: string, writer: Writer): Promise<void> {
  await writer.drained()
  if (--writer.users > 0) return
  if (writers.get(path) === writer) writers.delete(path)
  await writer.end()
}

/** Reports a wrong file when the configuration is loaded, not at the first exchange. */
function probe(path: string): void {
  const why = whyNotOpened(path)
  if (why !== null) throw new Error(`file: ${path} ${why}`)
  try {
    closeSync(openSync(path, 'a', MODE))
  } catch (error) {
    throw new Error(`file: ${path} ${inWords(error)}`)
  }
}

/** The reason why the file cannot be opened, as the rest of a sentence; null: it can. Changes nothing on the disk. */
export function whyNotOpened(path: string): string | null {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (found) {
      // Opening a pipe would wait for its reader.
      if (!found.isFile()) return 'is not a regular file'
      accessSync(path, constants.W_OK)
      return null
    }
    // A link whose file is missing: opening it creates that file.
    if (lstatSync(path, { throwIfNoEntry: false }))
      return whyNotOpened(resolve(realpathSync(dirname(path)), readlinkSync(path)))
    if (!statSync(dirname(path), { throwIfNoEntry: false })?.isDirectory()) return NO_FOLDER
    accessSync(dirname(path), constants.W_OK | constants.X_OK)
    return null
  } catch (error) {
    return inWords(error)
  }
}

const NO_FOLDER = 'cannot be opened: its folder is missing; create it first'

function inWords(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' || code === 'ENOTDIR') return NO_FOLDER
  if (code === 'EACCES' || code === 'EPERM') return 'cannot be opened: this process may not write it'
  if (code === 'EROFS') return 'cannot be opened: the file system is read-only'
  if (code === 'ELOOP') return 'cannot be opened: it is a link to itself'
  if (code === 'ENAMETOOLONG') return 'cannot be opened: its name is too long'
  return `cannot be opened: ${code ?? message}`
}

/** One file; exported for its test. */
export class Writer {
  readonly path: string
  users = 0
  rotation: Rotation = { maxBytes: Number.POSITIVE_INFINITY, keep: 1 }
  parts: WriterParts
  #waiting: string[] = []
  #waitingBytes = 0
  #writing: Promise<void> | null = null
  #file: FileHandle | null = null
  #inode = 0
  #size = 0
  #lookedAt = Number.NEGATIVE_INFINITY
  /** The file may end in the middle of a line. */
  #torn = false
  #lost = 0
  #lastError = ''
  #reportedAt = Number.NEGATIVE_INFINITY

  constructor(path: string, parts: WriterParts) {
    this.path = path
    this.parts = parts
  }

  write(line: () => string): void {
    try {
      const text = `${line()}\n`
      if (this.#waitingBytes + text.length > MAX_WAITING_BYTES) throw new Error('the disk is too slow')
      this.#waiting.push(text)
      this.#waitingBytes += text.length
      this.#writing ??= this.#writeAll()
    } catch (error) {
      this.#lose(1, error)
      this.#report()
    }
  }

  async drained(): Promise<void> {
    while (this.#writing) await this.#writing
  }

  async end(): Promise<void> {
    await this.drained()
    await this.#file?.close().catch(() => {})
    this.#file = null
    this.#report(true)
  }

  /** Writes until no line waits. Lines that arrive during a write are part of the next one. */
  async #writeAll(): Promise<void> {
    await new Promise<void>(resolve => setImmediate(resolve))
    while (this.#waiting.length > 0) {
      const lines = this.#waiting
      this.#waiting = []
      this.#waitingBytes = 0
      const bytes = Buffer.from(lines.join(''))
      try {
        await this.#ready(bytes.length)
        await this.#append(bytes)
      } catch (error) {
        this.#lose(lines.length, error)
        await this.#forget()
      }
      this.#report()
    }
    // An abandoned step may write after the end.
    if (this.users === 0) await this.#forget()
    this.#writing = null
  }

  /** Opens the file that has the name now, with room for `bytes`. */
  async #ready(bytes: number): Promise<void> {
    const now = this.parts.clock.now()
    if (this.#file && Math.abs(now - this.#lookedAt) >= LOOK_EVERY_MS) {
      this.#lookedAt = now
      const found = await stat(this.path).catch(() => null)
      if (found?.ino !== this.#inode) await this.#forget()
      else this.#size = found.size
    }
    if (!this.#file) await this.#open()
    if (this.#size === 0 || this.#size + bytes <= this.rotation.maxBytes) return
    await this.#forget()
    await this.#rename()
    await this.#open()
  }

  async #open(): Promise<void> {
    this.#file = await open(this.path, 'a+', MODE)
    const { ino, size } = fstatSync(this.#file.fd)
    this.#inode = ino
    this.#size = size
    this.#lookedAt = this.parts.clock.now()
    this.#torn = size > 0 && !(await endsWithLine(this.#file, size))
  }

  /** Renames FILE to FILE.1, FILE.1 to FILE.2, and so on; deletes the last one. */
  async #rename(): Promise<void> {
    const { keep } = this.rotation
    await rm(`${this.path}.${keep}`, { force: true })
    for (let nth = keep - 1; nth >= 1; nth--) {
      await rename(`${this.path}.${nth}`, `${this.path}.${nth + 1}`).catch(ignoreMissing)
    }
    await rename(this.path, `${this.path}.1`).catch(ignoreMissing)
  }

  async #append(bytes: Buffer): Promise<void> {
    // Ends an incomplete line first, so that only that line is lost.
    let left = this.#torn ? Buffer.concat([LINE_FEED, bytes]) : bytes
    while (left.length > 0) {
      const { bytesWritten } = await this.#file!.write(left)
      this.#size += bytesWritten
      left = left.subarray(bytesWritten)
      this.#torn = left.length > 0
    }
  }

  /** Closes the file. The next write opens it again. */
  async #forget(): Promise<void> {
    const file = this.#file
    this.#file = null
    await file?.close().catch(() => {})
  }

  #lose(lines: number, error: unknown): void {
    this.#lost += lines
    this.#lastError = (error as Error).message
  }

  /** Logs lost lines at most once a minute: a full disk must not fill the log too. */
  #report(isLast = false): void {
    if (this.#lost === 0) return
    const { clock, log } = this.parts
    const now = clock.now()
    if (!isLast && Math.abs(now - this.#reportedAt) < REPORT_EVERY_MS) return
    this.#reportedAt = now
    const fields = { file: basename(this.path), lost: this.#lost, error: this.#lastError }
    this.#lost = 0
    log.error(fields, 'failed to write lines of the usage log')
  }
}

const LINE_FEED = Buffer.from('\n')

async function endsWithLine(file: FileHandle, size: number): Promise<boolean> {
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1)
  return buffer[0] === LINE_FEED[0]
}

function ignoreMissing(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}
