/**
 * An attacker in its own process: `node flood.child.ts URL KIND CONNECTIONS KEY`. It floods until it is killed or its parent has ended, and
 * reopens each connection that the gateway ends. It prints a line when the flood has begun.
 */
import { connect, type Socket } from 'node:net'

export type FloodKind = 'tiny chunks' | 'large bodies' | 'pipelined' | 'unread answers' | 'tiny messages' | 'long texts'

const CHAT = 'POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n'
const BODY = '{"model":"large","messages":[{"role":"user","content":"hi"}]}'

interface ClientBehaviour {
  readonly head: string
  /** Sent repeatedly after the head. */
  readonly rest: Buffer
  /** Bytes per second over all connections; without it, as fast as possible. */
  readonly rate?: number
  readonly reads: boolean
  /** Sends `head` again after each answer. */
  readonly again?: boolean
}

function behaviourOf(kind: FloodKind, key: string): ClientBehaviour {
  const auth = key === '' ? '' : `Authorization: Bearer ${key}\r\n`
  switch (kind) {
    case 'tiny chunks':
      return {
        head: `${CHAT}${auth}Transfer-Encoding: chunked\r\n\r\n`,
        rest: Buffer.from('1\r\n \r\n'.repeat(10_000)),
        reads: true,
      }
    case 'large bodies':
      return {
        head: `${CHAT}${auth}Content-Length: 4000000\r\n\r\n`,
        rest: Buffer.alloc(16 * 1024, ' '),
        rate: 19_000_000,
        reads: true,
      }
    case 'pipelined':
      return {
        head: '',
        rest: Buffer.from(`GET /v1/models HTTP/1.1\r\nHost: gateway\r\n${auth}\r\n`.repeat(500)),
        reads: false,
      }
    case 'tiny messages':
      return posting(auth, `{"model":"m","messages":[${Array(140_000).fill('{"role":"user","content":"a"}').join()}]}`)
    case 'long texts':
      return posting(auth, `{"model":"m","messages":[{"role":"user","content":"${'word '.repeat(830_000)}"}]}`)
    case 'unread answers':
      return {
        head: `${CHAT}${auth}Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
        rest: Buffer.alloc(0),
        reads: false,
      }
  }
}

function posting(auth: string, body: string): ClientBehaviour {
  const head = `${CHAT}${auth}Content-Length: ${body.length}\r\n\r\n${body}`
  return { head, rest: Buffer.alloc(0), reads: true, again: true }
}

const REOPEN_MS = 5
const PAUSE_MS = 20
const LOOK_EVERY_MS = 1000

let hasBegun = false

function flood(port: number, behaviour: ClientBehaviour, connections: number): void {
  const socket: Socket = connect({ port, host: '127.0.0.1' })
  socket.on('error', () => {})
  if (behaviour.again) socket.on('data', () => socket.write(behaviour.head))
  else if (behaviour.reads) socket.resume()
  else socket.pause()
  const pauseMs = behaviour.rate === undefined ? 0 : (behaviour.rest.length * connections * 1000) / behaviour.rate
  const send = () => {
    if (socket.destroyed || behaviour.rest.length === 0) return
    const isDrained = socket.write(behaviour.rest)
    if (pauseMs > 0) setTimeout(send, isDrained ? pauseMs : pauseMs + PAUSE_MS)
    else if (isDrained) setImmediate(send)
    else socket.once('drain', send)
  }
  socket.once('connect', () => {
    if (!hasBegun) process.stdout.write('begun\n')
    hasBegun = true
    socket.write(behaviour.head)
    send()
  })
  socket.once('close', () => setTimeout(flood, REOPEN_MS, port, behaviour, connections))
}

if (process.argv[1] === import.meta.filename) {
  const [, , url, kind, connections, key = ''] = process.argv
  // If the gateway has ended, the next process on its port must not be attacked.
  const parent = process.ppid
  setInterval(() => process.ppid === parent || process.exit(), LOOK_EVERY_MS)
  for (let at = 0; at < Number(connections); at++) {
    flood(Number(new URL(url!).port), behaviourOf(kind as FloodKind, key), Number(connections))
  }
}
