/** Bodies that do not come, answers that nobody reads, and answers that cannot be written: nobody else suffers from them. */
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { Context } from 'koa'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { definePlugin, refuse } from '#contract'
import { exact, type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { openRaw, type RawClient } from '../helpers/raw-client.ts'
import { expectRefusal } from './refusal.ts'

const CHAT = '/v1/chat/completions'
const MESSAGES = [{ role: 'user', content: 'Hello' }]

let provider: FakeProvider
const clients: RawClient[] = []

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact() })
})
beforeEach(() => provider.script(exact()))
afterEach(() => {
  for (const client of clients.splice(0)) client.socket.destroy()
})
afterAll(() => provider.close())

async function connect(to: InProcess): Promise<RawClient> {
  const client = await openRaw(to.url)
  clients.push(client)
  return client
}

describe('who sends nothing takes nobody’s room', () => {
  const HEAD = `POST ${CHAT} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n`

  /** So many connections without a key, each with a request whose body does not come. */
  async function openSilent(to: InProcess, count: number, rest: string): Promise<RawClient[]> {
    const silent = []
    for (let at = 0; at < count; at++) {
      const client = await connect(to)
      await client.send(HEAD + rest)
      silent.push(client)
    }
    return silent
  }

  test('by what it says that it will send', async () => {
    await using small = await startInProcess({
      provider: provider.baseUrl,
      yaml: { limits: { bodies_in_flight: '1MiB', body: '1MiB' } },
    })
    await openSilent(small, 4, 'Content-Length: 1048576\r\n\r\n')
    for (let round = 0; round < 10; round++) expect((await small.chat()).status).toBe(200)
  })

  test('by being there: of too many the one that took longest is refused', async () => {
    await using small = await startInProcess({ provider: provider.baseUrl, yaml: { limits: { max_inflight: 3 } } })
    const silent = await openSilent(small, 3, 'Content-Length: 10\r\n\r\n{')
    // All of them are being read when each of three more has taken the place of one.
    for (const client of silent) {
      const [more] = await openSilent(small, 1, 'Content-Length: 10\r\n\r\n{')
      const answer = await client.readResponse()
      await expectRefusal(answer, 'overloaded')
      expect(answer.header('connection')).toBe('close')
      expect(more!.received().toString()).toBe('')
    }
    expect((await small.chat()).status).toBe(200)
    expect((await small.chat({ stream: true })).status).toBe(200)
  })
})

describe('answers that nobody reads', () => {
  test('are as many bytes as bodies may be: then nothing more is asked for, and nothing charged', async () => {
    await using small = await startInProcess({
      provider: provider.baseUrl,
      credit: '1000',
      model: { context: '100M', max_output: '50M' },
      yaml: { limits: { bodies_in_flight: '1MiB' } },
    })
    provider.script(exact({ tokens: ['x'.repeat(16 * 1024 * 1024)] }))
    const deaf = await connect(small)
    await deaf.post(CHAT, { model: 'm', messages: MESSAGES }, { authorization: `Bearer ${small.key}` })
    await deaf.readUntil('xxx')
    deaf.pause()
    provider.script(exact())
    const before = { posted: small.balance().posted, dispatched: provider.requests.length }
    const refused = await small.chat()
    await expectRefusal(refused, 'overloaded')
    expect(refused.headers.get('retry-after')).toBe('1')
    expect({ posted: small.balance().posted, dispatched: provider.requests.length }).toEqual(before)
    expect(small.balance().held).toBe(0n)
    // A stream waits at the provider.
    expect(await (await small.chat({ stream: true })).text()).toContain('[DONE]')
    deaf.resume()
    expect((await deaf.readResponse()).end).toBe('length')
    let answer = await small.chat()
    while (answer.status === 503) answer = await small.chat()
    expect(answer.status).toBe(200)
  })
})

