/**
 * Random JSON through the whole gateway in its own process, over persistent connections. Valid bodies are answered and charged once,
 * broken ones are refused without a trace, and the process is not affected.
 */
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ERRORS, type ErrorCode } from '#contract'
import { type Database, openDatabase } from '../../src/store/engine/database.ts'
import { countsOf } from '../helpers/counts.ts'
import { exact, type FakeProvider, type ProviderRequest, startFakeProvider } from '../helpers/fake-provider.ts'
import type { Gateway } from '../helpers/gateway.ts'
import { openRaw, type RawClient, type RawResponse } from '../helpers/raw-client.ts'
import { type Shape, shapeOf } from './json-shapes.ts'
import { probe } from './loop-probe.ts'
import { startProbed } from './probed.ts'
import { expectRefusal } from './refusal.ts'
import { WIDEST } from './widest-bodies.ts'

const counts = countsOf('floods')

const CHAT = '/v1/chat/completions'
const seed = Number(process.env['TOLLGATE_SEED'] ?? Date.now() % 1_000_000)
/** The number of the only body to send, to repeat a failure. */
const only = process.env['TOLLGATE_BODY'] === undefined ? null : Number(process.env['TOLLGATE_BODY'])
const BODIES = counts(250, 50_000)
const CONNECTIONS = 8

let provider: FakeProvider
let gateway: Gateway
let key: string
let ledger: Database

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  ;({ gateway, key } = await startProbed(provider, { yaml: { store: 'sqlite:./tollgate.db' }, context: '100M' }))
  ledger = openDatabase(`${gateway.dir}/tollgate.db`, { readOnly: true })
})
afterAll(async () => {
  ledger.close()
  await provider.close()
})

const head = (type: string, bytes: Buffer) =>
  `POST ${CHAT} HTTP/1.1\r\n${type.startsWith('Host:') ? '' : 'Host: gateway\r\n'}Authorization: Bearer ${key}\r\n${type}\r\nContent-Length: ${bytes.length}\r\n\r\n`
const kindsOf = (id: string) =>
  ledger
    .prepare('SELECT kind FROM event WHERE id = ? ORDER BY kind')
    .all(id)
    .map(({ kind }) => kind)
const events = () => Number(ledger.prepare('SELECT count(*) AS count FROM event').get()!['count'])

/** A connection that is reopened after an answer has closed it. */
class Connection {
  opened = 0
  private client: RawClient | null = null

  async ask({ type, bytes }: Pick<Shape, 'type' | 'bytes'>): Promise<RawResponse> {
    if (!this.client) this.opened++
    this.client ??= await openRaw(gateway.url)
    await this.client.send(Buffer.concat([Buffer.from(head(type, bytes), 'latin1'), bytes]))
    const answer = await this.client.readResponse()
    if (answer.header('connection') === 'close') this.close()
    return answer
  }

  close(): void {
    this.client?.socket.destroy()
    this.client = null
  }
}

/** A refusal with the four keys, which blames the client. */
async function expectFault(answer: RawResponse): Promise<ErrorCode> {
  const { code } = JSON.parse(answer.text()).error as { code: ErrorCode }
  expect([400, 404, 413, 415]).toContain(ERRORS[code].status)
  await expectRefusal(answer, code)
  return code
}

/** The provider's request, apart from the gateway's own fields, is what any parser finds in the body. */
function expectSameReading(bytes: Buffer, { raw, headers }: ProviderRequest): void {
  const rest = (text: string) => {
    const { model: _m, stream_options: _s, max_tokens: _t, max_completion_tokens: _c, ...others } = JSON.parse(text)
    return others as unknown
  }
  expect(headers['content-length']).toBe(String(raw.length))
  expect(isDeepStrictEqual(rest(raw.toString()), rest(bytes.toString()))).toBe(true)
}

interface SentBody {
  readonly at: number
  readonly name: string
  readonly ms: number
  readonly id: string
  readonly answered: boolean
}

