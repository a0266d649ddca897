/**
 * Encodes operations and their results for the mailboxes to and from the ledger's thread. Frequent ones (a hold, a settle, and their
 * results) are records with numbers at fixed places (records.ts). Everything else, and what does not fit such a record, is a structured
 * clone. A clone that is too large for the mailbox is sent through a port, and the mailbox has a record without content in its place.
 */
import { deserialize, serialize } from 'node:v8'
import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'
import type { HoldResult } from '#contract'
import { StoreError } from '../error.ts'
import { StoreUnavailable, type Written } from '../store.ts'
import type { Operation } from '../writer.ts'
import { type Mailbox, type MailboxMemory, NONE } from './mailbox.ts'
import { fits64, HOLDS, SETTLES } from './records.ts'

/** An operation with a number, which its reply has too. */
export interface NumberedOperation extends Operation {
  readonly id: number
}

export interface Reply {
  readonly id: number
  readonly result: unknown
  readonly error: Error | undefined
}

/** The memory that two threads share: a mailbox for each direction, and a port for values that are too large. */
export interface Pair {
  readonly requests: MailboxMemory
  readonly replies: MailboxMemory
  readonly port: MessagePort
}

/** A client that is attached to the running thread. */
export interface Attachment {
  readonly client: number
  readonly pair: Pair
}

/** One direction: the mailbox, and the port for values that are too large for it. */
export interface Channel {
  readonly ring: Mailbox
  readonly port: MessagePort
}

const END = 0
const CLONE = 1
const ELSEWHERE = 2
const HOLD = 3
const SETTLE = 4
const HELD = 5
const SHORT = 6
const WORD = 7
const ATTACH = 8

// Byte offsets in a record: its kind, a detail of that kind, the operation's id, the time it was sent.
const DETAIL = 4
const ID = 8
const SENT_AT = 16
const BODY = 24

/** Frequent constant results; `detail` of a `WORD` is the index. */
const WORDS: readonly unknown[] = ['settled', 'already_settled', 'no_hold', undefined, 'corrected']
/** The limit that is short; `detail` of a `SHORT`. From 2 on it is one of the hold's budgets. */
const SHORT_OF = ['account', 'key'] as const

/** Writes a request. Returns false, and writes nothing, if the mailbox is full. Throws for a value that cannot be cloned. */
export function writeRequest(channel: Channel, { id, name, request }: NumberedOperation, sentAtMs: number): boolean {
  const { ring } = channel
  const form = name === 'hold' ? HOLDS : name === 'settle' ? SETTLES : null
  const bytes = form === null ? null : form.bytes(request as never)
  if (form === null || bytes === null || BODY + bytes > ring.largest)
    return writeClone(channel, id, sentAtMs, [name, request])
  const at = begin(ring, BODY + bytes, name === 'hold' ? HOLD : SETTLE, 0, id, sentAtMs)
  return at !== NONE && put(ring, BODY + form.write(ring, at + BODY, request as never))
}

/** Reads a request or the client to attach; undefined for the end. */
export function readRequest(channel: Channel, at: number): NumberedOperation | Attachment | undefined {
  const { ring } = channel
  const kind = ring.view.getInt32(at, true)
  if (kind === END) return undefined
  const id = ring.view.getFloat64(at + ID, true)
  if (kind === ATTACH) return { client: id, pair: receiveMessageOnPort(channel.port)!.message as Pair }
  const length = ring.lengthAt(at) - BODY
  if (kind === HOLD) return { id, name: 'hold', request: HOLDS.read(ring, at + BODY, length) }
  if (kind === SETTLE) return { id, name: 'settle', request: SETTLES.read(ring, at + BODY, length) }
  const [name, request] = readClone(channel, at) as [Operation['name'], unknown]
  return { id, name, request }
}

/** When the request at a place was sent, in milliseconds since the epoch. */
export const sentAt = (ring: Mailbox, at: number): number => ring.view.getFloat64(at + SENT_AT, true)

/**
 * Attaches another client under its own number. Its memory and its port are sent through the port. Returns false, and sends nothing, if
 * the mailbox is full.
 */
export function writeAttach({ ring, port }: Channel, client: number, pair: Pair): boolean {
  const at = begin(ring, BODY, ATTACH, 0, client, 0)
  if (at === NONE) return false
  port.postMessage(pair, [pair.port])
  return put(ring, BODY)
}

/** Writes the record that ends the thread. False if the mailbox is full. */
export function writeEnd(ring: Mailbox, sentAtMs: number): boolean {
  return begin(ring, BODY, END, 0, 0, sentAtMs) !== NONE && put(ring, BODY)
}

