/**
 * Random heads, with the server of Node.js as the oracle: both servers read the same requests or refuse the bytes. If only the gateway
 * refuses, a rule of `STRICTER` covers the head.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createDashboardApp, createListener } from '../../../src/app.ts'
import type { Limits } from '../../../src/config/configuration.ts'
import { readBody } from '../../../src/request/http/body.ts'
import { createTimelessQueue } from '../../../src/request/http/owners.ts'
import { countsOf } from '../../helpers/counts.ts'
import { headOf } from './head-chance.ts'
import { endsConnection, type Head, STRICTER } from './head-rules.ts'

const CASES = countsOf('corpus')(400, 100_000)
const seed = Number(process.env['TOLLGATE_SEED'] ?? Date.now() % 1_000_000)

interface ReadRequest {
  readonly head: Head
  /** With its trailers; null if the body is incomplete. */
  body: string | null
}

/** The requests and refusals of a server on one connection. */
interface Outcome {
  readonly read: ReadRequest[]
  /** Refused heads, bodies and bytes that are not HTTP. */
  refusals: number
  /** Whether a CONNECT has ended the connection. */
  isConnect: boolean
  /** The statuses of the answers. */
  readonly statuses: readonly number[]
}

/** One of the two servers, and its results for the open connection. */
interface Reader {
  readonly server: Server
  readonly unparsed: () => number
  outcome: Outcome
  socket: Socket | null
}

const NOTHING = (): Outcome => ({ read: [], refusals: 0, isConnect: false, statuses: [] })
const headRead = ({ httpVersion, method, url, rawHeaders }: IncomingMessage): Head => ({
  version: httpVersion,
  method: method!,
  target: url!,
  headers: rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [[name.toLowerCase(), rawHeaders[at + 1]!] as const] : [])),
})
const wholeOf = (bytes: Buffer, { rawTrailers }: IncomingMessage) =>
  JSON.stringify([bytes.toString('latin1'), rawTrailers])

function startOracle(): Reader {
  const reader: Reader = {
    server: createServer({ maxHeaderSize: 16 * 1024, requireHostHeader: false }),
    unparsed: () => 0,
    outcome: NOTHING(),
    socket: null,
  }
  const { server } = reader
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    const { outcome } = reader
    const read: ReadRequest = { head: headRead(request), body: null }
    outcome.read.push(read)
    const pieces: Buffer[] = []
    request.on('data', piece => pieces.push(piece))
    request.on('error', () => {})
    request.on('end', () => {
      read.body = wholeOf(Buffer.concat(pieces), request)
      response.end('ok')
    })
  }
  for (const event of ['request', 'checkExpectation']) server.on(event, answer)
  server.on('checkContinue', (request, response) => {
    response.writeContinue()
    answer(request, response)
  })
  for (const event of ['clientError', 'connect']) {
    server.on(event, (_error, socket: Socket) => {
      reader.outcome.refusals++
      reader.outcome.isConnect ||= event === 'connect'
      socket.destroy()
    })
  }
  return reader
}

const LIMITS = { headersMs: 60_000, requestMs: 60_000, stallMs: 60_000 } as Limits

function startGateway(): Reader {
  const work = createTimelessQueue()
  const parts = {
    nextId: () => 'req_1',
    ready: () => ({ ready: true }),
    reportBug: (_id: string, error: unknown) => {
      throw error
    },
    refused: () => void reader.outcome.refusals++,
    generation: () => ({ configuration: { trustProxy: 0 } }),
  }
  const room = { take: () => true, give: () => {} }
  const app = createDashboardApp(
    parts as unknown as Parameters<typeof createDashboardApp>[0],
    () => {},
    async ctx => {
      const read: ReadRequest = { head: headRead(ctx.req), body: null }
      reader.outcome.read.push(read)
      const { bytes } = await readBody(ctx.req, ctx.res, { bytes: Number.MAX_VALUE }, room)
      read.body = wholeOf(bytes, ctx.req)
      ctx.body = 'ok'
    },
  )
  const { server } = createListener(app, LIMITS, () => 'req_1', undefined, work)
  const reader: Reader = { server, unparsed: () => work.unparsedBytes, outcome: NOTHING(), socket: null }
  for (const event of ['clientError', 'connect']) server.on(event, () => void reader.outcome.refusals++)
  return reader
}

let oracle: Reader
let gateway: Reader
beforeAll(async () => {
  oracle = startOracle()
  gateway = startGateway()
  for (const reader of [oracle, gateway]) {
    reader.server.on('connection', socket => (reader.socket = socket))
    await once(reader.server.listen(0, '127.0.0.1'), 'listening')
  }
})
afterAll(() => {
  for (const { server } of [oracle, gateway]) {
    server.closeAllConnections()
    server.close()
  }
})

