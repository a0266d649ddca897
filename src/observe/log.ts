/**
 * The log: one JSON object a line on stdout, also on a terminal. No line contains a secret. JSON escapes line feeds, so no outsider can
 * forge a line.
 */
import fs from 'node:fs'
import { type DestinationStream, destination as openDestination, pino } from 'pino'
import type { Log } from '#contract'
import { ExchangeLines } from './exchange-line.ts'
import { PlainWriter } from './plain.ts'
import { createRedactor } from './redact.ts'
import type { ExchangeSummary } from './summary.ts'

/** From which level on lines are written. */
export const LOG_LEVELS = ['info', 'warn', 'error', 'silent'] as const

export interface LogOptions {
  /** One of `LOG_LEVELS`. */
  readonly level: string
  /** Never written, wherever they turn up. Those of fewer than 8 characters are ignored: they are parts of words. */
  readonly secrets: readonly string[]
  /** Where lines go; default: stdout. Each `write` gets one line with its line feed, or several where it says so. */
  readonly destination?: { write(lines: string): unknown; readonly takesBatches?: boolean }
  /** Milliseconds since the epoch; default: the system's clock. */
  readonly now?: () => number
}

export interface Logger {
  /** The gateway's own. */
  readonly log: Log
  /** The log that a step gets: its id is in every line. */
  forStep(id: string): Log
  /** The line of an exchange that is over. */
  exchange(summary: ExchangeSummary): void
  /** A log with these fields in every line. */
  child(fields: Readonly<Record<string, unknown>>): Log
  /** Secrets of a configuration that was loaded later; the old ones stay secret. */
  learn(secrets: readonly string[]): void
  /** A text without the secrets: for what leaves the gateway by another way than the log. */
  redact(text: string, isBroken?: boolean): string
  /** Takes lines that another thread's log has made. */
  write(lines: string): void
  /** Writes out what waits, at once: for the end of the process. Does nothing with a destination of the caller's own. */
  flush(): void
}

/** Fields of every line. */
const RESERVED = ['level', 'time', 'msg']
/** The most bytes of lines that wait for a reader of stdout. Above that, new lines are dropped. */
const MAX_WAITING_BYTES = 16 * 1024 * 1024

/** A batch of lines is written when it is so long, or its first line has waited so long. */
const BATCH_CHARACTERS = 15 * 1024
const BATCH_MS = 100

/** Throws for an unknown level. */
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
      // Errors are plain already; pino would look at them again.
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

/** Lines come in bursts: one millisecond is written as a date once. */
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

/** Exactly the contract's methods: what pino offers beyond them would be a way around this module. */
function createLines(to: pino.Logger, plain: PlainWriter): Log {
  const line =
    (level: 'info' | 'warn' | 'error') =>
    (fields: Readonly<Record<string, unknown>>, message: string): void => {
      if (!to.isLevelEnabled(level)) return
      // A plugin in plain JavaScript may pass an error, or nothing but the message.
      const given: unknown = fields
      if (given instanceof Error)
        to[level](plain.fields({ error: given }), plain.text(String(message ?? given.message)))
      else if (typeof given === 'object' && given !== null) to[level](plain.fields(fields), plain.text(String(message)))
      else to[level]({}, plain.text(String(message ?? given)))
    }
  return { info: line('info'), warn: line('warn'), error: line('error') }
}

/**
 * Writes the waiting lines now. After any error but a full pipe, sonic-boom (4.2.1) tries again for ever, and a process without a reader
 * would never end. Here such an error counts as written.
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
  // Nothing else runs before the flush is over, and it takes the function from here.
  fs.writeSync = writeOnce as typeof writeSync
  try {
    standardOut.flushSync()
  } catch {
    // Not open yet, or closed already.
  } finally {
    fs.writeSync = writeSync
  }
}

/** The batches of stdout. */
function ofStandardOut(): Batches {
  const standardOut = openStandardOut()
  // The stream looks at the length of all that it has at each write, so it gets a batch at a time.
  return new Batches(
    text => void standardOut.write(text),
    () => flushNow(standardOut),
  )
}

/**
 * Lines of exchanges are written together: a system call for each costs more than the line. Any other line is written at
 * once, behind those that wait: it may be the last one.
 */
class Batches {
  readonly #out: (text: string) => void
  readonly #flushed: () => void
  #text = ''
  #timer: NodeJS.Timeout | null = null

  /** @param flushed writes out what `out` has been given, at once */
  constructor(out: (text: string) => void, flushed: () => void) {
    this.#out = out
    this.#flushed = flushed
    process.once('exit', () => this.flush())
  }

  write(line: string): void {
    this.#text += line
    this.#hand()
  }

  /** The line of an exchange. */
  add(line: string): void {
    this.#text += line
    if (this.#text.length >= BATCH_CHARACTERS) this.#hand()
    else if (this.#timer === null) {
      this.#timer = setTimeout(() => this.#hand(), BATCH_MS)
      this.#timer.unref()
    }
  }

  /** Writes out all that waits, now. */
  flush(): void {
    this.#hand()
    this.#flushed()
  }

  #hand(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#text === '') return
    this.#out(this.#text)
    this.#text = ''
  }
}

/** Written in the background: a reader that is slow or stuck must not hold up the streams of all clients. */
function openStandardOut(): ReturnType<typeof openDestination> {
  const standardOut = openDestination({
    dest: 1,
    sync: false,
    maxLength: MAX_WAITING_BYTES,
  })
  let reported = false
  const report = (text: string) => {
    if (!reported) process.stderr.write(`tollgate: ${text}\n`)
    reported = true
  }
  standardOut.on('error', (error: Error) => report(`the log cannot be written any more: ${error.message}`))
  standardOut.on('drop', () => report('the log is not read fast enough; lines are being dropped'))
  return standardOut
}