async function send(connection: Connection, at: number, refusals: Map<string, number>): Promise<SentBody> {
  const shape = shapeOf(seed, at)
  const began = performance.now()
  try {
    const answer = await connection.ask(shape)
    const ms = performance.now() - began
    const answered = answer.status === 200
    if (answered) expect(shape.becomes).not.toBe('refusal')
    else {
      const code = await expectFault(answer)
      expect(`${shape.becomes} ${code}`).not.toMatch(/^answer/)
      refusals.set(code, (refusals.get(code) ?? 0) + 1)
    }
    return { at, name: shape.name, ms, id: answer.header('x-request-id')!, answered }
  } catch (error) {
    const text = shape.bytes.toString('latin1').slice(0, 1000)
    throw new Error(`TOLLGATE_SEED=${seed} TOLLGATE_BODY=${at} makes it again: ${shape.name}, ${shape.type}\n${text}`, {
      cause: error,
    })
  }
}

test(`${BODIES} bodies (seed ${seed}): each answer is charged once, and no refusal leaves a trace`, async () => {
  const before = { events: events(), dispatched: provider.requests.length }
  await probe(gateway)
  const seen: SentBody[] = []
  const refusals = new Map<string, number>()
  const connections = Array.from({ length: CONNECTIONS }, () => new Connection())
  let next = only ?? 0
  const end = only === null ? BODIES : only + 1
  const began = performance.now()
  await Promise.all(
    connections.map(async connection => {
      while (next < end) seen.push(await send(connection, next++, refusals))
      connection.close()
    }),
  )
  const seconds = (performance.now() - began) / 1000

  const answered = seen.filter(({ answered }) => answered)
  const sent = provider.requests.slice(before.dispatched)
  expect(sent).toHaveLength(answered.length)
  expect(events() - before.events).toBe(2 * answered.length)
  for (const { id, answered } of seen) expect(kindsOf(id), id).toEqual(answered ? [0, 1] : [])
  // Each was sent once: their numbers are unique.
  const numbers = new Map(sent.map(request => [request.body?.['user'], request]))
  expect(numbers.size).toBe(sent.length)
  for (const { at } of answered) {
    const { bytes } = shapeOf(seed, at)
    expectSameReading(bytes, numbers.get(JSON.parse(bytes.toString()).user)!)
  }

  const { blockedMs, busyMs, polluted } = await probe(gateway)
  expect(polluted).toEqual([])
  expect(gateway.logs().filter(({ level }) => level === 'error')).toEqual([])
  const worst = seen.toSorted((a, b) => b.ms - a.ms).slice(0, 10)
  const opened = connections.reduce((sum, connection) => sum + connection.opened, 0)
  console.log(
    `json bodies, TOLLGATE_SEED=${seed} (TOLLGATE_BODY=n sends one): ${seen.length} in ${seconds.toFixed(1)} s over ${opened} connections, ` +
      `${answered.length} answered, ${seen.length - answered.length} refused: ${[...refusals].map(each => each.join(' ')).join(', ')}\n` +
      `worst block of the loop ${blockedMs.toFixed(1)} ms, ${busyMs.toFixed(1)} ms of processor time in one go; worst answers: ` +
      worst.map(({ at, name, ms }) => `${ms.toFixed(1)} ms (${at}: ${name})`).join(', '),
  )
  if (only === null) {
    expect(answered.length).toBeGreaterThan(BODIES / 5)
    expect(seen.length - answered.length).toBeGreaterThan(BODIES / 3)
  }
})

describe('the widest bodies that are accepted, and heads of the worst kind', () => {
  /** A garbage collection may fall into one of them, so the best of a few counts. */
  const ROUNDS = counts(2, 10)
  /** Five times the promised 30 ms per body, because a machine may be slow and busy. */
  const MAX_MS = 150

  test(`block the loop for ${MAX_MS} ms at most`, async () => {
    const figures: string[] = []
    const connection = new Connection()
    for (const { name, bytes, status, type } of WIDEST) {
      let best = Number.POSITIVE_INFINITY
      for (let round = 0; round < ROUNDS; round++) {
        await probe(gateway)
        const answer = await connection.ask({ bytes, type })
        expect(answer.status, `${name}: ${answer.text().slice(0, 300)}`).toBe(status)
        best = Math.min(best, (await probe(gateway)).busyMs)
      }
      figures.push(`${best.toFixed(1)} ms ${name} (${status}, ${bytes.length} bytes)`)
      expect.soft(best, name).toBeLessThanOrEqual(MAX_MS)
    }
    connection.close()
    console.log(`blocks of the loop, best of ${ROUNDS}:\n${figures.join('\n')}`)
  })

  test('and the gateway shuts down properly', async () => {
    expect(await gateway.stop()).toBe(0)
  })
})
