/**
 * Everything that a provider can do wrong, through the whole gateway, whole and streamed: the answer ends in time, says
 * what it must and no more, costs what the table of charges says, and leaves nothing behind. The official SDK reads
 * the same bytes as the strict reader here, and must raise an error unless the answer is complete.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  exact,
  FAULTS,
  type FakeProvider,
  type FaultMode,
  startFakeProvider,
  UNREACHABLE,
  type Unreachable,
} from '../helpers/fake-provider.ts'
import { temporaryDirectory } from '../helpers/gateway.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { parseSse, textOf } from '../helpers/sse.ts'
import { CANARY, checkAnswer, checkEnvelope, checkError, checkEvent, checkProvider, type Seen } from './fault-checks.ts'
import { CAP, type Expected, TABLE, TOTALS } from './fault-table.ts'

const TIMEOUTS = { connect: '500ms', first_byte: '1s', idle: '1s' }
/** Where no deadline is being tested a busy machine must not meet one. */
const PATIENCE = { first_byte: '60s', idle: '60s', total: '60s' }
/** No free port, which one of the hundreds of listeners here could be given, but one that the kernel gives to nobody. */
const REFUSED_URL = 'http://127.0.0.1:1'
const SLACK = 5
const AT_ONCE = 16

interface Cell {
  readonly model: string
  readonly title: string
  readonly mode: FaultMode
  readonly expected: Expected | undefined
  readonly url: string
  readonly provider: FakeProvider | null
  seen?: Seen
  /** What the next request got, and whether it took the same connection. */
  next?: string
  sameConnection?: boolean
}

let gateway: InProcess
let fine: FakeProvider
let credit: bigint
const cells: Cell[] = []
const unreachable: Unreachable[] = []

// The names of the tests are known before anything runs; the providers come in `beforeAll`.
const NAMES = [...UNREACHABLE, ...FAULTS].flatMap(({ id, title }) =>
  (['whole', 'stream'] as const).map(mode => ({ title: `${id} ${title}`, mode })),
)

beforeAll(async () => {
  fine = await startFakeProvider({ script: exact({ tokens: ['fine'] }) })
  for (const { id, title, open } of UNREACHABLE) {
    for (const mode of ['whole', 'stream'] as const) {
      const opened = id === 'F01' ? null : await open()
      if (opened) unreachable.push(opened)
      addCell(`${id} ${title}`, mode, opened?.url ?? REFUSED_URL, null)
    }
  }
  for (const { id, title, make } of FAULTS) {
    for (const mode of ['whole', 'stream'] as const) {
      const script = [make(mode), exact({ tokens: [`next of m${cells.length}`] })]
      const provider = await startFakeProvider({ script })
      addCell(`${id} ${title}`, mode, provider.baseUrl, provider)
    }
  }
  gateway = await startInProcess({ credit: '100', yaml: await configuration() })
  credit = gateway.balance().posted
  // Deadlines are tested apart: a gzip bomb in the making must not hold up the clock.
  await forAll(cells.filter(isLate), meet)
  await forAll(
    cells.filter(cell => !isLate(cell)),
    meet,
  )
  await forAll([...cells], follow)
})

afterAll(async () => {
  await gateway.stop()
  for (const { close } of unreachable) await close()
  for (const provider of [fine, ...cells.flatMap(cell => cell.provider ?? [])]) await provider.close()
  console.log(`provider faults\n${cells.map(line).join('\n')}`)
})

