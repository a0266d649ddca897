/**
 * The ledger's thread: the only connection that writes, and every operation and commit on it. It takes what has come,
 * commits it as one group, answers, and looks again; only when nothing is there it sleeps. It has no turns of an event
 * loop and waits for no promise, so nothing can come between a request and its commit.
 *
 * Started by link.ts. When it throws, it ends, and worker.ts tells everybody who waits.
 */
import { workerData } from 'node:worker_threads'
import { type Numbered, readRequest, sentAt, type Way, writeFailure, writeResult } from './codec.ts'
import { type Database, loadConnector } from './database.ts'
import type { Waiter } from './group.ts'
import { HEALTHY, OPEN_HOLDS, SLEEPING, type ThreadParts } from './link.ts'
import { createMailbox, HEAD, NONE, TAIL } from './mailbox.ts'
import { createWriter, type DirectWriter, type Operation } from './writer.ts'

const { path, connector, state, port, ...memory } = workerData as ThreadParts
const requests: Way = { ring: createMailbox(memory.requests), port }
const replies: Way = { ring: createMailbox(memory.replies), port }

const connect = await loadConnector(connector)
// Time comes with the requests: there is one clock, that of the thread that serves.
let nowMs = 0
let nextGroup: (() => void) | undefined
let writer: DirectWriter | undefined

const waiter: Waiter<Operation, unknown> = {
  resolve: (result, operation) => answer(writeResult, operation as Numbered, result),
  reject: (error, operation) => answer(writeFailure, operation as Numbered, error),
}

/** The answer to nobody's operation: that the database is open, or why it is not. */
const OPENED: Numbered = { id: 0, name: 'probe', request: undefined }

const database = open()
if (database !== undefined) {
  const schedule = (group: () => void) => {
    nextGroup = group
  }
  writer = createWriter(database, { now: () => nowMs }, schedule, path)
  answer(writeResult, OPENED, undefined)
  publish()
  serve(writer)
  database.close()
}

/** A database that cannot be opened is told like an operation's failure, so that the error keeps its class. */
function open(): Database | undefined {
  try {
    return connect(path)
  } catch (error) {
    answer(writeFailure, OPENED, error)
    publish()
    return undefined
  }
}

/** Until the end is asked for; what came before it is done by then. */
function serve(writer: DirectWriter): void {
  for (let ended = false; ; ) {
    ended = take(writer) || ended
    if (nextGroup !== undefined) {
      const run = nextGroup
      nextGroup = undefined
      run()
      publish()
    } else if (ended) return
    else sleep()
  }
}

/** Everything that has come; true when the end is among it. */
function take(writer: DirectWriter): boolean {
  const { ring } = requests
  let ended = false
  for (let at = ring.next(); at !== NONE; at = ring.next()) {
    nowMs = sentAt(ring, at)
    const operation = readRequest(requests, at)
    if (operation === undefined) ended = true
    else writer.add(operation, waiter)
  }
  ring.release()
  return ended
}

/** Puts an answer; a whole group of them is published at once, unless there is no room for it. */
function answer(write: typeof writeResult, operation: Numbered, value: unknown): void {
  for (;;) {
    const head = Atomics.load(memory.replies.ends, HEAD)
    if (write(replies, operation, value)) return
    publish()
    Atomics.wait(memory.replies.ends, HEAD, head)
  }
}

/** Shows the other side the answers that were put, and wakes it. */
function publish(): void {
  if (writer !== undefined) {
    // Before the answers, so that whoever gets one finds these as they are then.
    Atomics.store(state, HEALTHY, writer.healthy() ? 1 : 0)
    Atomics.store(state, OPEN_HOLDS, writer.openHolds())
  }
  replies.ring.publish()
  Atomics.notify(memory.replies.ends, TAIL)
}

/** Until something comes. It says so first and looks once more, so that the other side can spare waking it. */
function sleep(): void {
  const tail = Atomics.load(memory.requests.ends, TAIL)
  Atomics.store(state, SLEEPING, 1)
  if (requests.ring.empty()) Atomics.wait(memory.requests.ends, TAIL, tail)
  Atomics.store(state, SLEEPING, 0)
}
