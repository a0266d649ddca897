/** A server like the gateway's listeners, and a client that sends given bytes. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ClientRequest } from '../../../src/request/http/client-request.ts'
import { CutResponse } from '../../../src/request/http/cut-response.ts'
import { answerMalformed } from '../../../src/request/http/malformed.ts'
import { openRaw, type RawClient } from '../../helpers/raw-client.ts'

export interface Listener extends AsyncDisposable {
  readonly port: number
  /** Opens a connection and sends the bytes. */
  send(bytes: string | Buffer): Promise<RawClient>
}

export async function listen(
  handle: (request: IncomingMessage, response: ServerResponse) => void,
  options: { readonly headersTimeout?: number } = {},
): Promise<Listener> {
  const server = createServer(
    {
      IncomingMessage: ClientRequest,
      ServerResponse: CutResponse,
      requireHostHeader: false,
      maxHeaderSize: 16 * 1024,
      connectionsCheckingInterval: 20,
      ...options,
    },
    handle,
  )
  server.on('clientError', answerMalformed)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const clients: RawClient[] = []
  return {
    port,
    async send(bytes) {
      const client = await openRaw(port)
      clients.push(client)
      await client.send(bytes)
      return client
    },
    async [Symbol.asyncDispose]() {
      for (const client of clients) client.reset()
      server.closeAllConnections()
      await new Promise(resolve => server.close(resolve))
    },
  }
}
