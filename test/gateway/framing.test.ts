/**
 * The end of requests: every payload of the tables with a key that could pay for it, alone, before a valid request and after one. It has
 * one reading, or is refused. The provider gets exactly the accepted requests, in the gateway's framing, and nothing else leaves a trace.
 */
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { ErrorCode } from '#contract'
import { exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw, type RawClient, type RawResponse } from '../helpers/raw-client.ts'
import { CHAT_BODY, FRAMINGS, type FramingCase } from './framing-table.ts'
import { BAD_BODIES, MALFORMED, ODD_BUT_GOOD } from './malformed-table.ts'
import { expectRefusal } from './refusal.ts'

/** The rows of the other table, with a key if possible. */
const withKey = (bytes: string) => (key: string) =>
  /authorization/i.test(bytes) ? bytes : bytes.replace(/\r\nHost:[^\r\n]*\r\n/, `$&Authorization: Bearer ${key}\r\n`)
const PAYLOADS: readonly FramingCase[] = [
  ...FRAMINGS,
  ...[...MALFORMED, ...BAD_BODIES].map(({ name, bytes, code }) => ({ name, bytes: withKey(bytes), becomes: code })),
  ...ODD_BUT_GOOD.map(({ name, bytes }) => ({ name, bytes, becomes: 'list' as const })),
]

let provider: FakeProvider
let gateway: InProcess
let client: RawClient | undefined
let eventsAtStart: number
const figures = { alone: {}, before: {}, behind: {} } as Record<string, Record<string, number>>

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    policies: { keys: [{ use: 'api-key' }] },
    yaml: {
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/models', policy: 'keys' },
        { path: '/v1/models/{id}', policy: 'keys' },
      ],
    },
  })
  eventsAtStart = gateway.running.store.reads.verify().events
})
afterEach(() => client?.socket.destroy())
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const good = () => `GET /v1/models/m HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${gateway.key}\r\n\r\n`

async function expectGood(from: RawClient): Promise<void> {
  const answer = await from.readResponse()
  expect(answer.status).toBe(200)
  expect(JSON.parse(answer.text())).toMatchObject({ id: 'm', object: 'model' })
}

async function expectAnswer(answer: RawResponse, becomes: FramingCase['becomes']): Promise<void> {
  if (becomes !== 'chat' && becomes !== 'list') return void (await expectRefusal(answer, becomes as ErrorCode))
  expect(answer.status).toBe(200)
  expect(JSON.parse(answer.text()).object).toBe(becomes === 'chat' ? 'chat.completion' : 'list')
}

/** If the answer announces the end, nothing more arrives; otherwise the connection stays usable. */
async function expectRest(from: RawClient, answer: RawResponse, next: string): Promise<string> {
  if (answer.header('connection') === 'close') {
    expect((await from.readToEnd()).toString('latin1')).toBe('')
    return 'closed'
  }
  if (next) await from.send(next)
  await expectGood(from)
  return 'open'
}

const WAYS: Readonly<Record<string, (from: RawClient, payload: FramingCase) => Promise<string>>> = {
  async alone(from, { bytes, becomes }) {
    await from.send(bytes(gateway.key))
    const answer = await from.readResponse()
    await expectAnswer(answer, becomes)
    return expectRest(from, answer, good())
  },
  async before(from, { bytes, becomes }) {
    await from.send(bytes(gateway.key) + good())
    const answer = await from.readResponse()
    await expectAnswer(answer, becomes)
    return expectRest(from, answer, '')
  },
  async behind(from, { bytes, becomes }) {
    await from.send(good() + bytes(gateway.key))
    await expectGood(from)
    const answer = await from.readResponse().catch(() => null)
    // An error that was detected while the good request was in progress ends the connection with it.
    if (answer === null) {
      expect(from.received().toString('latin1')).toBe('')
      expect(['bad_request', 'headers_too_large']).toContain(becomes)
      return 'closed without an answer'
    }
    await expectAnswer(answer, becomes)
    return expectRest(from, answer, good())
  },
}

test(`there are at least 120, and no two of them are the same`, () => {
  expect(PAYLOADS.length).toBeGreaterThanOrEqual(120)
  expect(new Set(PAYLOADS.map(({ bytes }) => bytes('key'))).size).toBe(PAYLOADS.length)
})

test.each(PAYLOADS)('$name', async payload => {
  for (const [way, run] of Object.entries(WAYS)) {
    const before = { events: gateway.running.store.reads.verify().events, dispatched: provider.requests.length }
    client = await openRaw(gateway.url)
    const how = await run(client, payload)
    client.socket.destroy()
    figures[way]![how] = (figures[way]![how] ?? 0) + 1

    const chats = payload.becomes === 'chat' ? 1 : 0
    const sent = provider.requests.slice(before.dispatched)
    expect(sent, way).toHaveLength(chats)
    for (const { raw, headers, path } of sent) {
      expect(JSON.parse(raw.toString())).toMatchObject({ ...JSON.parse(CHAT_BODY), model: 'upstream-model' })
      expect([path, headers['content-length'], headers['transfer-encoding']]).toEqual([
        '/v1/chat/completions',
        String(raw.length),
        undefined,
      ])
      // Every accepted form is the same request to the provider.
      expect(Object.keys(headers).sort()).toEqual(Object.keys(provider.requests[0]!.headers).sort())
    }
    // One hold and its settle.
    expect(gateway.running.store.reads.verify().events - before.events, way).toBe(2 * chats)
    expect(gateway.balance().held).toBe(0n)
  }
})

test('after all of them', async () => {
  expect(gateway.log.filter(line => line['msg'] === 'an unexpected error')).toEqual([])
  expect(gateway.log.filter(line => Number(line['status']) >= 500)).toEqual([])
  const { violations, openHolds, events } = gateway.running.store.reads.verify()
  // No exchange began on a connection after it was closed.
  const chats = PAYLOADS.filter(({ becomes }) => becomes === 'chat').length * Object.keys(WAYS).length
  expect([provider.requests.length, events - eventsAtStart]).toEqual([chats, 2 * chats])
  expect({ violations, openHolds }).toEqual({ violations: [], openHolds: 0 })
  expect((await gateway.chat()).status).toBe(200)
  const accepted = PAYLOADS.filter(({ becomes }) => becomes === 'chat' || becomes === 'list').length
  console.log(
    `framing: ${PAYLOADS.length} payloads (${accepted} read, ${PAYLOADS.length - accepted} refused), ${provider.requests.length - 1} dispatched`,
    figures,
  )
})
