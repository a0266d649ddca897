/**
 * A connection to PostgreSQL on which a statement blocks its thread, as SQLite's do. All connections of a thread share one
 * I/O thread (io-thread.ts), which has the sockets. Nothing is waited for without an end when the caller names one.
 */
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import type { Row, Value } from '../database.ts'

export type Wire = Row

export interface IoParts {
  readonly port: MessagePort
  /** How many answers there were. */
  readonly answered: Int32Array<SharedArrayBuffer>
}

export interface OpenCall {
  readonly kind: 'open'
  readonly connection: number
  readonly url: string
  readonly timeoutMs: number
  /** As the server's list of connections shows it. */
  readonly name: string
}

export interface WireStatement {
  readonly text: string
  /** Under which the server keeps it; null: it is not kept. */
  readonly name: string | null
  readonly values: readonly Value[]
  /** Integers are read as `bigint`. */
  readonly wide: boolean
}

export interface QueryCall {
  readonly kind: 'query'
  readonly connection: number
  /** Sent together; the answer is that of the last one. */
  readonly statements: readonly WireStatement[]
  /** Null: it may take as long as it takes. */
  readonly timeoutMs: number | null
}

export interface CloseCall {
  readonly kind: 'close'
  readonly connection: number
}

export type Call = OpenCall | QueryCall | CloseCall

export interface WireError {
  readonly message: string
  /** SQLSTATE, or that of the operating system. */
  readonly code: string | null
  /** There is no connection any more; what was under way is in doubt. */
  readonly lost: boolean
  /** Nothing was answered in time: another try would wait as long. */
  readonly late: boolean
  /** The connection was lost before anything was sent; left out: perhaps not. */
  readonly unsent?: boolean
}

export interface Answered {
  readonly rows: Row[]
  /** The rows of those that were sent with it, in their order. */
  readonly before: readonly Row[][]
  readonly changes: number
  /** `I` none, `T` in a transaction, `E` in one that has failed. */
  readonly status: string
}

export interface Numbered<Value> {
  readonly id: number
  readonly value: Value
}

export type Answer = Answered | { readonly error: WireError; readonly open: boolean }

/** What the server, or the way to it, said. `code` is the SQLSTATE, or the operating system's. */
export class PostgresError extends Error {
  override readonly name = 'PostgresError'
  readonly code: string | null
  readonly lost: boolean
  readonly late: boolean
  readonly unsent: boolean
  /** Whether the connection can be used on. */
  readonly open: boolean

  constructor({ message, code, lost, late, unsent = false }: WireError, open: boolean) {
    super(message)
    this.code = code
    this.lost = lost
    this.late = late
    this.unsent = unsent
    this.open = open
  }

  /** Not the caller's mistake: the server is away, ends, is full, cannot write, asks to try again, or has taken a right away (42501). */
  get isStorageFailure(): boolean {
    return this.lost || this.code === null || !/^(?:2[0-4]|2[6-9]|42(?!501)|P0|0A|0[12])/.test(this.code)
  }

  /** Whether the server has said that it undid the transaction. One that ends, or has lost its disk, may have committed before. */
  get isUndone(): boolean {
    return this.open && this.code !== null && !/^(?:08|57|58|XX)/.test(this.code)
  }
}

interface Io {
  call(call: Call): Answered
  next(): number
}

let io: Io | undefined

/** That of this thread; it is started when first needed, and does not keep the process alive. */
export function ioOfThread(): Io {
  io ??= startIo()
  return io
}

function startIo(): Io {
  const { port1: port, port2 } = new MessageChannel()
  const answered = new Int32Array(new SharedArrayBuffer(4))
  const cache = getCompileCacheDir()
  const worker = new Worker(new URL(`./io-thread${extname(import.meta.url)}`, import.meta.url), {
    name: 'tollgate-postgres',
    workerData: { port: port2, answered } satisfies IoParts,
    transferList: [port2],
    stdout: true,
    stderr: true,
    // Not the process's: the client would take a server's name and password from there.
    env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
  })
  worker.unref()
  port.unref()
  // Nobody would answer any more: the next call starts another one.
  worker.once('exit', () => {
    io = undefined
  })
  let connections = 0
  let calls = 0

  /** Sleeps until the call of this number is answered. What came too late for an earlier one is passed over. */
  function answerTo(id: number): Answer {
    for (;;) {
      const seen = Atomics.load(answered, 0)
      const received = receiveMessageOnPort(port) as { readonly message: Numbered<Answer> } | undefined
      if (received === undefined) Atomics.wait(answered, 0, seen)
      else if (received.message.id === id) return received.message.value
    }
  }

  return {
    next: () => ++connections,
    call(call) {
      const id = ++calls
      port.postMessage({ id, value: call } satisfies Numbered<Call>)
      const answer = answerTo(id)
      if ('error' in answer) throw new PostgresError(answer.error, answer.open)
      return answer
    },
  }
}
