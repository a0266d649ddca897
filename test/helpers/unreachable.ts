/** Providers that cannot be reached: F01 to F04 of the list of upstream faults. */
import { generateKeyPairSync, sign } from 'node:crypto'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'
import { Worker } from 'node:worker_threads'

/** An address with a fault. */
export interface Unreachable extends AsyncDisposable {
  /** With the scheme that causes the fault. */
  readonly url: string
  close(): Promise<void>
}

/** F01 to F04, one row per variant. */
export const UNREACHABLE: readonly { readonly id: string; readonly title: string; open(): Promise<Unreachable> }[] = [
  { id: 'F01', title: 'the connection is refused', open: async () => fixed(REFUSED_URL) },
  { id: 'F02', title: 'connecting takes for ever', open: blackHole },
  { id: 'F03', title: 'the name does not exist', open: async () => fixed(UNKNOWN_HOST_URL) },
  { id: 'F04', title: 'TLS is spoken to plain HTTP', open: () => badTls('plain') },
  { id: 'F04', title: 'TLS without a certificate', open: () => badTls('no-certificate') },
  { id: 'F04', title: 'TLS with an untrusted certificate', open: () => badTls('self-signed') },
]

/** `.invalid` never exists, and a resolver knows that without a query (RFC 6761, 6.4). */
export const UNKNOWN_HOST_URL = 'http://provider.invalid'

/** A loopback port without a listener. It is reserved, because another test could take a port that was only free before. */
export const REFUSED_URL = 'http://127.0.0.1:2'

/**
 * A port that neither accepts nor refuses: its listener sleeps and its queue is full, so the kernel drops each SYN.
 * (`backlog: 1` holds two connections on Linux. Elsewhere the queue may be longer, so it is filled until one hangs.)
 */
export async function blackHole(): Promise<Unreachable> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads')
     const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port)
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
     })`,
    { eval: true },
  )
  const port = await new Promise<number>((resolve, reject) => worker.once('message', resolve).once('error', reject))
  const fillers: Socket[] = []
  for (let hangs = false; !hangs && fillers.length < 256; ) {
    const filler = connect(port, '127.0.0.1')
    filler.on('error', () => {})
    fillers.push(filler)
    hangs = await new Promise(resolve => {
      const timer = setTimeout(() => resolve(true), 150)
      filler.once('connect', () => {
        clearTimeout(timer)
        resolve(false)
      })
    })
  }
  return fixed(`http://127.0.0.1:${port}`, async () => {
    for (const filler of fillers) filler.destroy()
    await worker.terminate()
  })
}

/** A port at which TLS fails: plain HTTP answers, the certificate is missing, or no authority signed it. */
export async function badTls(kind: 'plain' | 'no-certificate' | 'self-signed'): Promise<Unreachable> {
  const server: Server =
    kind === 'plain'
      ? createServer(socket => {
          socket.on('error', () => {})
          socket.once('data', () => socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n'))
        })
      : createTlsServer(kind === 'self-signed' ? selfSigned() : {})
  const sockets = new Set<Socket>()
  server.on('tlsClientError', () => {})
  server.on('connection', socket => sockets.add(socket))
  const port = await listen(server)
  return fixed(`https://127.0.0.1:${port}`, async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise(resolve => server.close(resolve))
  })
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

function fixed(url: string, close: () => Promise<void> = async () => {}): Unreachable {
  return { url, close, [Symbol.asyncDispose]: close }
}

/** Makes a certificate (RFC 5280, 4.1), so that the repository contains no private key. */
function selfSigned(): { key: string; cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const ecdsaWithSha256 = der(0x30, Buffer.from('06082a8648ce3d040302', 'hex'))
  const commonName = der(0x30, Buffer.from('0603550403', 'hex'), der(0x0c, Buffer.from('localhost')))
  const name = der(0x30, der(0x31, commonName))
  const validity = der(0x30, der(0x17, Buffer.from('250101000000Z')), der(0x17, Buffer.from('490101000000Z')))
  const key = publicKey.export({ type: 'spki', format: 'der' })
  const unsigned = der(0x30, der(0x02, Buffer.of(1)), ecdsaWithSha256, name, validity, name, key)
  const signature = der(0x03, Buffer.of(0), sign('sha256', unsigned, privateKey))
  const certificate = der(0x30, unsigned, ecdsaWithSha256, signature).toString('base64')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.replace(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  }
}

/** Tag, length, content. */
function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const length = content.length < 128 ? [content.length] : [0x82, content.length >> 8, content.length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...length), content])
}
