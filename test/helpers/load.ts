/**
 * Concurrent clients, each with one request in progress at any time, until they are stopped or the gateway has ended.
 * Keeps the answers, so that a test can compare them with the ledger. Its choices come from a seeded random generator.
 *
 * @example
 * const load = startLoad({ url: gateway.url, clients: 40, choose: client => ({ serial, key, body }) })
 * await load.until(() => load.ended >= 100)
 * await gateway.kill9()
 * await load.over
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { WireUsage } from '#contract'
import { chunksOf, parseSse } from './sse.ts'

/** A request that a client is about to send. */
export interface Question {
  /** Sent as Idempotency-Key, so that the ledger's hold names it. */
  readonly serial: string
  readonly key: string
  readonly body: Readonly<Record<string, unknown>>
  /** Disconnect after this number of further answers (of any client) have ended. Default: never. */
  readonly leaveAfter?: number
  /** Stop reading after the first piece until the gateway has ended (or `stop`), and then read the rest. */
  readonly stall?: boolean
}

/** The result of a request, as its client saw it. */
export interface LoadRequest {
  readonly question: Question
  /** The x-request-id of the answer; null: no head has arrived. */
  id: string | null
  status: number | null
  /**
   * complete: a whole answer, or a stream up to [DONE]. refused: an error of the gateway. left: the client disconnected.
   * broken: the connection was lost. Null while the request is in progress.
   */
  ending: 'complete' | 'refused' | 'left' | 'broken' | null
  /** The code of a refusal. */
  code: string | null
  usage: WireUsage | null
  /** x-tollgate-cost */
  cost: string | null
  /** Whether a part of a stream has arrived. */
  arrived: boolean
  /** The number of content pieces that arrived. */
  pieces: number
  /** The error of the connection, if it broke. */
  error: string | null
}

export interface Load {
  readonly asked: readonly LoadRequest[]
  /** The number of ended requests, whatever their result. */
  readonly ended: number
  open(): LoadRequest[]
  /** Resolves at the first event after which the condition is true. Rejects if all clients have given up before. */
  until(isSo: () => boolean): Promise<void>
  /** Sends no further requests. */
  stop(): void
  /** Resolves when every client is done: after `stop`, or when the gateway has ended. */
  readonly over: Promise<void>
}

export interface LoadOptions {
  readonly url: string
  readonly clients: number
  /** The pause of a client before its next request. Default: none. */
  readonly pauseMs?: number
  choose(client: number): Question
  /** Called at the end of each answer. */
  onEnded?(asked: LoadRequest): void
}

export function startLoad({ url, clients, pauseMs = 0, choose, onEnded }: LoadOptions): Load {
  const asked: LoadRequest[] = []
  const leaving: { at: number; leave: () => void }[] = []
  const waiting = new Set<() => void>()
  let [ended, stopped, finished] = [0, false, false]
  const { promise: stalled, resolve: readAgain } = Promise.withResolvers<void>()

  const look = () => {
    for (const check of waiting) check()
  }
  async function client(index: number): Promise<void> {
    while (!stopped) {
      const question = choose(index)
      const one = newAsked(question)
      const abort = new AbortController()
      asked.push(one)
      if (question.leaveAfter !== undefined) {
        leaving.push({ at: ended + question.leaveAfter, leave: () => abort.abort() })
      }
      look()
      one.ending = await ask({ url, one, signal: abort.signal, onPiece: look, stalled })
      if (one.ending === 'broken' && !wasClosed(one)) return readAgain()
      ended++
      for (let place = leaving.length - 1; place >= 0; place--) {
        if (leaving[place]!.at <= ended) leaving.splice(place, 1)[0]!.leave()
      }
      onEnded?.(one)
      look()
      if (pauseMs > 0 && !stopped) await wait(pauseMs)
    }
  }
  const over = Promise.all(Array.from({ length: clients }, (_, index) => client(index))).then(() => {
    finished = true
    look()
  })
  return {
    asked,
    get ended() {
      return ended
    },
    open: () => asked.filter(({ ending }) => ending === null),
    until: isSo =>
      new Promise((resolve, reject) => {
        const check = () => {
          if (isSo()) resolve()
          else if (finished) reject(new Error('all clients have given up'))
          else return
          waiting.delete(check)
        }
        waiting.add(check)
        check()
      }),
    stop() {
      stopped = true
      readAgain()
    },
    over,
  }
}

/**
 * Whether the connection was closed during the request. A server closes idle connections, and all of them when it dies. A second
 * attempt on a new connection shows which it was.
 */
function wasClosed({ status, error }: LoadRequest): boolean {
  return status === null && error === 'other side closed'
}

interface Asking {
  readonly url: string
  readonly one: LoadRequest
  readonly signal: AbortSignal
  /** How long a stalled client does not read, in milliseconds. */
  readonly stalled: Promise<void>
  onPiece(): void
}

async function ask({ url, one, signal, stalled, onPiece }: Asking): Promise<LoadRequest['ending']> {
  const { key, serial, body, stall } = one.question
  let text = ''
  try {
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', 'idempotency-key': serial },
      body: JSON.stringify(body),
      signal,
    })
    one.status = answer.status
    one.id = answer.headers.get('x-request-id')
    one.cost = answer.headers.get('x-tollgate-cost')
    if (answer.headers.get('content-type')?.startsWith('text/event-stream')) {
      const decoder = new TextDecoder()
      for await (const bytes of answer.body!) {
        text += decoder.decode(bytes, { stream: true })
        one.arrived = true
        onPiece()
        if (stall) await stalled
      }
      return readStream(one, text) ?? 'broken'
    }
    return readWhole(one, await answer.json())
  } catch (error) {
    const { message, cause } = error as Error
    one.error = cause instanceof Error ? cause.message : message
    // Pieces count even if the connection broke after them.
    const ending = text === '' ? null : readStream(one, text)
    return ending ?? (signal.aborted ? 'left' : 'broken')
  }
}

function readStream(one: LoadRequest, text: string): 'complete' | 'refused' | null {
  // A broken stream may end within an event.
  const stream = parseSse(text.slice(0, text.lastIndexOf('\n\n') + 2))
  const chunks = chunksOf(stream)
  one.pieces = chunks.filter(chunk => chunk.choices?.[0]?.delta.content).length
  one.usage = chunks.findLast(chunk => chunk.usage)?.usage ?? null
  one.code = chunks.at(-1)?.error?.code ?? null
  if (one.code !== null) return 'refused'
  const finished = chunks.some(chunk => chunk.choices?.some(choice => choice.finish_reason !== null))
  return stream.done && finished ? 'complete' : null
}

function readWhole(one: LoadRequest, body: unknown): 'complete' | 'refused' {
  const { error, usage } = body as { error?: { code: string }; usage?: WireUsage }
  one.code = error?.code ?? null
  one.usage = usage ?? null
  return error === undefined ? 'complete' : 'refused'
}

function newAsked(question: Question): LoadRequest {
  return {
    question,
    id: null,
    status: null,
    ending: null,
    code: null,
    usage: null,
    cost: null,
    arrived: false,
    pieces: 0,
    error: null,
  }
}
