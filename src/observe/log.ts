/**
 * The log: one JSON object per line on stdout, also on a terminal, without secrets. JSON escapes line feeds, so logged text
 * cannot forge a line.
 */
import fs from 'node:fs'
import { type DestinationStream, destination as openDestination, pino } from 'pino'
import type { Log } from '#contract'
import { ExchangeLines } from './exchange-line.ts'
import { PlainWriter } from './plain.ts'
import { createRedactor } from './redact.ts'
import type { ExchangeSummary } from './summary.ts'

/** The lowest level that is written. */
export const LOG_LEVELS = ['info', 'warn', 'error', 'silent'] as const

export interface LogOptions {
  /** One of `LOG_LEVELS`. */
  readonly level: string
  /** Replaced in every text of a line. Secrets of fewer than 8 characters are ignored, because they match parts of words. */
  readonly secrets: readonly string[]
  /** Default: stdout. Each `write` gets one line with its line feed, or several with `takesBatches`. */
  readonly destination?: { write(lines: string): unknown; readonly takesBatches?: boolean }
  /** Milliseconds since the epoch; default: the system's clock. */
  readonly now?: () => number
}

export interface Logger {
  /** The log of the gateway. */
  readonly log: Log
  /** Returns the log of a step, with its id in every line. */
  forStep(id: string): Log
  /** Logs a completed exchange. */
  exchange(summary: ExchangeSummary): void
  /** Returns a log with these fields in every line. */
  child(fields: Readonly<Record<string, unknown>>): Log
  /** Adds the secrets of a new configuration. Those of earlier ones are still removed. */
  learn(secrets: readonly string[]): void
  /** Removes secrets from a text that leaves the gateway outside the log. */
  redact(text: string, isBroken?: boolean): string
  /** Writes lines of another thread's log. */
  write(lines: string): void
  /** Writes buffered lines synchronously, for the end of the process. Does nothing with a custom destination. */
  flush(): void
}

/** Fields of every line. */
const RESERVED = ['level', 'time', 'msg']
/** Maximum number of buffered bytes while stdout is not read. Above it, new lines are dropped, to limit memory. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024

/** A batch is written at this length, or when its first line has waited this long. */
const BATCH_CHARACTERS = 15 * 1024
const BATCH_MS = 100

/** Creates the log. Throws if the level is unknown. */
export function createLog({ level, secrets, destination, now = Date.now }: LogOptions): Logger {
  if (!(LOG_LEVELS as readonly string[]).includes(level)) {
    throw new Error(`the log level "${level}" is not one of ${LOG_LEVELS.join(', ')}`)
  }
  const redactor = createRedactor(secrets)
  const plain = new PlainWriter(redactor.text, RESERVED)
  const batches =
    destination === undefined
      ? ofStandardOut()
      : destination.takesBatches
        ? new Batches(
            text => void destination.write(text),
            () => {},
          )
        : null
  const out: DestinationStream = batches ?? { write: line => void destination!.write(line) }
  const later = batches ? (line: string) => batches.add(line) : out.write
  const timestamp = timestamps(now)
  const root = pino(
    {
      level,
      base: null,
      timestamp: () => timestamp(),
      formatters: { level: label => ({ level: label }) },
      // Errors are already plain data; pino would serialize them again.
      serializers: { err: error => error },
      hooks: { streamWrite: redactor.line },
    },
    out,
  )
  const child = (fields: Readonly<Record<string, unknown>>): Log =>
    createLines(root.child(plain.fields(fields)), new PlainWriter(redactor.text, [...RESERVED, ...Object.keys(fields)]))
  const lines = new ExchangeLines(redactor.text)
  const hasExchanges = root.isLevelEnabled('info')
  return {
    log: createLines(root, plain),
    exchange(summary) {
      if (hasExchanges) later(lines.line(summary, timestamp(summary.at + summary.ms)))
    },
    forStep: id => child({ step: id }),
    child,
    learn(more) {
      redactor.learn(more)
      lines.forget()
    },
    redact: redactor.text,
    write: lines => void out.write(lines),
    flush() {
      batches?.flush()
    },
  }
}

