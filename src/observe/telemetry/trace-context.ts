/**
 * W3C Trace Context (level 1): the trace of an exchange, whether it is sampled, and the headers for its provider. Baggage is neither read
 * nor forwarded.
 */
import type { IncomingHttpHeaders } from 'node:http'
import type { Random } from '#contract'

/** One attempt of a traced exchange. Times are monotonic milliseconds. */
export interface TracedAttempt {
  /** `provider/model`, or the provider of a raw route. */
  readonly target: string
  /** Empty where the exchange is not sampled. */
  readonly spanId: string
  readonly startedMs: number
  /** Null: in progress. */
  endedMs: number | null
}

/** The trace of one exchange. All fields are set in the constructor, in one order. */
export class Trace {
  /** 32 hexadecimal digits. */
  readonly id: string
  /** Of the client's span, 16 hexadecimal digits; null: the trace begins here. */
  readonly parentId: string | null
  /** Of the exchange's own span. */
  readonly spanId: string
  /** `trace-flags` as they are passed on. */
  readonly flags: number
  /** `tracestate` as the client sent it, with its members checked; null: none. */
  readonly state: string | null
  readonly attempts: TracedAttempt[] = []
  readonly #random: Random

  constructor(parent: Parent | null, ratio: number, random: Random) {
    this.id = parent?.traceId ?? hexOf(4, random)
    this.parentId = parent?.spanId ?? null
    this.flags = parent === null ? Number(isSampled(this.id, ratio)) : parent.flags & KNOWN_FLAGS
    this.state = parent?.state ?? null
    // A span that is not recorded cannot be a parent: the client's span stays the parent.
    this.spanId = this.isSampled || parent === null ? hexOf(2, random) : parent.spanId
    this.#random = random
  }

  get isSampled(): boolean {
    return (this.flags & SAMPLED) !== 0
  }

  /** Records the start of an attempt at a target. */
  begin(target: string, startedMs: number): TracedAttempt {
    const spanId = this.isSampled ? hexOf(2, this.#random) : ''
    const attempt: TracedAttempt = { target, spanId, startedMs, endedMs: null }
    this.attempts.push(attempt)
    return attempt
  }

  /** Writes the headers that a provider gets. */
  propagate(headers: Record<string, string>, attempt: TracedAttempt): void {
    headers['traceparent'] = `00-${this.id}-${attempt.spanId || this.spanId}-0${this.flags}`
    if (this.state !== null) headers['tracestate'] = this.state
  }
}

/** The trace context of a client's request. */
export interface Parent {
  readonly traceId: string
  readonly spanId: string
  readonly flags: number
  readonly state: string | null
}

const SAMPLED = 1
/** Level 2 adds `random` (2); a shared of version 00 sets no others. */
const KNOWN_FLAGS = 3

/** A later version may have more fields after another dash. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/
const NO_TRACE = '0'.repeat(32)
const NO_SPAN = '0'.repeat(16)

/** Reads `traceparent` and `tracestate`. Null: missing or invalid; then the client's `tracestate` is ignored. */
export function parentIn(headers: IncomingHttpHeaders): Parent | null {
  const header = headers['traceparent']
  if (typeof header !== 'string') return null
  const match = TRACEPARENT.exec(header)
  if (match === null) return null
  const [, version, traceId, spanId, flags, more] = match as unknown as [
    string,
    string,
    string,
    string,
    string,
    string?,
  ]
  if (version === 'ff' || (version === '00' && more !== undefined) || traceId === NO_TRACE || spanId === NO_SPAN)
    return null
  return { traceId, spanId, flags: Number.parseInt(flags, 16), state: stateIn(headers['tracestate']) }
}

const MAX_MEMBERS = 32
/** The specification allows a longer `tracestate` to be cut; here it is left out. */
const MAX_STATE_CHARACTERS = 512
const SIMPLE_KEY = '[a-z][\\da-z_*/-]{0,255}'
const TENANT_KEY = '[\\da-z][\\da-z_*/-]{0,240}@[a-z][\\da-z_*/-]{0,13}'
/** Printable ASCII without comma and equals sign, not ending in a blank. */
const MEMBER = new RegExp(`^(${SIMPLE_KEY}|${TENANT_KEY})=[ -+\\--<>-~]{0,255}[!-+\\--<>-~]$`)

/** Returns a valid `tracestate`. Null: it is missing, invalid or too long; the trace itself is kept. */
function stateIn(header: string | readonly string[] | undefined): string | null {
  if (header === undefined || header.length === 0) return null
  const text = typeof header === 'string' ? header : header.join(',')
  if (text.length > MAX_STATE_CHARACTERS) return null
  const members = text
    .split(',')
    .map(each => each.trim())
    .filter(each => each !== '')
  if (members.length === 0 || members.length > MAX_MEMBERS || !members.every(each => MEMBER.test(each))) return null
  const keys = new Set(members.map(each => each.slice(0, each.indexOf('='))))
  return keys.size === members.length ? members.join(',') : null
}

/**
 * Whether a trace that begins here is recorded. The random part of its id decides, so that other programs with the same ratio decide
 * alike. Of its 56 bits, 52 are compared, because a number cannot hold all.
 */
function isSampled(traceId: string, ratio: number): boolean {
  return Number.parseInt(traceId.slice(18, 31), 16) >= (1 - ratio) * 2 ** 52
}

/** Returns this many random words of 32 bits as hexadecimal digits. Never all zeros, which is an invalid id. */
export function hexOf(words: number, random: Random): string {
  let text = ''
  let isZero = true
  for (let word = 0; word < words; word++) {
    const value = Math.floor(random() * 2 ** 32)
    isZero &&= value === 0
    text += value.toString(16).padStart(8, '0')
  }
  return isZero ? `${text.slice(0, -1)}1` : text
}
