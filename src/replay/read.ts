/** Reads usage logs: several files in order, compressed or not, or standard input. Numbers each line. */
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline, Readable } from 'node:stream'
import { createGunzip, type Gunzip } from 'node:zlib'
import { LineError } from './line.ts'

/** A line, or the reason why it is invalid. */
export type ReadLine<Line> =
  | { readonly line: Line; readonly bytes: number }
  | { readonly file: string; readonly number: number; readonly reason: string }

export interface ReadOptions<Line> {
  /** Parses a line. Throws a `LineError` for an invalid one. */
  parse(text: string): Line
  /** The stream for `-`. */
  readonly input: Readable
  /** Called with the number of bytes read from the files (compressed size). */
  read(bytes: number): void
}

/** A longer line is invalid. */
const MAX_LINE_BYTES = 4 * 1024 * 1024
const LINE_FEED = 10
const CARRIAGE_RETURN = 13

/** Yields batches of lines, one per read: a promise for each line would cost as much as the line. */
export async function* readLogs<Line>(
  files: readonly string[],
  options: ReadOptions<Line>,
): AsyncGenerator<ReadLine<Line>[]> {
  for (const file of files) yield* readLog(file, options)
}

async function* readLog<Line>(
  file: string,
  { input, read, parse }: ReadOptions<Line>,
): AsyncGenerator<ReadLine<Line>[]> {
  const piped = file === '-' ? await peeked(input) : null
  const isPacked = looksPacked(piped ? piped.first : await beginningOf(file))
  const raw = piped ?? createReadStream(file, { highWaterMark: 256 * 1024 })
  const plain = isPacked ? createGunzip() : raw
  // Destroys both streams if either one fails.
  if (isPacked) pipeline(raw, plain as Gunzip, () => {})
  let counted = 0
  let rest: Buffer = Buffer.alloc(0)
  let number = 0
  const take = (bytes: Buffer): ReadLine<Line> | null => {
    number++
    if (bytes.length === 0 || (bytes.length === 1 && bytes[0] === CARRIAGE_RETURN)) return null
    try {
      // Editors may write a byte order mark, which is not part of the first line.
      const text = bytes.toString('utf8')
      return { line: parse(number === 1 && text.startsWith('\uFEFF') ? text.slice(1) : text), bytes: bytes.length }
    } catch (error) {
      if (error instanceof LineError) return { file, number, reason: error.message }
      throw error
    }
  }
  try {
    for await (const chunk of plain as AsyncIterable<Buffer>) {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      const lines: ReadLine<Line>[] = []
      let start = 0
      for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, start)) {
        const taken = take(bytes.subarray(start, end))
        if (taken) lines.push(taken)
        start = end + 1
      }
      rest = bytes.subarray(start)
      const { bytesRead = 0 } = raw as { readonly bytesRead?: number }
      read(bytesRead - counted)
      counted = bytesRead
      if (rest.length > MAX_LINE_BYTES) throw new Error(`${file}: line ${number + 1} has no end`)
      yield lines
    }
  } catch (error) {
    if (!isPacked || !String((error as NodeJS.ErrnoException).code).startsWith('Z_')) throw error
    yield [{ file, number: number + 1, reason: `it cannot be unpacked from here on: ${(error as Error).message}` }]
    return
  }
  const last = take(rest)
  if (last) yield [last]
}

/** By the first bytes (RFC 1952), not by the name. */
const looksPacked = (bytes: Buffer) => bytes[0] === 0x1f && bytes[1] === 0x8b

async function beginningOf(file: string): Promise<Buffer> {
  const handle = await open(file)
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(2), 0, 2, 0)
    return buffer.subarray(0, bytesRead)
  } finally {
    await handle.close()
  }
}

/** The same stream, with its first chunk known. */
async function peeked(input: Readable): Promise<Readable & { readonly first: Buffer }> {
  const chunks = input[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  const { value, done } = await chunks.next()
  async function* all() {
    if (done) return
    yield value
    for (let next = await chunks.next(); !next.done; next = await chunks.next()) yield next.value
  }
  return Object.assign(Readable.from(all()), { first: done ? Buffer.alloc(0) : Buffer.from(value) })
}
