/**
 * The baseline of the benchmark: a minimal proxy in Node. It reads the body, replaces `authorization`, sends the request over
 * undici as src/providers does, and streams the answer with backpressure. It has no keys, limits or money.
 *
 *     node test/bench/bare.ts PORT UPSTREAM_PORT [http | UNDICI]
 *
 * `http` uses Node's own client instead. UNDICI is the entry file of an undici 8, whose handlers differ.
 */
import { Agent, createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import { type Dispatcher, Pool } from 'undici'

const [port, upstreamPort, client] = process.argv.slice(2)
const upstream = `http://127.0.0.1:${upstreamPort}`
const CONNECTIONS = 4096
/** Headers of one connection, which a proxy must not forward (RFC 9110, section 7.6.1). */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'transfer-encoding'])

const send = client === undefined ? overUndici() : client === 'http' ? overHttp() : await overUndici8(client)

createServer((request, response) => {
  const pieces: Buffer[] = []
  request.on('data', (piece: Buffer) => pieces.push(piece))
  request.on('end', () => send(request, Buffer.concat(pieces), response))
}).listen(Number(port), '127.0.0.1', 8192)
process.on('SIGTERM', () => process.exit())
process.on('disconnect', () => process.exit())

type Send = (request: IncomingMessage, body: Buffer, response: ServerResponse) => void

function overUndici(): Send {
  const pool = new Pool(upstream, poolOptions())
  return (request, body, response) => {
    let abort: (() => void) | undefined
    let isOver = false
    response.on('close', () => {
      if (!isOver) abort?.()
    })
    pool.dispatch(optionsOf(request, body), {
      onConnect(stop) {
        abort = stop
        if (response.destroyed) stop()
      },
      onHeaders(status, raw, resume) {
        response.on('drain', resume)
        const headers: string[] = []
        for (let index = 0; index + 1 < raw.length; index += 2) {
          const name = raw[index]!.toString('latin1').toLowerCase()
          if (!HOP_BY_HOP.has(name)) headers.push(name, raw[index + 1]!.toString('latin1'))
        }
        response.writeHead(status, headers)
        return true
      },
      onData: bytes => response.write(bytes),
      onComplete() {
        isOver = true
        response.end()
      },
      onError() {
        isOver = true
        response.destroy()
      },
    })
  }
}

/** The methods of undici 8's controller that this proxy calls. */
interface Controller {
  abort(reason: Error): void
  pause(): void
  resume(): void
}

interface NewPool {
  dispatch(options: Dispatcher.DispatchOptions, handler: object): void
}

async function overUndici8(entry: string): Promise<Send> {
  const module = (await import(entry)) as { Pool: new (origin: string, options: object) => NewPool }
  const pool = new module.Pool(upstream, poolOptions())
  return (request, body, response) => {
    let controller: Controller | undefined
    let isOver = false
    response.on('close', () => {
      if (!isOver) controller?.abort(new Error('the client disconnected'))
    })
    pool.dispatch(optionsOf(request, body), {
      onRequestStart(one: Controller) {
        controller = one
      },
      onResponseStart(one: Controller, status: number, headers: Record<string, string | string[]>) {
        response.on('drain', () => one.resume())
        for (const name of HOP_BY_HOP) delete headers[name]
        response.writeHead(status, headers)
      },
      onResponseData(one: Controller, bytes: Buffer) {
        if (!response.write(bytes)) one.pause()
      },
      onResponseEnd() {
        isOver = true
        response.end()
      },
      onResponseError() {
        isOver = true
        response.destroy()
      },
    })
  }
}

function overHttp(): Send {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS, maxFreeSockets: CONNECTIONS })
  return (request, body, response) => {
    const { path, headers } = optionsOf(request, body)
    const outgoing = httpRequest({ agent, host: '127.0.0.1', port: upstreamPort, path, method: 'POST', headers })
    outgoing.on('response', answer => {
      const kept = Object.entries(answer.headers).filter(([name]) => !HOP_BY_HOP.has(name))
      response.writeHead(answer.statusCode!, Object.fromEntries(kept))
      response.on('drain', () => answer.resume())
      answer.on('data', (bytes: Buffer) => {
        if (!response.write(bytes)) answer.pause()
      })
      answer.on('end', () => response.end())
    })
    outgoing.on('error', () => response.destroy())
    response.on('close', () => {
      if (!response.writableFinished) outgoing.destroy()
    })
    outgoing.end(body)
  }
}

/** The options of src/providers/transport.ts. */
function poolOptions() {
  const deadlines = { headersTimeout: 0, bodyTimeout: 0, keepAliveTimeout: 30_000 }
  return { connections: CONNECTIONS, pipelining: 1, ...deadlines, maxHeaderSize: 65_536, allowH2: false }
}

function optionsOf({ url, headers }: IncomingMessage, body: Buffer) {
  return {
    origin: upstream,
    path: url!,
    method: 'POST',
    headers: {
      'content-type': headers['content-type']!,
      'user-agent': headers['user-agent']!,
      accept: headers.accept!,
      'content-length': String(body.length),
      authorization: 'Bearer sk-of-the-provider',
    },
    body,
  } as const
}