describe('a fault and what the client sees', () => {
  test.each(NAMES)('$title, $mode', ({ title, mode }) => {
    const cell = cells.find(other => other.title === title && other.mode === mode)!
    const { expected, seen } = cell
    if (!expected || !seen) throw new Error(`no row of the table is called "${title}"`)
    expect(seen.cut, 'the body ends as its last event says').toBe(null)
    expect(seen.ms).toBeLessThan(SLACK * promise(cell))
    expect(seen.headers.get('x-request-id')).toMatch(/^req_/)
    if (expected.end === 'error') checkError(seen, expected)
    else if (expected.end === 'event') checkEvent(seen, expected.code, expected.tokens)
    else checkAnswer(seen, expected, mode)
    if (cell.provider) checkProvider(seen, cell.sameConnection)
    expect(cell.next).toBe(cell.provider ? `next of ${cell.model}` : 'fine')
  })

  test('the table has no row too many', () => {
    expect(Object.keys(TABLE).toSorted()).toEqual([...new Set(NAMES.map(({ title }) => title))].toSorted())
  })
})

test('after a heartbeat the status is gone, so the error is an event; it still costs nothing', async () => {
  const silent = FAULTS.find(({ title }) => title === 'silence before the head')!
  await using provider = await startFakeProvider({ script: silent.make('stream') })
  const yaml = { heartbeat: { first: '200ms', every: '1s' } }
  await using own = await startInProcess({ provider: provider.baseUrl, timeouts: TIMEOUTS, yaml })
  const response = await own.chat({ stream: true })
  expect(response.status).toBe(200)
  const { comments, events, done, rest } = parseSse(await textOf(response))
  expect(comments).toContain('ping')
  expect(events).toHaveLength(1)
  checkEnvelope(JSON.parse(events[0]!.data), 'upstream_timeout')
  expect({ done, rest }).toEqual({ done: false, rest: '' })
  expect(own.receipt(response)).toMatchObject({ charged: 0n, outcome: 'failed' })
})

test('in the end nothing is held, and the account has paid what the receipts say', () => {
  const charged = cells.reduce((sum, { seen }) => sum + (seen?.receipt?.charged ?? 0n), 0n)
  // The good requests behind the faults: a token each.
  const good = BigInt(cells.length) * (10_000n + 2_000n)
  expect(gateway.balance()).toMatchObject({ held: 0n, posted: credit - charged - good })
  expect(gateway.running.store.openHolds()).toBe(0)
})

test('no connection is left over: one a provider, idle, and none when the gateway has stopped', async () => {
  const open = () => cells.map(({ provider }) => provider?.openConnections ?? 0)
  await expect.poll(() => Math.max(...open())).toBe(1)
  expect(await gateway.stop()).toBe(0)
  await expect.poll(() => Math.max(...open())).toBe(0)
})

test('the provider was shown its key, and the log was not', () => {
  expect(fine.requests[0]?.headers['authorization']).toBe(`Bearer ${CANARY}`)
  expect(JSON.stringify(gateway.log)).not.toContain(CANARY)
})

async function forAll(some: Cell[], visit: (cell: Cell) => Promise<void>): Promise<void> {
  const work = async () => {
    for (let cell = some.shift(); cell; cell = some.shift()) await visit(cell)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
}

/** Whether the provider keeps the gateway waiting until a deadline. */
function isLate({ expected }: Pick<Cell, 'expected'>): boolean {
  return expected !== undefined && expected.end !== 'answer' && expected.code === 'upstream_timeout'
}

/** Asks once, and keeps both the bytes and what the SDK made of them. */
async function meet(cell: Cell): Promise<void> {
  const { model, mode, provider } = cell
  const wire = { status: 0, headers: new Headers(), text: '', cut: null as string | null, sent: '', ms: 0 }
  const startedAt = performance.now()
  const client = clientOf(async (url, init) => {
    wire.sent = String(init?.body)
    const response = await fetch(url, init)
    Object.assign(wire, { status: response.status, headers: response.headers })
    wire.text = await textOf(response).catch((cause: unknown) => {
      wire.cut = String(cause)
      return ''
    })
    wire.ms = performance.now() - startedAt
    return new Response(wire.text, response)
  })
  const sdk = await ask(client, model, mode, AbortSignal.timeout(2 * SLACK * promise(cell)))
  const first = provider?.requests[0]
  const left = () => first?.ending?.how
  const how = first ? await vi.waitUntil(left, { timeout: SLACK * 1_000, interval: 10 }).catch(() => null) : null
  cell.seen = {
    ...wire,
    promptMost: Buffer.byteLength(wire.sent) + 16,
    sdk,
    receipt: gateway.running.store.reads.findReceipt(wire.headers.get('x-request-id') ?? ''),
    how,
    asked: provider?.requests.length ?? 0,
  }
}

/** The next request to the same provider, which is well again; where there is none, to another one. */
async function follow(cell: Cell): Promise<void> {
  const next = await ask(clientOf(fetch), cell.provider ? cell.model : 'fine', 'whole')
  cell.next = 'content' in next ? next.content : String(next.raised)
  const [first, second] = cell.provider?.requests ?? []
  cell.sameConnection = first !== undefined && first.connection === second?.connection
}

function clientOf(fetch: typeof globalThis.fetch): OpenAI {
  return new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, maxRetries: 0, fetch })
}

