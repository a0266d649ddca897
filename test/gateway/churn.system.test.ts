/**
 * All ways to end a request, repeatedly; then checks the memory of the idle process after a collection, and its open files,
 * handles and timers. They must not grow. Ten seconds in `npm run test:system`, five minutes in full: a leak grows with the
 * number of exchanges.
 */
import { readdirSync } from 'node:fs'
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { countsOf, isFull } from '../helpers/counts.ts'
import { createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { type Resources, resourcesOf, WATCHED_GATEWAY } from '../helpers/resources.ts'
import { seeded } from '../helpers/seeded.ts'

const counts = countsOf('floods')
const full = isFull('floods')

const MEBIBYTE = 1024 * 1024
const ROUNDS = counts(3, 20)
const ROUND_MS = counts(1_500, 15_000)
const CLIENTS = 12
const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)

/** The purpose of a request: the provider reads it in the message, and the client knows whether to disconnect. */
const KINDS = [
  'whole',
  'stream',
  'leave',
  'error',
  'reset',
  'half',
  'garbage',
  'unknown model',
  'no JSON',
  'refused before its body came',
] as const
type Kind = (typeof KINDS)[number]

let provider: { url: string; close(): void }
let gateway: Gateway
let key: string

beforeAll(async () => {
  provider = await startProvider()
  gateway = await startGateway({
    entry: WATCHED_GATEWAY,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      store: 'sqlite:./data/tollgate.db',
      providers: { p: { dialect: 'openai', base_url: provider.url } },
      models: { m: { targets: [{ provider: 'p', model: 'm' }], price: PRICE, context: 8192, max_output: 1000 } },
      routes: [{ path: '/v1/chat/completions', policy: 'test' }],
    },
    policies: { test: { steps: FIVE_STEPS } },
    keep: line => line['msg'] === 'resources' || line['level'] === 'error',
  })
  key = (await createAccount(gateway, { credit: '1000000' })).key
})
afterAll(() => provider.close())

test(
  `${ROUNDS} rounds of ${ROUND_MS / 1000} s leave nothing behind`,
  async () => {
    const random = seeded(seed)
    const measurements: Measurement[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const asked = await churn(random)
      await expect.poll(inflight).toBe(0)
      measurements.push({ asked, files: openFiles(gateway.pid), ...(await resourcesOf(gateway)) })
    }
    console.log(`churn, SEED=${seed}\n${measurements.map(line).join('\n')}`)
    // The first round fills caches, compiled code and the connection pool.
    const [, first] = measurements
    const last = measurements.at(-1)!
    expect(last.heap - first!.heap, 'heap').toBeLessThan(4 * MEBIBYTE)
    // Log lines that are still to be written count here too.
    expect(last.buffers - first!.buffers, 'buffers').toBeLessThan(16 * MEBIBYTE)
    expect(last.resident - first!.resident, 'resident').toBeLessThan(counts(96, 64) * MEBIBYTE)
    // At most one connection to the provider per client; the command's own files and pipes do not change.
    expect(Math.abs(last.files - first!.files), 'files').toBeLessThanOrEqual(CLIENTS)
    expect(timersOf(last)).toBeLessThanOrEqual(timersOf(first!) + 2)
    expect((last.active['TCPSocketWrap'] ?? 0) - (first!.active['TCPSocketWrap'] ?? 0)).toBeLessThanOrEqual(CLIENTS)
    expect(gateway.logs().filter(({ level }) => level === 'error')).toEqual([])
    expect(await gateway.stop()).toBe(0)
  },
  full ? ROUNDS * (ROUND_MS + 15_000) : 30_000,
)

interface Measurement extends Resources {
  readonly asked: number
  /** The open files of the process; 0 if the system does not report them. */
  readonly files: number
}