const turn = () => new Promise<void>(resolve => setImmediate(resolve))
/** A case is over after this many turns of the event loop without a change. */
const QUIET_TURNS = 4
const MOST_TURNS = 200

/** Sends the pieces on a new connection. */
async function send(reader: Reader, pieces: readonly string[]): Promise<Outcome> {
  reader.outcome = NOTHING()
  reader.socket = null
  const client = connect({
    port: (reader.server.address() as AddressInfo).port,
    host: '127.0.0.1',
    allowHalfOpen: true,
  })
  client.on('error', () => {})
  let wire = ''
  client.on('data', piece => (wire += piece.toString('latin1')))
  await once(client, 'connect')
  let sent = 0
  for (const piece of pieces) {
    client.write(piece, 'latin1')
    sent += piece.length
    await quiet(reader, client, sent)
  }
  const statuses = Array.from(wire.matchAll(/HTTP\/1\.1 ([2-5]\d\d) /g), ([, status]) => Number(status))
  const outcome = { ...structuredClone(reader.outcome), statuses }
  client.destroy()
  const { socket } = reader as Reader
  socket?.destroy()
  // Errors at the end of the connection must not count in the next case.
  for (let turns = 0; socket?.closed === false || turns < QUIET_TURNS; turns++) await turn()
  return outcome
}

async function quiet(reader: Reader, client: Socket, sent: number): Promise<void> {
  let before = ''
  let since = 0
  for (let turns = 0; turns < MOST_TURNS && since < QUIET_TURNS; turns++) {
    await turn()
    const { socket, outcome } = reader
    const isRead = socket?.destroyed || (socket !== null && socket.bytesRead >= sent && reader.unparsed() === 0)
    const isWritten = socket?.destroyed || socket?.bytesWritten === client.bytesRead
    const now = JSON.stringify([outcome, client.bytesRead, socket?.destroyed])
    since = isRead && isWritten && now === before ? since + 1 : 0
    before = now
  }
}

/** Throws if the two disagree. @returns the rule by which the gateway was stricter, or null */
function compare(expected: Outcome, found: Outcome): string | null {
  const { length } = expected.read
  for (const [at, { head, body }] of expected.read.entries()) {
    const rule = STRICTER.find(([, refuses]) => refuses(head))
    const isBroken = body === null && expected.refusals > 0
    // The gateway does not begin a pipelined request that breaks off.
    if (isBroken && at > 0 && found.read.length <= at) return null
    // The gateway answers the request in progress, and does not begin others before a CONNECT.
    if (expected.isConnect && at > 0 && found.read.length === at) return 'a request before a CONNECT'
    if (rule) {
      expect(found.read.length, rule[0]).toBe(at)
      expect(found.refusals, rule[0]).toBeGreaterThan(0)
      return rule[0]
    }
    expect(found.read[at]).toEqual({ head, body })
    if (body === null) {
      expect(found.refusals > 0).toBe(isBroken)
      return null
    }
    // RFC 9112, 9.6: the gateway ignores later bytes. Node.js has parsed some of them already.
    if (endsConnection(head)) {
      expect(found.read.length).toBe(at + 1)
      return null
    }
    expect(found.statuses[at] ?? 200).toBe(200)
  }
  expect(found.read.length).toBe(length)
  expect(found.refusals > 0).toBe(expected.refusals > 0)
  expect(found.statuses.slice(length).every(status => status >= 400)).toBe(true)
  return null
}

test(
  `${CASES} heads (seed ${seed}): Node.js and the gateway read the same, or the gateway refuses by a rule`,
  async () => {
    const counts = { read: 0, refused: 0, stricter: new Map<string, number>() }
    for (let at = 0; at < CASES; at++) {
      const pieces = headOf(seed * 1_000_003 + at)
      const [expected, found] = await Promise.all([send(oracle, pieces), send(gateway, pieces)])
      try {
        const rule = compare(expected, found)
        if (rule !== null) counts.stricter.set(rule, (counts.stricter.get(rule) ?? 0) + 1)
        else if (expected.refusals > 0) counts.refused++
        else counts.read++
      } catch (cause) {
        const shown = JSON.stringify({ pieces, expected, found }, null, 1)
        throw new Error(`TOLLGATE_SEED=${seed} reproduces it, case ${at}: ${shown}`, { cause })
      }
    }
    console.log(
      `heads, TOLLGATE_SEED=${seed}:`,
      counts.read,
      'read,',
      counts.refused,
      'refused by both, stricter:',
      counts.stricter,
    )
    // The cases must have valid and invalid requests.
    expect(Math.min(counts.read, counts.refused)).toBeGreaterThan(CASES / 20)
    expect(counts.stricter.size).toBeGreaterThan(5)
  },
  60_000 + CASES * 20,
)
