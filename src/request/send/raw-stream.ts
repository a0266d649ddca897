/**
 * Raw answers that are sent as they arrive: sound, files, events. Their bytes pass unchanged. The end is withheld until the steps have
 * returned. It is the last piece of bytes, the last event, or everything from the event with the usage on. So an answer never looks
 * finished before its charge is committed.
 */
import type { AnswerIdentity, MeteredUsage, Refusal, UpstreamFailure } from '#contract'
import { type AnswerRoom, ByteCollector, roomFailure, UNCOUNTED_BYTES } from '../../common/bytes.ts'
import { RawFailure, type RawHead } from '../../providers/raw.ts'
import type { Client } from '../answer/client.ts'
import { failureFrame } from '../answer/stream.ts'
import type { AnswerStream } from './live-exchange.ts'
import { identify, usageIn } from './raw-usage.ts'

export interface RawStream extends AnswerStream {
  /** Bytes received so far. */
  readonly bytes: number
  /** The last usage in the events so far. */
  readonly usage: MeteredUsage | null
  /** @returns false if the client does not keep up. Throws a `RawFailure` if the provider reports an error. */
  take(bytes: Buffer): boolean
  /** Called when the body is complete. */
  end(): void
}

/** The client, and the head that it gets before the first piece. */
export interface RawOutlet {
  readonly client: Client
  readonly head: RawHead
}

/** Bodies up to this size are collected. So they can still be refused, and their head has their cost. */
const SMALL_BYTES = 256 * 1024

/**
 * How to send an answer, by its head; null: collect it. JSON is always collected, because half of it is useless and its usage can be
 * anywhere.
 */
export function deliveryOf({ headers, length }: RawHead): 'events' | 'bytes' | null {
  const type = (headers['content-type'] ?? '').split(';')[0]!.trim().toLowerCase()
  if (type === 'text/event-stream') return 'events'
  if (type === 'application/json' || type.endsWith('+json')) return null
  return length !== null && length <= SMALL_BYTES ? null : 'bytes'
}

/** Writes bytes, with the provider's head before the first ones. */
function write({ client, head: { status, headers, length } }: RawOutlet, bytes: Buffer): boolean {
  if (bytes.length === 0 || client.left) return true
  if (!client.headSent) {
    const framing: Readonly<Record<string, string | number>> =
      length === null ? { 'x-accel-buffering': 'no' } : { 'content-length': length }
    client.writeHead(status, { 'cache-control': 'no-store, no-transform', ...headers, ...framing })
  }
  return client.writeStream(bytes)
}

/** Writes the last bytes of an answer; all of it, if nothing was sent yet. */
function writeEnd({ client, head }: RawOutlet, bytes: Buffer): void {
  if (client.headSent) client.endStream(bytes)
  else client.sendWhole(head.status, head.headers, bytes)
}

/** Any body; the last piece is withheld. */
export class ByteStream implements RawStream {
  readonly usage = null
  bytes = 0
  readonly #outlet: RawOutlet
  #kept: Buffer = NOTHING

  constructor(outlet: RawOutlet) {
    this.#outlet = outlet
  }

