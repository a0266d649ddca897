/**
 * The ledger's thread: the only connection that writes, and every operation and commit on it. It takes what has come,
 * commits it as one group, answers, and looks again; only when nothing is there it sleeps. It has no turns of an event
 * loop and waits for no promise, so nothing can come between a request and its commit.
 *
 * Its clients are the main thread and the serving threads, each with a pair of mailboxes. It takes a share from each in
 * turn. A client that does not read its answers holds up nobody: they wait here until there is room.
 *
 * Started by thread-host.ts. When it throws, it ends, and worker.ts tells everybody who waits.
 */
import { workerData } from 'node:worker_threads'
import { type Database, loadConnector } from '../engine/database.ts'
import { LARGEST_GROUP, type Waiter } from '../engine/group.ts'
import { createWriter, type DirectWriter, type Operation } from '../writer.ts'
import {
  type Attachment,
  type Numbered,
  type Pair,
  readRequest,
  sentAt,
  type Way,
  writeFailure,
  writeResult,
} from './codec.ts'
import { BELL, FULL, HEALTHY, OPEN_HOLDS, SLEEPING } from './link.ts'
import { createMailbox, NONE, TAIL } from './mailbox.ts'
import type { ThreadParts } from './thread-host.ts'

/** An answer: of which operation, and how it is written. */
interface Answer {
  readonly write: typeof writeResult
  readonly operation: Numbered
  readonly value: unknown
}

/** An operation with the client that asked. */
interface Asked extends Numbered {
  client: Client
}

/** One end of a client's pair. */
class Client {
  readonly #pair: Pair
  readonly #requests: Way
  readonly #replies: Way
  /** What its mailbox had no room for. */
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

  /** Hands over what has come, at most so much. */
  take(most: number, act: (asked: Numbered | Attachment | undefined) => void): void {
    const { ring } = this.#requests
    for (let left = most; left > 0; left--) {
      const at = ring.next()
      if (at === NONE) break
      // Zero where the record has no time.
      nowMs = sentAt(ring, at) || nowMs
      act(readRequest(this.#requests, at))
    }
    ring.release()
  }

  answer(answer: Answer): void {
    if (this.isFull || !answer.write(this.#replies, answer.operation, answer.value)) this.#waiting.push(answer)
  }

  /** Shows the other side the answers that were put, and wakes it. */
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
// Time comes with the requests: there is one clock, that of the threads that serve.
let nowMs = 0
let nextGroup: (() => void) | undefined
let writer: DirectWriter | undefined
let isEnded = false

const waiter: Waiter<Operation, unknown> = {
  resolve: (value, operation) =>
    (operation as Asked).client.answer({ write: writeResult, operation: operation as Asked, value }),
  reject: (value, operation) =>
    (operation as Asked).client.answer({ write: writeFailure, operation: operation as Asked, value }),
}

/** The answer to nobody's operation: that the database is open, or why it is not. */
const OPENED: Numbered = { id: 0, name: 'probe', request: undefined }

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

/** A database that cannot be opened is told like an operation's failure, so that the error keeps its class. */
function open(): Database | undefined {
  try {
    return connect(path, { replica: replica?.id ?? null })
  } catch (error) {
    main.answer({ write: writeFailure, operation: OPENED, value: error })
    publish()
    return undefined
  }
}

/** Until the end is asked for; what came before it is done by then. */
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
 * As much as one commit takes, and of each client no more than its share. So an operation waits for two commits at most, the
 * one that runs and its own, however much other clients ask for.
 */
function takeGroup(writer: DirectWriter): void {
  const share = Math.floor(LARGEST_GROUP / (others.size + 1))
  takeFrom(main, share, writer)
  for (const client of others.values()) takeFrom(client, share, writer)
}

function takeFrom(client: Client, most: number, writer: DirectWriter): void {
  client.take(most, asked => {
    if (asked === undefined) isEnded = true
    else if ('pair' in asked) attach(asked)
    else {
      if (asked.name === 'detach') detach(asked.request as number, writer)
      const operation = asked as Asked
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

/** Takes all that a client has published; nobody is there any more for the answers. */
function detach(number: number, writer: DirectWriter): void {
  const client = others.get(number)
  if (client === undefined) return
  others.delete(number)
  takeFrom(client, Number.POSITIVE_INFINITY, writer)
  client.close()
}

function publish(): void {
  if (writer !== undefined) {
    // Before the answers, so that whoever gets one finds these as they are then.
    Atomics.store(state, HEALTHY, writer.healthy() ? 1 : 0)
    Atomics.store(state, OPEN_HOLDS, writer.openHolds())
  }
  main.publish()
  for (const client of others.values()) client.publish()
}

/** Until something comes. It says so first and looks once more, so that the other side can spare waking it. */
function sleep(): void {
  const seen = Atomics.load(state, BELL)
  const isFull = someClient(client => client.isFull)
  if (isFull) {
    Atomics.store(state, FULL, 1)
    // There may be room since the last look.
    publish()
  }
  Atomics.store(state, SLEEPING, 1)
  if (!someClient(client => !client.isEmpty)) Atomics.wait(state, BELL, seen)
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
