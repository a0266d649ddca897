/**
 * The ledger's thread: the only connection that writes, and every operation and commit on it. It takes what has come,
 * commits it as one group, answers, and looks again; only when nothing is there it sleeps. It has no turns of an event
 * loop and waits for no promise, so nothing can come between a request and its commit.
 *
 * Started by link.ts. When it throws, it ends, and worker.ts tells everybody who waits.
 */
import { workerData } from 'node:worker_threads'
import { decodeOperation, type Encoded, encodeError, encodeResult } from './codec.ts'
import { type Database, loadConnector } from './database.ts'
import { END, HEALTHY, OPEN_HOLDS, receive, SLEEPING, send, type ThreadParts } from './link.ts'
import { createMailbox, HEAD, TAIL } from './mailbox.ts'
import { createWriter, type DirectWriter } from './writer.ts'

const { path, connector, state, port, ...memory } = workerData as ThreadParts
const requests = createMailbox(memory.requests)
const replies = createMailbox(memory.replies)

const connect = await loadConnector(connector)
// Time comes with the requests: there is one clock, that of the thread that serves.
let nowMs = 0
let answered: unknown[] = []
let nextGroup: (() => void) | undefined

const database = open()
if (database !== undefined) {
  const schedule = (group: () => void) => {
    nextGroup = group
  }
  const writer = createWriter(database, { now: () => nowMs }, schedule, path)
  ready(writer)
  serve(writer)
  database.close()
}

/** A database that cannot be opened is told like an operation's failure, so that the error keeps its class. */
function open(): Database | undefined {
  try {
    return connect(path)
  } catch (error) {
    answered.push([0, null, encodeError(error)])
    answer()
    return undefined
  }
}

function ready(writer: DirectWriter): void {
  Atomics.store(state, HEALTHY, 1)
  Atomics.store(state, OPEN_HOLDS, writer.openHolds())
  answered.push([0, null])
  answer()
}

/** Until the end is asked for; what came before it is done by then. */
function serve(writer: DirectWriter): void {
  for (let ended = false; ; ) {
    ended = take(writer) || ended
    if (nextGroup !== undefined) {
      const run = nextGroup
      nextGroup = undefined
      run()
      // Before the answers, so that whoever gets one finds these as they are then.
      Atomics.store(state, HEALTHY, writer.healthy() ? 1 : 0)
      Atomics.store(state, OPEN_HOLDS, writer.openHolds())
      answer()
    } else if (ended) return
    else sleep()
  }
}

/** Everything that has come; true when the end is among it. */
function take(writer: DirectWriter): boolean {
  for (let text = receive(requests, port); text !== undefined; text = receive(requests, port)) {
    if (text === END) return true
    const [sentAtMs, ...operations] = JSON.parse(text) as [number, ...[id: number, ...Encoded][]]
    nowMs = sentAtMs
    for (const [id, ...encoded] of operations) enter(writer, id, encoded)
  }
  return false
}

function enter(writer: DirectWriter, id: number, encoded: Encoded): void {
  const operation = decodeOperation(encoded)
  writer.add(operation, {
    resolve: result => void answered.push([id, encodeResult(operation.name, result)]),
    reject: error => void answered.push([id, null, encodeError(error)]),
  })
}

function answer(): void {
  if (answered.length === 0) return
  const text = JSON.stringify(answered)
  answered = []
  for (;;) {
    const head = Atomics.load(memory.replies.ends, HEAD)
    if (send(replies, port, text)) break
    Atomics.wait(memory.replies.ends, HEAD, head)
  }
  Atomics.notify(memory.replies.ends, TAIL)
}

/** Until something comes. It says so first and looks once more, so that the other side can spare waking it. */
function sleep(): void {
  const tail = Atomics.load(memory.requests.ends, TAIL)
  Atomics.store(state, SLEEPING, 1)
  if (requests.empty()) Atomics.wait(memory.requests.ends, TAIL, tail)
  Atomics.store(state, SLEEPING, 0)
}