  take(bytes: Buffer): boolean {
    this.bytes += bytes.length
    if (bytes.length === 0) return true
    const before = this.#kept
    this.#kept = bytes
    return write(this.#outlet, before)
  }

  end(): void {}

  finish(): void {
    writeEnd(this.#outlet, this.#kept)
  }

  fail(): void {
    this.#outlet.client.destroy()
  }
}

const NOTHING: Buffer = Buffer.alloc(0)

/** If more bytes than this follow an event with usage, its usage was not the last one. */
const MAX_TAIL_BYTES = 64 * 1024
/** The approximate memory of the object around an event. */
const EVENT_BYTES = 128

export interface EventRules extends AnswerRoom {
  /** Interprets an error event. */
  failureOf(body: Buffer): UpstreamFailure
  /** Receives the provider's id and model of the answer; null: not recorded. */
  readonly identity: AnswerIdentity | null
}

/**
 * `text/event-stream`: split into whole events, so that an error event can follow the last one. Comments are sent ahead of withheld
 * events: they carry no data, and their timing matters.
 */
export class EventStream implements RawStream {
  usage: MeteredUsage | null = null
  bytes = 0
  readonly #outlet: RawOutlet
  readonly #rules: EventRules
  readonly #split = new EventSplitter()
  /** The withheld events: from the last usage on, or from the event before [DONE] on, else only the last event. */
  #tail: Buffer[] = []
  /** The memory of these events, without the first one. */
  #tailBytes = 0
  #isEnding = false

  constructor(outlet: RawOutlet, rules: EventRules) {
    // Without the provider's length: an error event may be appended, and the body would end at that length.
    this.#outlet = { ...outlet, head: { ...outlet.head, length: null } }
    this.#rules = rules
  }

  take(bytes: Buffer): boolean {
    this.bytes += bytes.length
    const released: Buffer[] = []
    let keepsUp = true
    try {
      for (const event of this.#split.push(bytes)) this.#event(event, released)
    } finally {
      // A single event is written as received. Events before an error are written too.
      keepsUp = write(this.#outlet, released.length === 1 ? released[0]! : Buffer.concat(released))
    }
    const { waitingBytes } = this.#split
    if (waitingBytes <= Math.min(this.#rules.largestBytes, UNCOUNTED_BYTES)) return keepsUp
    const failure = roomFailure(waitingBytes, this.#rules)
    if (failure === null) return keepsUp
    throw new RawFailure(failure, this.#outlet.head.status)
  }

  end(): void {
    const rest = this.#split.rest()
    if (rest.length === 0) return
    this.#readUsage(rest)
    // A missing blank line at the end is accepted.
    this.#tail.push(rest)
  }

  finish(): void {
    writeEnd(this.#outlet, Buffer.concat(this.#tail))
  }

  /** Sends the refusal as an event. */
  fail(refusal: Refusal): void {
    this.#outlet.client.endStream(failureFrame(refusal))
  }

  #event(event: Buffer, released: Buffer[]): void {
    const hasUsage = this.#readUsage(event)
    const isData = !isComment(event)
    if (!isData && (this.#tail.length === 0 || isWhole(event))) {
      released.push(event)
      return
    }
    const isEnding = this.#isEnding || isDone(event)
    if (!hasUsage && (isEnding || !isData)) {
      this.#isEnding = isEnding
      this.#tail.push(event)
      this.#tailBytes += event.length + EVENT_BYTES
      if (this.#tailBytes <= MAX_TAIL_BYTES) return
      released.push(...this.#tail.splice(0, this.#tail.length - 1))
    } else {
      // The withheld events were not the end.
      released.push(...this.#tail)
      this.#tail = [event]
    }
    this.#isEnding = hasUsage
    this.#tailBytes = 0
  }

  #readUsage(event: Buffer): boolean {
    if (!event.includes('"usage"') && !event.includes('error')) return false
    const value = parsed(dataOf(event))
    if (isError(value)) {
      throw new RawFailure(this.#rules.failureOf(Buffer.from(JSON.stringify(value))), this.#outlet.head.status)
    }
    if (this.#rules.identity !== null) identify(this.#rules.identity, value)
    const usage = usageIn(value)
    this.usage = usage ?? this.usage
    return usage !== null
  }
}

/** False if the stream was cut inside a CRLF: the two halves stay together. */
const isWhole = (event: Buffer) => event[0] !== LF && event.at(-1) === LF

const isDone = (event: Buffer) => event.includes('[DONE]') && dataOf(event) === '[DONE]'

function isError(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { type, error } = value as { type?: unknown; error?: unknown }
  if (type === 'error') return true
  // Some providers send an empty error in every event: false, "" or [].
  return typeof error === 'string' || Array.isArray(error)
    ? error.length > 0
    : typeof error === 'object' && error !== null
}

/** Whether an event consists of comments only: it has no fields. */
const isComment = (event: Buffer) =>
  event.includes(':') &&
  event
    .toString('latin1')
    .split(/[\r\n]+/)
    .every(line => line === '' || line.startsWith(':'))

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The `data` of one event (WHATWG HTML, 9.2.6). */
function dataOf(event: Buffer): string {
  return event
    .toString('utf8')
    .split(/\r\n|\n|\r/)
    .filter(line => line.startsWith('data:'))
    .map(line => line.slice(line[5] === ' ' ? 6 : 5))
    .join('\n')
}

const LF = 10
const CR = 13

/** Splits bytes into events, each with the blank line that ends it (WHATWG HTML, 9.2.5: lines end in LF, CR or both). */
class EventSplitter {
  readonly #waiting = new ByteCollector()
  #lineIsEmpty = true
  /** Blank lines before an event belong to it. */
  #hasLines = false
  #afterCr = false

  get waitingBytes(): number {
    return this.#waiting.size
  }

  push(bytes: Buffer): Buffer[] {
    const events: Buffer[] = []
    let from = 0
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes[at]!
      const isSecondHalf = byte === LF && this.#afterCr
      this.#afterCr = byte === CR
      if (isSecondHalf) continue
      const isLineEnd = byte === LF || byte === CR
      if (isLineEnd && this.#lineIsEmpty && this.#hasLines) {
        if (byte === CR && bytes[at + 1] === LF) at++
        const last = bytes.subarray(from, at + 1)
        from = at + 1
        if (this.#waiting.size === 0) events.push(last)
        else {
          this.#waiting.add(last)
          events.push(this.#waiting.take())
        }
        this.#hasLines = false
      }
      this.#lineIsEmpty = isLineEnd
      if (!isLineEnd) this.#hasLines = true
    }
    if (from < bytes.length) this.#waiting.add(bytes.subarray(from))
    return events
  }

  /** Returns the incomplete last event. */
  rest(): Buffer {
    return this.#waiting.take()
  }
}
