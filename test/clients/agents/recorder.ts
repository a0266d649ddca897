/** A proxy between a program and the gateway that records each request and its answer. */
import { createServer, type IncomingMessage, request as send } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface RecordedRequest {
  readonly method: string
  readonly path: string
  /** The body as text; '' without one. */
  body: string
  /** Null until the head arrives. */
  status: number | null
  /** The body of an answer with an error status. */
  error: string
}

export interface Recorder {
  readonly url: string
  readonly requests: readonly RecordedRequest[]
  close(): Promise<void>
}

export async function startRecorder(gateway: string): Promise<Recorder> {
  const requests: RecordedRequest[] = []
  const { hostname, port } = new URL(gateway)

  /** Sends the head on; the caller sends the body. */
  const forward = (incoming: IncomingMessage, answered: (answer: IncomingMessage) => void) => {
    const recorded: RecordedRequest = {
      method: incoming.method!,
      path: incoming.url!,
      body: '',
      status: null,
      error: '',
    }
    requests.push(recorded)
    const { method, url: path, headers } = incoming
    const outgoing = send({ hostname, port, method: method!, path: path!, headers, agent: false }, answer => {
      recorded.status = answer.statusCode!
      if (recorded.status >= 400) answer.on('data', (data: Buffer) => void (recorded.error += data.toString()))
      answered(answer)
    })
    return { recorded, outgoing }
  }

  const server = createServer({ requestTimeout: 0, headersTimeout: 0 }, (incoming, response) => {
    const { recorded, outgoing } = forward(incoming, answer => {
      response.writeHead(answer.statusCode!, answer.rawHeaders)
      answer.pipe(response)
      answer.on('aborted', () => response.destroy())
    })
    const parts: Buffer[] = []
    incoming.on('data', (data: Buffer) => void parts.push(data))
    incoming.on('end', () => {
      recorded.body = Buffer.concat(parts).toString()
    })
    incoming.pipe(outgoing)
    outgoing.on('error', () => response.destroy())
    response.on('close', () => outgoing.destroy())
  })
  // The gateway answers an upgrade like any other request.
  server.on('upgrade', (incoming: IncomingMessage, socket) => {
    socket.on('error', () => {})
    const { outgoing } = forward(incoming, answer => {
      const head = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`]
      for (let at = 0; at < answer.rawHeaders.length; at += 2)
        head.push(`${answer.rawHeaders[at]}: ${answer.rawHeaders[at + 1]}`)
      socket.write(`${head.join('\r\n')}\r\nconnection: close\r\n\r\n`)
      answer.pipe(socket)
    })
    outgoing.on('error', () => socket.destroy())
    outgoing.end()
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    async close() {
      const closed = new Promise<void>(resolve => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}
