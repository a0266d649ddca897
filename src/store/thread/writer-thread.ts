/**
 * The ledger's thread: the only connection that writes, with all operations and commits. It takes pending operations, commits them as one
 * group, replies, and checks again; it sleeps only if there are none. It blocks its event loop and awaits no promise, so nothing can run
 * between a request and its commit.
 *
 * Its clients are the main thread and the serving threads, each with a pair of mailboxes. It takes a share from each in turn. A client
 * that does not read its replies delays no other client: its replies wait here until its mailbox has room.
 *
 * Started by thread-host.ts. If it throws, it ends, and thread-host.ts reports that to all clients.
 */
import { workerData } from 'node:worker_threads'
import { type Database, loadConnector } from '../engine/database.ts'
import { LARGEST_GROUP, type Waiter } from '../engine/group.ts'
import { createWriter, type DirectWriter, type Operation } from '../writer.ts'
import {
  type Attachment,
  type Channel,
  type NumberedOperation,
  type Pair,
  readRequest,
  sentAt,
  writeFailure,
  writeResult,
} from './codec.ts'
import { createMailbox, NONE, TAIL } from './mailbox.ts'
import { BELL, FULL, HEALTHY, OPEN_HOLDS, SLEEPING } from './mailbox-port.ts'
import type { ThreadParts } from './thread-host.ts'

/** A reply: its operation, and how it is written. */
interface Answer {
  readonly write: typeof writeResult
  readonly operation: NumberedOperation
  readonly value: unknown
}

interface ClientOperation extends NumberedOperation {
  client: Client
}

/** One end of a client's pair. */
class Client {
  readonly #pair: Pair
  readonly #requests: Channel
  readonly #replies: Channel
  /** Replies for which its mailbox had no room. */
  #waiting: Answer[] = []

  constructor(pair: Pair) {
    this.#pair = pair
    this.#requests = { ring: createMailbox(pair.requests), port: pair.port }
    this.#replies = { ring: createMailbox(pair.replies), port: pair.port }
  }

  get isEmpty(): boolean {
    return this.#requests.ring.empty()
  }

  get isFull(): boolean {
    return this.#waiting.length > 0
  }

  /** Passes on pending operations, at most `most`. */
  take(most: number, act: (request: NumberedOperation | Attachment | undefined) => void): void {
    const { ring } = this.#requests
    for (let left = most; left > 0; left--) {
      const at = ring.next()
      if (at === NONE) break
      // Zero if the record has no time.
      nowMs = sentAt(ring, at) || nowMs
      act(readRequest(this.#requests, at))
    }
    ring.release()
  }

  answer(answer: Answer): void {
    if (this.isFull || !answer.write(this.#replies, answer.operation, answer.value)) this.#waiting.push(answer)
  }

  /** Publishes the replies, and wakes the other side. */
  publish(): void {
    if (this.isFull) {
      const waiting = this.#waiting
      this.#waiting = []
      for (const each of waiting) this.answer(each)
    }
    this.#replies.ring.publish()
    Atomics.notify(this.#pair.replies.ends, TAIL)
  }

  close(): void {
    this.#pair.port.close()
  }
}

const { path, connector, replica, state, words, pair } = workerData as ThreadParts
const main = new Client(pair)
/** By their numbers; the main thread has none. */
const others = new Map<number, Client>()

const connect = await loadConnector(connector)
// Each request has the time, so that only the serving threads' clock counts.
let nowMs = 0
let nextGroup: (() => void) | undefined
let writer: DirectWriter | undefined
let isEnded = false

const waiter: Waiter<Operation, unknown> = {
  resolve: (value, operation) =>
    (operation as ClientOperation).client.answer({
      write: writeResult,
      operation: operation as ClientOperation,
      value,
    }),
  reject: (value, operation) =>
    (operation as ClientOperation).client.answer({
      write: writeFailure,
      operation: operation as ClientOperation,
      value,
    }),
}

/** The reply without an operation: the database is open, or the reason why it is not. */
const OPENED: NumberedOperation = { id: 0, name: 'probe', request: undefined }

Atomics.store(state, FULL, 0)
const database = open()
if (database !== undefined) {
  const schedule = (group: () => void) => {
    nextGroup = group
  }
  writer = createWriter(database, { now: () => nowMs }, schedule, { path, replica, words })
  main.answer({ write: writeResult, operation: OPENED, value: undefined })
  publish()
  serve(writer)
  database.close()
}

/** A database that cannot be opened is reported like a failed operation, so that the error keeps its class. */
function open(): Database | undefined {
  try {
    return connect(path, { replica: replica?.id ?? null })
  } catch (error) {
    main.answer({ write: writeFailure, operation: OPENED, value: error })
    publish()
    return undefined
  }
}

/** Runs until the end is requested; everything before it is done by then. */
function serve(writer: DirectWriter): void {
  for (;;) {
    if (nextGroup === undefined) takeGroup(writer)
    if (nextGroup !== undefined) {
      const run = nextGroup
      nextGroup = undefined
      run()
      publish()
    } else if (isEnded) return
    else sleep()
  }
}

/**
 * Takes as many operations as one commit, and from each client at most its share. So an operation waits for at most two commits, the
 * current one and its own, however much other clients request.
 */
function takeGroup(writer: DirectWriter): void {
  const share = Math.floor(LARGEST_GROUP / (others.size + 1))
  takeFrom(main, share, writer)
  for (const client of others.values()) takeFrom(client, share, writer)
}

function takeFrom(client: Client, most: number, writer: DirectWriter): void {
  client.take(most, request => {
    if (request === undefined) isEnded = true
    else if ('pair' in request) attach(request)
    else {
      if (request.name === 'detach') detach(request.request as number, writer)
      const operation = request as ClientOperation
      operation.client = client
      writer.add(operation, waiter)
    }
  })
}

function attach({ client: number, pair }: Attachment): void {
  const client = new Client(pair)
  others.set(number, client)
  client.answer({ write: writeResult, operation: OPENED, value: undefined })
  client.publish()
}

/** Takes everything that a client has published. The replies are dropped. */
function detach(number: number, writer: DirectWriter): void {
  const client = others.get(number)
  if (client === undefined) return
  others.delete(number)
  takeFrom(client, Number.POSITIVE_INFINITY, writer)
  client.close()
}

function publish(): void {
  if (writer !== undefined) {
    // Stored before the replies are published, so that their receivers see this state.
    Atomics.store(state, HEALTHY, writer.healthy() ? 1 : 0)
    Atomics.store(state, OPEN_HOLDS, writer.openHolds())
  }
  main.publish()
  for (const client of others.values()) client.publish()
}

/** Sleeps until a client rings. It announces that first and checks once more, so that the other side wakes it only if needed. */
function sleep(): void {
  const bell = Atomics.load(state, BELL)
  const isFull = someClient(client => client.isFull)
  if (isFull) {
    Atomics.store(state, FULL, 1)
    // There may be room since the last check.
    publish()
  }
  Atomics.store(state, SLEEPING, 1)
  if (!someClient(client => !client.isEmpty)) Atomics.wait(state, BELL, bell)
  Atomics.store(state, SLEEPING, 0)
  if (isFull) {
    Atomics.store(state, FULL, 0)
    publish()
  }
}

function someClient(test: (client: Client) => boolean): boolean {
  if (test(main)) return true
  for (const client of others.values()) if (test(client)) return true
  return false
}