/** Writes the result of an operation. Returns false, and writes nothing, if the mailbox is full. */
export function writeResult(channel: Channel, { id, name }: NumberedOperation, result: unknown): boolean {
  const { ring } = channel
  const word = WORDS.indexOf(result)
  if (word !== -1) return begin(ring, BODY, WORD, word, id, 0) !== NONE && put(ring, BODY)
  const hold = name === 'hold' ? (result as HoldResult) : undefined
  if (hold?.held && fits64(hold.available)) {
    const at = begin(ring, BODY + 8, HELD, 0, id, 0)
    if (at === NONE) return false
    ring.view.setBigInt64(at + BODY, hold.available, true)
    return put(ring, BODY + 8)
  }
  if (hold?.held === false && hold.reason === 'short' && fits64(hold.available) && fits64(hold.onHold)) {
    const at = begin(ring, BODY + 16, SHORT, hold.of === 'budget' ? 2 + hold.budget! : SHORT_OF.indexOf(hold.of), id, 0)
    if (at === NONE) return false
    ring.view.setBigInt64(at + BODY, hold.available, true)
    ring.view.setBigInt64(at + BODY + 8, hold.onHold, true)
    return put(ring, BODY + 16)
  }
  return writeClone(channel, id, 0, [result])
}

/** Writes the error of an operation. Returns false, and writes nothing, if the mailbox is full. */
export function writeFailure(channel: Channel, { id }: NumberedOperation, error: unknown): boolean {
  return writeClone(channel, id, 0, [undefined, encodeError(error)])
}

export function readReply(channel: Channel, at: number): Reply {
  const { view } = channel.ring
  const kind = view.getInt32(at, true)
  const detail = view.getInt32(at + DETAIL, true)
  const id = view.getFloat64(at + ID, true)
  if (kind === WORD) return { id, result: WORDS[detail], error: undefined }
  if (kind === HELD || kind === SHORT) {
    const available = view.getBigInt64(at + BODY, true)
    if (kind === HELD) return { id, result: { held: true, available }, error: undefined }
    const onHold = view.getBigInt64(at + BODY + 8, true)
    const of = detail < 2 ? { of: SHORT_OF[detail] } : { of: 'budget', budget: detail - 2 }
    return { id, result: { held: false, reason: 'short', ...of, available, onHold }, error: undefined }
  }
  const [result, error] = readClone(channel, at) as [unknown, EncodedError?]
  return { id, result, error: error && decodeError(error) }
}

/** Begins a record and returns its place; `NONE` if the mailbox is full. */
function begin(ring: Mailbox, most: number, kind: number, detail: number, id: number, sentAtMs: number): number {
  const at = ring.reserve(most)
  if (at === NONE) return NONE
  const { view } = ring
  view.setInt32(at, kind, true)
  view.setInt32(at + DETAIL, detail, true)
  view.setFloat64(at + ID, id, true)
  view.setFloat64(at + SENT_AT, sentAtMs, true)
  return at
}

function put(ring: Mailbox, length: number): true {
  ring.put(length)
  return true
}

function writeClone({ ring, port }: Channel, id: number, sentAtMs: number, value: unknown): boolean {
  const clone = serialize(value)
  const length = BODY + clone.length
  const isHere = length <= ring.largest
  const at = begin(ring, isHere ? length : BODY, isHere ? CLONE : ELSEWHERE, 0, id, sentAtMs)
  if (at === NONE) return false
  if (isHere) ring.bytes.set(clone, at + BODY)
  // Sent before its record is visible, so that it has arrived when the reader looks for it.
  else port.postMessage(clone)
  return put(ring, isHere ? length : BODY)
}

function readClone({ ring, port }: Channel, at: number): unknown {
  const kind = ring.view.getInt32(at, true)
  if (kind === ELSEWHERE) return deserialize(receiveMessageOnPort(port)!.message as Uint8Array)
  if (kind !== CLONE) throw new Error(`The kind ${kind} of a record is unknown`)
  // Copies the record, because `deserialize` does not copy byte arrays.
  return deserialize(Buffer.from(ring.bytes.subarray(at + BODY, at + ring.lengthAt(at))))
}

/** An error as data: the name of its class, and SQLite's codes. */
interface EncodedError {
  readonly name: string
  readonly message: string
  readonly written?: Written
  readonly cause?: EncodedError
  readonly code?: string
  readonly errcode?: number
}

function encodeError(error: unknown): EncodedError {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) }
  const { name, message } = error
  if (error instanceof StoreUnavailable) {
    return { name, message, written: error.written, cause: encodeError(error.cause) }
  }
  const { code, errcode } = error as { code?: string; errcode?: number }
  return { name, message, ...(code === undefined ? {} : { code }), ...(errcode === undefined ? {} : { errcode }) }
}

const CLASSES: Readonly<Record<string, new (message: string) => Error>> = { StoreError, TypeError, RangeError }

function decodeError({ name, message, written, cause, code, errcode }: EncodedError): Error {
  if (written !== undefined) return new StoreUnavailable(written, cause && decodeError(cause))
  const error = new (CLASSES[name] ?? Error)(message)
  if (code !== undefined) Object.assign(error, { code })
  if (errcode !== undefined) Object.assign(error, { errcode })
  return error
}