describe('an answer that cannot be written', () => {
  const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const
  const step = (name: string, handle: (ctx: Context, next: () => Promise<void>) => Promise<void>) =>
    definePlugin({ name, settings: NO_SETTINGS, create: () => handle as never })

  test.each<[name: string, headers: Record<string, string>]>([
    ['a line break', { 'x-why': 'a\nb' }],
    ['no value', { 'x-why': undefined as unknown as string }],
    ['a name with a blank', { 'x why': 'a' }],
    ['a trailer', { trailer: 'x-sum' }],
    ['another length', { 'Content-Length': '1' }],
    ['another connection', { connection: 'upgrade' }],
  ])('a header of a refusal with %s is left out, and the log says so', async (_name, headers) => {
    const no = step('no', async () => {
      throw refuse('forbidden', { headers: { ...headers, 'x-good': 'yes' } })
    })
    await using stubborn = await startInProcess({
      provider: provider.baseUrl,
      plugins: [no],
      steps: [...FIVE_STEPS, { use: 'no' }],
    })
    const answer = await stubborn.chat()
    await expectRefusal(answer, 'forbidden')
    expect(answer.headers.get('x-good')).toBe('yes')
    const line = await stubborn.waitForLog(line => line['msg'] === 'a header of a refusal cannot be sent')
    expect(line['header']).toBe(Object.keys(headers)[0])
    expect(stubborn.balance()).toMatchObject({ posted: 10_000_000_000n, held: 0n })
  })

  test.each(['trailer', 'connection', 'keep-alive', 'upgrade'])('a step’s own %s does not break it', async name => {
    const sets = step('sets', async (ctx, next) => {
      ctx.set(name, 'x-sum')
      await next()
    })
    await using stubborn = await startInProcess({
      provider: provider.baseUrl,
      plugins: [sets],
      steps: [{ use: 'sets' }, ...FIVE_STEPS],
    })
    for (const stream of [false, true]) {
      const answer = await stubborn.chat({ stream })
      expect(answer.status).toBe(200)
      expect(answer.headers.get(name)).not.toBe('x-sum')
      expect(await answer.text()).toContain(stream ? '[DONE]' : 'chat.completion')
    }
  })

  test('what cannot be sent at all is a plain 500, without what steps have set', async () => {
    const breaks = step('breaks', async (ctx, next) => {
      await next()
      ctx.set('x-mine', 'yes')
      // What no check foresees.
      const { writeHead } = ctx.res
      ctx.res.writeHead = ((status: number, ...rest: never[]) => {
        if (ctx.res.hasHeader('x-mine')) throw new TypeError('this head cannot be written')
        return writeHead.call(ctx.res, status, ...rest)
      }) as never
    })
    await using stubborn = await startInProcess({
      provider: provider.baseUrl,
      plugins: [breaks],
      steps: [{ use: 'breaks' }, ...FIVE_STEPS],
    })
    const answer = await stubborn.chat()
    await expectRefusal(answer, 'internal_error')
    expect(answer.headers.get('x-mine')).toBe(null)
    const line = await stubborn.exchangeLine(answer.headers.get('x-request-id')!)
    expect(line).toMatchObject({ status: 500, outcome: 'failed', code: 'internal_error' })
    expect(stubborn.log.filter(line => line['msg'] === 'an unexpected error').length).toBeGreaterThan(0)
  })

  test('and where not even that can be sent, the connection breaks', async () => {
    const breaks = step('breaks', async (ctx, next) => {
      await next()
      ctx.res.writeHead = () => {
        throw new TypeError('no head can be written')
      }
    })
    await using stubborn = await startInProcess({
      provider: provider.baseUrl,
      plugins: [breaks],
      steps: [{ use: 'breaks' }, ...FIVE_STEPS],
    })
    await expect(stubborn.chat()).rejects.toThrow('fetch failed')
    await stubborn.waitForLog(line => line['msg'] === 'exchange')
    await stubborn.stop()
  })

  test('a stream of a step’s own may take longer than a client that takes nothing', async () => {
    const slow = step('slow', async ctx => {
      ctx.type = 'text/plain'
      ctx.body = Readable.from(
        (async function* () {
          for (const piece of ['a', 'b', 'c']) {
            yield piece
            await pause(600)
          }
        })(),
      )
    })
    await using patient = await startInProcess({
      plugins: [slow],
      steps: [{ use: 'slow' }, ...FIVE_STEPS],
      yaml: { limits: { stall: '1s' } },
    })
    expect(await (await patient.chat()).text()).toBe('abc')
  })
})