/** Clients that send one request after the other for a round; returns their number. */
async function churn(random: () => number): Promise<number> {
  const until = performance.now() + ROUND_MS
  const agent = new Agent({ keepAlive: true })
  let asked = 0
  const client = async () => {
    while (performance.now() < until) {
      asked++
      await ask(agent, KINDS[Math.floor(random() * KINDS.length)]!)
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  agent.destroy()
  return asked
}

function ask(agent: Agent, kind: Kind): Promise<void> {
  return new Promise(resolve => {
    const model = kind === 'unknown model' ? 'unknown' : 'm'
    const stream = kind !== 'whole' && kind !== 'error'
    const body = JSON.stringify({ model, stream, messages: [{ role: 'user', content: kind }] })
    const isRefused = kind === 'refused before its body came'
    const headers = {
      'content-type': 'application/json',
      ...(isRefused ? { 'content-length': 1_000_000 } : { authorization: `Bearer ${key}` }),
    }
    const asking = request(`${gateway.url}/v1/chat/completions`, { method: 'POST', agent, headers }, answer => {
      answer.once('data', () => kind === 'leave' && asking.destroy())
      answer.once('end', () => isRefused && asking.destroy())
      answer.on('error', () => {})
      answer.once('close', resolve)
      answer.resume()
    })
    asking.on('error', () => resolve())
    if (isRefused) asking.write(body)
    else asking.end(kind === 'no JSON' ? body.slice(0, -2) : body)
  })
}

async function inflight(): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  return Number(/^tollgate_inflight_exchanges (\d+)$/m.exec(text)?.[1])
}

function openFiles(pid: number): number {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    return 0
  }
}

function timersOf({ active }: Resources): number {
  return (active['Timeout'] ?? 0) + (active['Immediate'] ?? 0)
}

function line({ asked, heap, buffers, resident, files, active }: Measurement): string {
  const mib = (bytes: number) => `${(bytes / MEBIBYTE).toFixed(1)} MiB`.padStart(10)
  const held = Object.entries(active).map(([kind, count]) => `${kind} ${count}`)
  return `${String(asked).padStart(7)} asked  heap ${mib(heap)}  buffers ${mib(buffers)}  resident ${mib(resident)}  files ${files}  ${held.join(', ')}`
}

/** A provider that keeps no record of its requests: half an hour of them would be a leak of its own. */
async function startProvider(): Promise<{ url: string; close(): void }> {
  const server = createServer((incoming, response) => {
    const pieces: Buffer[] = []
    incoming.on('data', (piece: Buffer) => pieces.push(piece))
    incoming.on('end', () => answer(kindOf(Buffer.concat(pieces)), incoming, response))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function kindOf(body: Buffer): Kind {
  const { messages } = JSON.parse(body.toString('utf8')) as { messages: { content: Kind }[] }
  return messages[0]!.content
}

const USAGE = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 }
const HEAD = { id: 'c', created: 1, model: 'm' }
const WHOLE = JSON.stringify({
  ...HEAD,
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: USAGE,
})
const event = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ ...HEAD, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
const FIRST = event({ role: 'assistant', content: 'Hello' })
const LAST = `${event({}, 'stop')}data: ${JSON.stringify({ ...HEAD, choices: [], usage: USAGE })}\n\ndata: [DONE]\n\n`

function answer(kind: Kind, incoming: IncomingMessage, response: ServerResponse): void {
  if (kind === 'error') {
    response.writeHead(500, { 'content-type': 'application/json' }).end('{"error":{"message":"no"}}')
  } else if (kind === 'whole') {
    response.writeHead(200, { 'content-type': 'application/json' }).end(WHOLE)
  } else {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(FIRST)
    setImmediate(() => {
      if (kind === 'stream') response.end(LAST)
      else if (kind === 'half') response.end()
      else if (kind === 'garbage') response.end('data: {"choices": [}\n\n')
      else if (kind === 'reset') incoming.socket.resetAndDestroy()
      // An unread stream continues until its client disconnects.
    })
  }
}
