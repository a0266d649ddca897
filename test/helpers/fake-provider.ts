/**
 * A model provider to test against: a real HTTP server on a free loopback port that follows a script. It records
 * each request, what it sent, and how the request ended.
 *
 * @example
 * const provider = await startFakeProvider({ script: gated({ tokens: 3 }) })
 * const answer = fetch(`${provider.baseUrl}/chat/completions`, …)
 * const request = await provider.waitForRequest()
 * await request.step(2) // Sends the role and the first token.
 * const { how, ms } = await provider.waitForClose(request)
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { WireUsage } from '#contract'
import { Served } from './served.ts'

export * from './answers.ts'
export * from './faults.ts'
export * from './unreachable.ts'

/** The reaction of a provider to a request. */
export interface Behaviour {
  readonly name: string
  /** Runs before the body is read; then the request has no `raw` and no `body`. */
  readonly early?: boolean
  run(call: Call): Promise<void>
}

/** One behaviour for all requests, a list in the order of requests, or a function of the request, which has then been read. */
export type Script = Behaviour | Behaviour[] | ((request: ProviderRequest) => Behaviour)

/** How a request ended: with a complete answer, by FIN or RST of the other side, or by the provider. */
export interface RequestEnd {
  readonly how: 'answered' | 'fin' | 'reset' | 'provider'
  /** Milliseconds since the request's head arrived. */
  readonly ms: number
  /** The same moment on the clock of `performance.now()`. */
  readonly at: number
}

/** The record of one request. */
export interface ProviderRequest {
  /** The number of the request, from 0, in the order of arrival. */
  readonly index: number
  /** The number of its connection, from 0. */
  readonly connection: number
  readonly method: string
  readonly path: string
  /** With lower-case names; values of repeated headers are joined. */
  readonly headers: Readonly<Record<string, string>>
  readonly rawHeaders: readonly string[]
  readonly raw: Buffer
  /** The body as JSON; undefined if it is not JSON. */
  readonly body: Record<string, unknown> | undefined
  readonly emitted: {
    readonly bytes: number
    /** The first 64 KiB of the body as sent. */
    readonly text: string
    /** The output tokens that were sent, of all choices. */
    readonly tokens: number
    /** The last usage that was sent. */
    readonly usage: WireUsage | null
  }
  /** Null while it is in progress. */
  readonly ending: RequestEnd | null
  /** Lets a held answer send a number of steps; resolves when they are sent. */
  step(count?: number): Promise<void>
  /** Lets a held answer continue freely. */
  release(): void
}

/** The operations of a behaviour on its connection. Those that send return whether the other side is still connected. */
export interface Call {
  readonly request: ProviderRequest
  /** The provider's own address. */
  readonly url: string
  /** Sends the response head; chunked unless there is a content-length. */
  head(status: number, headers?: Record<string, string | string[]>): void
  /** Sends a part of the body; `contents` goes into the record. Resolves when the socket accepts more. */
  write(data: string | Buffer, meter?: Meter): Promise<boolean>
  /** Ends the body as its framing requires. */
  end(data?: string | Buffer, meter?: Meter): Promise<void>
  /** Sends bytes unchanged, instead of `head` and `write`. Resolves when the kernel has them. */
  sendRaw(data: string | Buffer): Promise<boolean>
  /** Closes the connection with FIN, even in the middle of an answer. */
  fin(): void
  /** Resets the connection (RST). */
  reset(): void
  /** Waits at the request's gate and runs `send`. Returns false if the other side has disconnected. */
  step(send: () => Promise<unknown>): Promise<boolean>
  /** Resolves when the connection is closed. */
  readonly closed: Promise<void>
}

/** The contents of a piece of an answer, for the record. */
export interface Meter {
  readonly tokens?: number
  readonly usage?: WireUsage
}

export interface FakeProvider extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly url: string
  /** For `base_url`: the address with `/v1`. */
  readonly baseUrl: string
  readonly port: number
  readonly requests: readonly ProviderRequest[]
  /** The number of all connections so far, and of the open ones. */
  readonly connections: number
  readonly openConnections: number
  /** Replaces the script for later requests. */
  script(script: Script): void
  /** Resolves with the request of that index (from 0) once it has been read. */
  waitForRequest(index?: number): Promise<ProviderRequest>
  /** Resolves when the request has ended. */
  waitForClose(request: ProviderRequest): Promise<RequestEnd>
  /** Steps the latest request; waits for one if there was none. */
  step(count?: number): Promise<void>
  /** Lets all held answers, also later ones, continue freely. */
  release(): void
  close(): Promise<void>
}

/** Starts a provider. Close it at the end of the test. */
export async function startFakeProvider(options: { script: Script }): Promise<FakeProvider> {
  let { script } = options
  let released = false
  let connections = 0
  const sockets = new Map<Socket, number>()
  const exchanges: Served[] = []
  /** In the order of `index`, in which they were read. */
  const requests: ProviderRequest[] = []
  const arrivals: (() => void)[] = []

  const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0, noDelay: true })
  server.on('connection', socket => {
    sockets.set(socket, connections++)
    socket.on('close', () => sockets.delete(socket))
    // A reset is a normal end; without a listener it would end the test run.
    socket.on('error', () => {})
  })
  server.on('request', (incoming, response) => void serve(incoming, response))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const fixed = typeof script === 'function' ? null : next(script)
    const served = new Served(incoming, response, sockets.get(incoming.socket) ?? -1, url)
    if (!fixed?.early) await served.read()
    if (released) served.gate.release()
    served.request.index = exchanges.push(served) - 1
    requests.push(served.request)
    for (const arrived of arrivals.splice(0)) arrived()
    try {
      const behaviour = fixed ?? (script as (request: ProviderRequest) => Behaviour)(served.request)
      await behaviour.run(served)
    } finally {
      served.gate.close()
    }
  }

  const waitForRequest = async (index = 0): Promise<ProviderRequest> => {
    while (requests.length <= index) await new Promise<void>(resolve => arrivals.push(resolve))
    return requests[index]!
  }

  const close = async (): Promise<void> => {
    for (const exchange of exchanges) exchange.gate.close()
    const closed = new Promise<void>(resolve => server.close(() => resolve()))
    server.closeAllConnections()
    for (const socket of sockets.keys()) socket.destroy()
    await closed
  }

  return {
    url,
    baseUrl: `${url}/v1`,
    port,
    requests,
    get connections() {
      return connections
    },
    get openConnections() {
      return sockets.size
    },
    script(other) {
      script = other
    },
    waitForRequest,
    waitForClose: request => exchanges[request.index]!.ended,
    async step(count) {
      await waitForRequest()
      await requests.at(-1)!.step(count)
    },
    release() {
      released = true
      for (const exchange of exchanges) exchange.gate.release()
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The behaviour for the next request of a list. After the last one, it answers with an error that says so. */
function next(script: Behaviour | Behaviour[]): Behaviour {
  if (!Array.isArray(script)) return script
  return script.shift() ?? SCRIPT_IS_OVER
}

const SCRIPT_IS_OVER: Behaviour = {
  name: 'the script is over',
  async run(call) {
    call.head(500, { 'content-type': 'application/json' })
    await call.end(
      '{"error":{"message":"the script has no behaviour left","type":"test","param":null,"code":"script_over"}}',
    )
  },
}