/** Caches the text of the last millisecond, because many lines have the same time. */
function timestamps(now: () => number): (nowMs?: number) => string {
  let atMs = Number.NaN
  let text = ''
  return (nowMs = now()) => {
    if (nowMs !== atMs) {
      atMs = nowMs
      text = `,"time":"${new Date(nowMs).toISOString()}"`
    }
    return text
  }
}

/** Exposes only the methods of the contract: others of pino would bypass this module. */
function createLines(to: pino.Logger, plain: PlainWriter): Log {
  const line =
    (level: 'info' | 'warn' | 'error') =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      if (!to.isLevelEnabled(level)) return
      // A plugin in plain JavaScript may pass an error, or only the message.
      const given: unknown = fields
      if (given instanceof Error)
        to[level](plain.fields({ error: given }), plain.text(String(message ?? given.message)))
      else if (typeof given === 'object' && given !== null) to[level](plain.fields(fields), plain.text(String(message)))
      else to[level]({}, plain.text(String(message ?? given)))
    }
  return { info: line('info'), warn: line('warn'), error: line('error') }
}

/**
 * Writes buffered lines synchronously. After any error but a full pipe, sonic-boom (4.2.1) retries forever, so a process with a closed
 * stdout would never end. Here such an error counts as written.
 */
function flushNow(standardOut: ReturnType<typeof openDestination>): void {
  const { writeSync } = fs
  const writeOnce = (fd: number, text: string): number => {
    try {
      return writeSync(fd, text)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EAGAIN' || code === 'EBUSY') throw error
      standardOut.emit('error', error)
      return Buffer.byteLength(text)
    }
  }
  // The flush is synchronous, so no other code sees the replaced function.
  fs.writeSync = writeOnce as typeof writeSync
  try {
    standardOut.flushSync()
  } catch {
    // Not open yet, or already closed.
  } finally {
    fs.writeSync = writeSync
  }
}

function ofStandardOut(): Batches {
  const standardOut = openStandardOut()
  // The stream checks the length of its whole buffer at each write, so it gets batches.
  return new Batches(
    text => void standardOut.write(text),
    () => flushNow(standardOut),
  )
}

/**
 * Batches the lines of exchanges: a system call for each would cost more than the line. Other lines are written at once,
 * after the batched ones, because the process may end right after any of them.
 */
class Batches {
  readonly #out: (text: string) => void
  readonly #flushed: () => void
  #text = ''
  #timer: NodeJS.Timeout | null = null

  /** @param flushed writes the text given to `out` synchronously */
  constructor(out: (text: string) => void, flushed: () => void) {
    this.#out = out
    this.#flushed = flushed
    process.once('exit', () => this.flush())
  }

  write(line: string): void {
    this.#text += line
    this.#send()
  }

  add(line: string): void {
    this.#text += line
    if (this.#text.length >= BATCH_CHARACTERS) this.#send()
    else if (this.#timer === null) {
      this.#timer = setTimeout(() => this.#send(), BATCH_MS)
      this.#timer.unref()
    }
  }

  /** Writes all batched lines synchronously. */
  flush(): void {
    this.#send()
    this.#flushed()
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#text === '') return
    this.#out(this.#text)
    this.#text = ''
  }
}

/** Opens stdout for asynchronous writes: a slow reader of the log must not block the streams of clients. */
function openStandardOut(): ReturnType<typeof openDestination> {
  const standardOut = openDestination({
    dest: 1,
    sync: false,
    maxLength: MAX_WAITING_BYTES,
  })
  let hasReported = false
  const report = (text: string) => {
    if (!hasReported) process.stderr.write(`tollgate: ${text}\n`)
    hasReported = true
  }
  standardOut.on('error', (error: Error) => report(`the log can no longer be written: ${error.message}`))
  standardOut.on('drop', () => report('the log is not read fast enough; lines are being dropped'))
  return standardOut
}