/** What the official SDK makes of it. */
async function ask(client: OpenAI, model: string, mode: FaultMode, signal?: AbortSignal): Promise<Seen['sdk']> {
  const request = { model, messages: [{ role: 'user' as const, content: 'Hello' }] }
  const options = signal ? { signal } : {}
  try {
    if (mode === 'whole') {
      const { choices } = await client.chat.completions.create(request, options)
      return { content: choices[0]?.message.content ?? '', finish: choices[0]?.finish_reason ?? null }
    }
    let content = ''
    let finish: string | null = null
    for await (const { choices } of await client.chat.completions.create({ ...request, stream: true }, options)) {
      content += choices[0]?.delta.content ?? ''
      finish = choices[0]?.finish_reason ?? finish
    }
    return { content, finish }
  } catch (raised) {
    return { raised }
  }
}

function addCell(title: string, mode: FaultMode, url: string, provider: FakeProvider | null): void {
  const expected = TABLE[title]?.[mode === 'whole' ? 0 : 1]
  cells.push({ model: `m${cells.length}`, title, mode, expected, url, provider })
}

/** A provider and a model for each cell, and a good one. */
async function configuration(): Promise<Record<string, unknown>> {
  const keyFile = join(await temporaryDirectory(), 'key')
  await writeFile(keyFile, CANARY)
  const providerConnections = [...cells, { model: 'fine', title: 'fine', url: fine.baseUrl, expected: undefined }]
  const provider = (providerConnection: Pick<Cell, 'title' | 'url' | 'expected'>) => ({
    dialect: 'openai',
    base_url: providerConnection.url,
    allow_insecure: true,
    api_key: `\${file:${keyFile}}`,
    timeouts: isLate(providerConnection)
      ? { ...TIMEOUTS, total: `${TOTALS[providerConnection.title] ?? 5_000}ms` }
      : { ...PATIENCE },
  })
  const model = (name: string) => ({
    targets: [{ provider: name, model: 'upstream-model' }],
    price: { ...PRICE },
    context: 8192,
    max_output: CAP,
  })
  return {
    providers: Object.fromEntries(
      providerConnections.map(providerConnection => [providerConnection.model, provider(providerConnection)]),
    ),
    models: Object.fromEntries(
      providerConnections.map(providerConnection => [providerConnection.model, model(providerConnection.model)]),
    ),
  }
}

function promise({ title, expected }: Cell): number {
  return TOTALS[title] ?? (isLate({ expected }) ? 1_000 : expected?.end === 'answer' ? 60_000 / SLACK : 2_000)
}

function line({ title, mode, expected, seen }: Cell): string {
  const said = expected && expected.end !== 'answer' ? expected.code : 'complete'
  const columns = [title.padEnd(56), mode.padEnd(6), String(seen?.status), said.padEnd(22)]
  return [...columns, `${seen?.receipt?.charged} n$`.padStart(11), `${seen?.ms.toFixed(0)} ms`.padStart(8)].join('  ')
}
