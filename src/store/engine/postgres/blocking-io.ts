/**
 * A connection to PostgreSQL whose statements block their thread, as SQLite's do. All connections of a thread share one I/O thread
 * (io-thread.ts), which has the sockets. A call with a timeout never blocks for longer.
 */
import { getCompileCacheDir } from 'node:module'
import { dirname, extname } from 'node:path'
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads'
import type { Row, Value } from '../database.ts'

export type Wire = Row

export interface IoParts {
  readonly port: MessagePort
  /** The number of answers so far. */
  readonly answered: Int32Array<SharedArrayBuffer>
}

export interface OpenCall {
  readonly kind: 'open'
  readonly connection: number
  readonly url: string
  readonly timeoutMs: number
  /** The name in the server's list of connections. */
  readonly name: string
}

export interface WireStatement {
  readonly text: string
  /** The name of the prepared statement on the server; null: it is not prepared. */
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
  /** Null: without a timeout. */
  readonly timeoutMs: number | null
}

export interface CloseCall {
  readonly kind: 'close'
  readonly connection: number
}

export type Call = OpenCall | QueryCall | CloseCall

export interface WireError {
  readonly message: string
  /** SQLSTATE, or a code of the operating system. */
  readonly code: string | null
  /** The connection is lost; the result of the statement in progress is unknown. */
  readonly lost: boolean
  /** It timed out: a retry would take as long. */
  readonly late: boolean
  /** True: the connection was lost before anything was sent. Left out: something may have been sent. */
  readonly unsent?: boolean
}

export interface QueryResult {
  readonly rows: Row[]
  /** The rows of statements that were sent with it, in order. */
  readonly before: readonly Row[][]
  readonly changes: number
  /** `I`: no transaction, `T`: in one, `E`: in a failed one. */
  readonly status: string
}

export interface NumberedMessage<Value> {
  readonly id: number
  readonly value: Value
}

export type Answer = QueryResult | { readonly error: WireError; readonly open: boolean }

/** An error of the server or the connection. `code` is the SQLSTATE, or that of the operating system. */
export class PostgresError extends Error {
  override readonly name = 'PostgresError'
  readonly code: string | null
  readonly lost: boolean
  readonly late: boolean
  readonly unsent: boolean
  /** Whether the connection is still usable. */
  readonly open: boolean

  constructor({ message, code, lost, late, unsent = false }: WireError, open: boolean) {
    super(message)
    this.code = code
    this.lost = lost
    this.late = late
    this.unsent = unsent
    this.open = open
  }

  /**
   * True unless the caller made a mistake. The server is unreachable, ends, is full, cannot write, asks for a retry, or has revoked a
   * right (42501).
   */
  get isStorageFailure(): boolean {
    return this.lost || this.code === null || !/^(?:2[0-4]|2[6-9]|42(?!501)|P0|0A|0[12])/.test(this.code)
  }

  /**
   * Whether the server certainly undid the transaction. A server that is shutting down or lost its disk may have committed before the
   * error.
   */
  get isUndone(): boolean {
    return this.open && this.code !== null && !/^(?:08|57|58|XX)/.test(this.code)
  }
}

interface IoThread {
  call(call: Call): QueryResult
  next(): number
}

let io: IoThread | undefined

/** The I/O thread of this thread. It starts when first needed, and does not keep the process alive. */
export function ioOfThread(): IoThread {
  io ??= startIo()
  return io
}

function startIo(): IoThread {
  const { port1: port, port2 } = new MessageChannel()
  const answered = new Int32Array(new SharedArrayBuffer(4))
  const cache = getCompileCacheDir()
  const worker = new Worker(new URL(`./io-thread${extname(import.meta.url)}`, import.meta.url), {
    name: 'tollgate-postgres',
    workerData: { port: port2, answered } satisfies IoParts,
    transferList: [port2],
    stdout: true,
    stderr: true,
    // Not the process's environment: the client would take a server's name and password from it.
    env: cache === undefined ? {} : { NODE_COMPILE_CACHE: dirname(cache) },
  })
  worker.unref()
  port.unref()
  // An ended thread answers nothing more, so the next call starts another one.
  worker.once('exit', () => {
    io = undefined
  })
  let connections = 0
  let calls = 0

  /** Blocks until the call with this number is answered. Late answers to earlier calls are dropped. */
  function answerTo(id: number): Answer {
    for (;;) {
      const before = Atomics.load(answered, 0)
      const received = receiveMessageOnPort(port) as { readonly message: NumberedMessage<Answer> } | undefined
      if (received === undefined) Atomics.wait(answered, 0, before)
      else if (received.message.id === id) return received.message.value
    }
  }

  return {
    next: () => ++connections,
    call(call) {
      const id = ++calls
      port.postMessage({ id, value: call } satisfies NumberedMessage<Call>)
      const answer = answerTo(id)
      if ('error' in answer) throw new PostgresError(answer.error, answer.open)
      return answer
    },
  }
}
