/** Deliberately slow clients of all kinds; none of them ever closes its end. */
import { connect, type Socket } from 'node:net'

export type SlowKind =
  | 'nothing at all'
  | 'a head without an end'
  | 'a head by the byte'
  | 'a header at a time'
  | 'a body without an end'
  | 'a body by the byte'
  | 'a chunk at a time'
  | 'half a head behind a good request'

export interface SlowOne {
  readonly kind: SlowKind
  /** Seconds from the first byte of its slow request (or from the connection) until the other side ended it. */
  readonly cutAfterS: number
  /** The answer that it got; null if the connection ended without one. */
  readonly status: number | null
}

export interface Crowd {
  readonly ones: readonly SlowOne[]
  /** The number of clients that sent a valid chat before. */
  readonly goodRequests: number
  /** Resolves when the last of them was cut. */
  readonly over: Promise<void>
  /** Closes their ends of the connections. */
  leave(): void
}

/** Each sends a bit at this interval, with different offsets. */
export const DRIP = { everyMs: 400, turnMs: 10 }

const HEAD = 'POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n'
const BODY = '{"model":"m","messages":[{"role":"user","content":"hi"}]}'

interface ClientBehaviour {
  /** Sent at once, before the slow request. */
  readonly good?: (key: string) => string
  /** The slow request's first bytes. */
  readonly begin: (key: string) => string
  /** The bytes that it sends from time to time. */
  readonly drip: string
}

const keyed = (key: string) => `${HEAD}Authorization: Bearer ${key}\r\n`
const BEHAVIOURS: Readonly<Record<SlowKind, ClientBehaviour>> = {
  'nothing at all': { begin: () => '', drip: '' },
  'a head without an end': { begin: () => HEAD, drip: '' },
  'a head by the byte': { begin: () => `${HEAD}x: `, drip: 'y' },
  'a header at a time': { begin: () => HEAD, drip: 'x: y\r\n' },
  'a body without an end': { begin: key => `${keyed(key)}Content-Length: 1000\r\n\r\n`, drip: '' },
  'a body by the byte': { begin: key => `${keyed(key)}Content-Length: 1000\r\n\r\n{`, drip: ' ' },
  'a chunk at a time': { begin: key => `${keyed(key)}Transfer-Encoding: chunked\r\n\r\n`, drip: '1\r\n \r\n' },
  'half a head behind a good request': {
    good: key => `${keyed(key)}Content-Length: ${BODY.length}\r\n\r\n${BODY}`,
    begin: () => 'GET /v1/models HTTP/1.1\r\nHost',
    drip: '',
  },
}

/** Connects `count` of them, alternating the kinds. */
export async function startSlow(options: {
  url: string
  key: string
  count: number
  kinds: readonly SlowKind[]
}): Promise<Crowd> {
  const { url, key, count, kinds } = options
  const ones: SlowOne[] = []
  const sockets: Socket[] = []
  const dripping: { socket: Socket; drip: string }[] = []
  const ends: Promise<void>[] = []
  let goodRequests = 0

  async function join(kind: SlowKind): Promise<void> {
    const { good, begin, drip } = BEHAVIOURS[kind]
    const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
    sockets.push(socket)
    let text = ''
    socket.setEncoding('latin1').on('data', (more: string) => {
      text += more
    })
    const ended = new Promise<void>(resolve => {
      socket
        .once('end', resolve)
        .once('close', resolve)
        .on('error', () => resolve())
    })
    await new Promise(resolve => socket.once('connect', resolve).once('error', resolve))
    let since = performance.now()
    if (good) {
      goodRequests++
      socket.write(good(key), 'latin1')
      while (!text.includes('"usage"')) {
        if (socket.destroyed || socket.readableEnded) throw new Error(`the good request was not answered: ${text}`)
        await new Promise(resolve => socket.once('data', resolve).once('close', resolve))
      }
      text = ''
      since = performance.now()
    }
    const first = begin(key)
    if (first) socket.write(first, 'latin1')
    if (drip) dripping.push({ socket, drip })
    ends.push(
      ended.then(() => {
        const status = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1]
        ones.push({ kind, cutAfterS: (performance.now() - since) / 1000, status: status ? Number(status) : null })
      }),
    )
  }

  let turn = 0
  const turns = DRIP.everyMs / DRIP.turnMs
  const timer = setInterval(() => {
    for (let at = turn++ % turns; at < dripping.length; at += turns) {
      const { socket, drip } = dripping[at]!
      if (socket.writable && !socket.readableEnded) socket.write(drip)
    }
  }, DRIP.turnMs)

  // Fifty at a time: the kernel's backlog is limited.
  for (let at = 0; at < count; at += 50) {
    await Promise.all(Array.from({ length: Math.min(50, count - at) }, (_, i) => join(kinds[(at + i) % kinds.length]!)))
  }
  return {
    ones,
    get goodRequests() {
      return goodRequests
    },
    over: Promise.all(ends).then(() => clearInterval(timer)),
    leave: () => {
      for (const socket of sockets) socket.destroy()
    },
  }
}
