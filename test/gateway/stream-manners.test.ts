/**
 * Streamed answers: content and order, and the cost of silence and slow clients. An answer that could not be charged never looks
 * complete.
 */
import { readFile } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Chunk, definePlugin, formatMoney, type Ledger } from '#contract'
import { openStore } from '../../src/store/engine/sqlite.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import {
  type Behaviour,
  errorAnswer,
  exact,
  type FakeProvider,
  gated,
  sse,
  startFakeProvider,
  stream,
  withhold,
} from '../helpers/fake-provider.ts'
import { temporaryDirectory } from '../helpers/gateway.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectWithin } from '../helpers/promised.ts'
import { openRaw } from '../helpers/raw-client.ts'
import { chunksOf, contentOf, parseSse, readSse, sseEvents, textOf } from '../helpers/sse.ts'
import { until, untilTruthy } from '../helpers/until.ts'
import { expectRefusal, REQUEST_ID } from './refusal.ts'

/** 10 prompt tokens at 1,000 and 3 at 2,000 nano-dollars. */
const CHARGE = 16_000n
const NO_SETTINGS = { type: 'object', additionalProperties: false, properties: {} } as const

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    yaml: { heartbeat: { first: '100ms', every: '1s' } },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

/** A provider that sends exactly these events. */
const saying = (...events: unknown[]): Behaviour => ({
  name: 'says',
  async run(call) {
    call.head(200, { 'content-type': 'text/event-stream' })
    for (const event of events) if (!(await call.write(sse(event)))) return
    await call.end()
  },
})

const chunk = (index: number, delta: object, finish_reason: string | null = null) => ({
  id: 'chatcmpl-theirs',
  object: 'chat.completion.chunk',
  created: 1_790_000_000,
  model: 'upstream-model',
  choices: [{ index, delta, finish_reason }],
})
const USAGE = { prompt_tokens: 10, completion_tokens: 3, total_tokens: 13 }
const USAGE_CHUNK = { ...chunk(0, {}), choices: [], usage: USAGE }

async function charged<Result>(act: () => Promise<Result>, of: InProcess = gateway): Promise<[Result, bigint]> {
  const before = of.balance().posted
  const result = await act()
  // On a slow machine the settle is still in the spool when the answer ends.
  await untilTruthy(() => of.balance().held === 0n)
  return [result, before - of.balance().posted]
}

/** The real store, with a part of the ledger replaced. */
const openWith =
  (change: (ledger: Ledger) => Partial<Ledger>): typeof openStore =>
  async options => {
    const store: LocalStore = await openStore(options)
    return { ...store, ledger: { ...store.ledger, ...change(store.ledger) } }
  }
const diskError = (written: StoreUnavailable['written'] = 'not_written') =>
  new StoreUnavailable(written, new Error('the disk failed'))

describe('an answer that cannot be charged', () => {
  const broken = openWith(() => ({ settle: () => Promise.reject(diskError()) }))

  test('is sent completely if the charge is in the spool, and is charged as soon as the ledger works', async () => {
    const dir = await temporaryDirectory()
    await using spooling = await startInProcess({
      provider: provider.baseUrl,
      open: broken,
      store: `sqlite:${dir}/tollgate.db`,
    })
    const { posted } = spooling.balance()
    // Both at once: a settle is retried for some seconds.
    const [whole, streamed] = await Promise.all([spooling.chat(), spooling.chat({ stream: true })])
    expect(whole.status).toBe(200)
    expect(whole.headers.get('x-tollgate-cost')).toBe(formatMoney(CHARGE))
    expect(await readSse(streamed)).toMatchObject({ done: true, rest: '' })
    await until(() => expect(spooling.balance()).toMatchObject({ posted: posted - 2n * CHARGE, held: 0n }))
    for (const answer of [whole, streamed]) {
      expect(spooling.receipt(answer)).toMatchObject({ charged: CHARGE, outcome: 'answered', source: 'reported' })
    }
    // The spool is emptied after the ledger's commit.
    await until(async () => expect((await readFile(`${dir}/tollgate.db.spool`, 'utf8')).trim()).toBe(''))
  })

  test('does not look complete without a spool, and is charged as soon as the ledger works', async () => {
    // A store in memory has no spool.
    await using waiting = await startInProcess({ provider: provider.baseUrl, open: broken })
    const { posted } = waiting.balance()
    const streaming = waiting
      .chat({ stream: true })
      .then(async answer => [answer.status, await textOf(answer)] as const)
    const [whole, [status, text]] = await Promise.all([waiting.chat(), streaming])
    await expectRefusal(whole, 'store_unavailable')
    expect(whole.headers.has('x-tollgate-cost')).toBe(false)
    expect(status).toBe(200)
    const events = parseSse(text)
    expect(contentOf(events)).toBe('t0 t1 t2')
    expect(events.done).toBe(false)
    const codes = chunksOf(events).map(({ error }) => error?.code)
    expect(codes.filter(code => code !== undefined)).toEqual(['store_unavailable'])
    expect(codes.at(-1)).toBe('store_unavailable')
    expect(events.events.map(({ data }) => data).join()).not.toContain('"finish_reason":"stop"')
    await until(() => expect(waiting.balance()).toMatchObject({ posted: posted - 2n * CHARGE, held: 0n }))
  })

  test.each([
    { tries: 'before anything was written', after: false },
    { tries: 'although it was written', after: true },
  ])(
    'is charged once and sent normally if the third attempt succeeds, and the first two fail $tries',
    async ({ after }) => {
      const tried = new Map<string, number>()
      const open = openWith(ledger => ({
        async settle(request) {
          const count = (tried.get(request.exchange) ?? 0) + 1
          tried.set(request.exchange, count)
          if (count > 2) return ledger.settle(request)
          if (after) await ledger.settle(request)
          throw diskError(after ? 'unknown' : 'not_written')
        },
      }))
      await using flaky = await startInProcess({ provider: provider.baseUrl, open })
      const [, nano] = await charged(async () => {
        const [whole, streamed] = await Promise.all([flaky.chat(), flaky.chat({ stream: true })])
        expect(whole.status).toBe(200)
        expect(whole.headers.get('x-tollgate-cost')).toBe(formatMoney(CHARGE))
        expect(await readSse(streamed)).toMatchObject({ done: true, rest: '' })
        for (const answer of [whole, streamed]) expect(flaky.receipt(answer)).toMatchObject({ charged: CHARGE })
      }, flaky)
      expect([...tried.values()]).toEqual([3, 3])
      expect(nano).toBe(2n * CHARGE)
    },
  )
})

describe('a hold that fails', () => {
  test.each([
    { hold: 'is not written', written: false, stream: false },
    { hold: 'is not written', written: false, stream: true },
    { hold: 'is written all the same', written: true, stream: true },
  ])('and $hold: nothing is sent or stays held (stream $stream)', async ({ written, stream }) => {
    const open = openWith(ledger => ({
      async hold(request) {
        if (written) await ledger.hold(request)
        throw diskError(written ? 'unknown' : 'not_written')
      },
    }))
    await using failing = await startInProcess({ provider: provider.baseUrl, open })
    const [before, calls] = [failing.balance(), provider.requests.length]
    const answer = await failing.chat({ stream })
    await expectRefusal(answer, 'store_unavailable')
    expect(answer.headers.get('retry-after')).toBe('1')
    expect(provider.requests).toHaveLength(calls)
    // An uncertain hold is released after the client's answer.
    await until(() => expect(failing.balance()).toMatchObject({ posted: before.posted, held: 0n }))
  })
})

describe('an ordinary stream', () => {
  test.each<[name: string, body: object, script: Behaviour, wantsUsage: boolean]>([
    ['usage not asked for', {}, stream({ tokens: 3 }), false],
    ['usage refused', { stream_options: { include_usage: false } }, stream({ tokens: 3 }), false],
    ['usage that was not requested from the provider', {}, stream({ tokens: 3, includeUsage: true }), false],
    ['usage asked for', { stream_options: { include_usage: true } }, stream({ tokens: 3 }), true],
    [
      'usage in the event with the finish reason',
      {},
      saying(
        chunk(0, { role: 'assistant', content: '' }),
        ...['t0', ' t1', ' t2'].map(content => chunk(0, { content })),
        { ...chunk(0, {}, 'stop'), usage: USAGE },
        '[DONE]',
      ),
      false,
    ],
  ])('%s', async (_name, body, script, wantsUsage) => {
    provider.script(script)
    const [answer, nano] = await charged(async () => {
      const answer = await gateway.chat({ stream: true, ...body })
      return { answer, events: await readSse(answer) }
    })
    const chunks = chunksOf(answer.events)
    expect(answer.answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
    expect(answer.answer.headers.get('x-request-id')).toMatch(REQUEST_ID)
    // `readSse` throws for anything after [DONE], such as a second one.
    expect(answer.events).toMatchObject({ done: true, rest: '', comments: [] })
    expect(chunks[0]?.choices[0]?.delta.role).toBe('assistant')
    expect(contentOf(answer.events)).toBe('t0 t1 t2')
    for (const field of ['id', 'created', 'model', 'object'] as const) {
      expect(new Set(chunks.map(each => each[field])).size, field).toBe(1)
    }
    expect(chunks[0]?.model).toBe('m')
    expect(chunks.flatMap(each => each.choices.map(choice => choice.finish_reason)).filter(Boolean)).toEqual(['stop'])
    if (wantsUsage) {
      expect(chunks.at(-1)).toMatchObject({ choices: [], usage: USAGE })
      for (const each of chunks.slice(0, -1)) expect(each.usage).toBe(null)
    } else for (const each of chunks) expect(each).not.toHaveProperty('usage')
    expect(provider.requests.at(-1)?.body).toMatchObject({ stream_options: { include_usage: true } })
    expect(nano).toBe(CHARGE)
    provider.script(exact({ tokens: 3 }))
  })

  test('the answer is sent as it arrives: only its end is withheld', async () => {
    provider.script(gated({ tokens: ['one', 'two', 'three'] }))
    const index = provider.requests.length
    const pending = gateway.chat({ stream: true })
    const request = await provider.waitForRequest(index)
    // The role waits for the first content: until then another attempt is possible.
    await request.step(2)
    const events = sseEvents(await pending)
    const next = async () => JSON.parse((await events.next()).value!.data) as Chunk
    expect((await next()).choices[0]?.delta.role).toBe('assistant')
    for (const token of ['one', 'two', 'three']) {
      if (token !== 'one') await request.step()
      expect((await next()).choices[0]?.delta.content).toBe(token)
    }
    // The finish reason is withheld until the charge is written.
    const last = next()
    await request.step()
    expect(await Promise.race([last, pause(50, 'nothing')])).toBe('nothing')
    request.release()
    expect((await last).choices[0]?.finish_reason).toBe('stop')
    expect((await events.next()).done).toBe(true)
    provider.script(exact({ tokens: 3 }))
  })

  test('parallel choices keep their order, even if one ends before the other', async () => {
    const events = [
      chunk(0, { role: 'assistant', content: '' }),
      chunk(1, { role: 'assistant', content: '' }),
      chunk(1, { content: 'B1' }),
      chunk(0, { content: 'A1' }),
      chunk(0, {}, 'stop'),
      chunk(1, { content: 'B2' }),
      chunk(1, {}, 'length'),
    ]
    provider.script(saying(...events, USAGE_CHUNK, '[DONE]'))
    const answer = await readSse(await gateway.chat({ stream: true, n: 2 }))
    expect([contentOf(answer, 0), contentOf(answer, 1)]).toEqual(['A1', 'B1B2'])
    expect(chunksOf(answer).map(({ choices }) => choices[0])).toMatchObject(events.map(({ choices }) => choices[0]!))
    expect(answer.done).toBe(true)
    provider.script(exact({ tokens: 3 }))
  })

  test('a tool call arrives in its pieces', async () => {
    const parts = ['{"city":', '"Ber', 'lin"}']
    provider.script(exact({ toolCalls: [{ id: 'call_7', name: 'weather', arguments: parts }] }))
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
    const answer = await readSse(await gateway.chat({ stream: true, tools }))
    const calls = chunksOf(answer).flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? [])
    expect(calls[0]).toMatchObject({ index: 0, id: 'call_7', type: 'function', function: { name: 'weather' } })
    expect(calls.map(call => call.function?.arguments ?? '').join('')).toBe(parts.join(''))
    expect(chunksOf(answer).at(-1)?.choices[0]?.finish_reason).toBe('tool_calls')
    provider.script(exact({ tokens: 3 }))
  })
})

describe('a provider that fails', () => {
  test.each([
    ['500', errorAnswer(500), 'upstream_error'],
    ['429', errorAnswer(429, undefined, { 'retry-after': '3' }), 'upstream_rate_limited'],
    ['an error for an event', saying({ error: { message: 'no', type: 'server_error' } }), 'upstream_error'],
    ['nothing at all', saying(), 'upstream_invalid'],
  ] as const)('before the first event has a status of its own: %s', async (_name, script, code) => {
    provider.script(script)
    const [answer, nano] = await charged(() => gateway.chat({ stream: true }))
    await expectRefusal(answer, code)
    expect(answer.headers.get('retry-after')).toBe(code === 'upstream_rate_limited' ? '3' : null)
    expect(nano).toBe(0n)
    provider.script(exact({ tokens: 3 }))
  })

  test('that fails after a comment is reported by an event, because the status has been sent', async () => {
    provider.script(withhold(errorAnswer(500)))
    const index = provider.requests.length
    const [events, nano] = await charged(async () => {
      const answer = await gateway.chat({ stream: true })
      expect(answer.status).toBe(200)
      provider.requests[index]!.release()
      return parseSse(await textOf(answer))
    })
    expect(events.comments).toEqual(['ping'])
    expect(chunksOf(events).map(({ error }) => error?.code)).toEqual(['upstream_error'])
    expect(events.done).toBe(false)
    expect(nano).toBe(0n)
    provider.script(exact({ tokens: 3 }))
  })

  test('comments are sent during silence, and are not part of the answer', async () => {
    provider.script(withhold(exact({ tokens: 3 })))
    const index = provider.requests.length
    const client = await openRaw(gateway.url)
    const began = performance.now()
    const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello' }] }
    await client.post('/v1/chat/completions', body, { authorization: `Bearer ${gateway.key}` })
    await client.readUntil(': ping')
    expect(performance.now() - began).toBeGreaterThanOrEqual(100)
    await client.readUntil(': ping\n\n\r\n8\r\n: ping')
    expect(performance.now() - began).toBeGreaterThanOrEqual(1100)
    provider.requests[index]!.release()
    const events = parseSse((await client.readResponse()).text())
    client.socket.destroy()
    expect(events).toMatchObject({ comments: ['ping', 'ping'], done: true })
    expect(contentOf(events)).toBe('t0 t1 t2')
    provider.script(exact({ tokens: 3 }))
  })
})

describe('a client that does not read', () => {
  const PIECE = 'x'.repeat(60_000)
  const PIECES = 2000

  test('pauses the provider, and is cut after its time; the received content is charged, within the hold', async () => {
    await using small = await startInProcess({
      provider: provider.baseUrl,
      credit: '1000',
      model: { context: '100M', max_output: '50M' },
      yaml: { limits: { stall: '1s' } },
    })
    provider.script(stream({ tokens: Array.from({ length: PIECES }, () => PIECE), obeyCap: false }))
    const index = provider.requests.length
    const client = await openRaw(small.url)
    client.pause()
    const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'Hello' }] }
    await client.post('/v1/chat/completions', body, { authorization: `Bearer ${small.key}` })
    const request = await provider.waitForRequest(index)
    let [bytes, still] = [0, 0]
    while (still < 5) {
      await pause(50)
      still = request.emitted.bytes === bytes ? still + 1 : 0
      bytes = request.emitted.bytes
    }
    // Nearly all of it is in buffers of the kernel: two connections, some megabytes each.
    expect(bytes).toBeGreaterThan(0)
    expect(bytes).toBeLessThan((PIECES * PIECE.length) / 3)
    const { how } = await provider.waitForClose(request)
    expect(how).not.toBe('answered')
    expect(request.emitted.bytes - bytes).toBeLessThan(PIECE.length * 10)
    const line = await small.waitForLog(line => line['msg'] === 'exchange')
    expect(line['outcome']).toBe('client_left')
    expectWithin(Number(line['ms']), 5000)
    const receipt = small.running.store.reads.findReceipt(String(line['id']))!
    expect(receipt.charged).toBeGreaterThan(0n)
    expect(receipt.charged!).toBeLessThanOrEqual(receipt.held)
    expect(small.balance().held).toBe(0n)
    client.resume()
    expect((await client.readToEnd()).toString('latin1')).not.toContain('[DONE]')
    client.socket.destroy()
    provider.script(exact({ tokens: 3 }))
  })
})

describe('steps and streams', () => {
  test('an edit is encoded again: a chunk is dropped, two are merged, the rest is unchanged', async () => {
    const editor = definePlugin({
      name: 'editor',
      settings: NO_SETTINGS,
      create: () => async (ctx, next) => {
        ctx.exchange.edit(each => {
          const content = each.choices[0]?.delta.content
          if (content === ' t1') return null
          if (content !== ' t2') return each
          const texts = ['„', '“\n\ndata: [DONE]']
          return texts.map((text): Chunk => ({ ...each, choices: [{ index: 0, delta: { content: text } }] }))
        })
        await next()
      },
    })
    await using edited = await startInProcess({
      provider: provider.baseUrl,
      plugins: [editor],
      steps: [{ use: 'editor' }, ...FIVE_STEPS],
    })
    const [events, nano] = await charged(async () => readSse(await edited.chat({ stream: true })), edited)
    expect(contentOf(events)).toBe('t0„“\n\ndata: [DONE]')
    expect(events.done).toBe(true)
    expect(new Set(chunksOf(events).map(({ id }) => id)).size).toBe(1)
    // The provider's answer is charged, not the edited one.
    expect(nano).toBe(CHARGE)
  })

  describe('a step that hangs when the answer is over', () => {
    let seen: string[] = []
    const hanging = (name: string, critical: boolean) =>
      definePlugin({
        name,
        critical,
        settings: NO_SETTINGS,
        create: () => async (_ctx, next) => {
          await next()
          await new Promise(() => {})
        },
      })
    const witness = definePlugin({
      name: 'witness',
      settings: NO_SETTINGS,
      create: () => async (ctx, next) => {
        try {
          await next()
        } finally {
          seen.push(String(ctx.exchange.outcome))
        }
      },
    })
    const start = (name: string, critical: boolean) =>
      startInProcess({
        provider: provider.baseUrl,
        plugins: [hanging(name, critical), witness],
        // Inside of credits, so the billing waits for it.
        steps: [{ use: 'witness' }, ...FIVE_STEPS.slice(0, 4), { use: name }, ...FIVE_STEPS.slice(4)],
        stepGraceMs: 100,
      })

    test.each([{ stream: false }, { stream: true }])(
      'is given up and named; the answer is complete and charged (stream $stream)',
      async mode => {
        seen = []
        await using late = await start('sleeper', false)
        const [answer, nano] = await charged(async () => {
          const answer = await late.chat(mode)
          return { answer, text: await answer.text() }
        }, late)
        expect(answer.answer.status).toBe(200)
        if (mode.stream) expect(parseSse(answer.text).done).toBe(true)
        expect(nano).toBe(CHARGE)
        expect(seen).toEqual(['answered'])
        const id = answer.answer.headers.get('x-request-id')
        const line = await late.waitForLog(line => line['exchange'] === id && line['step'] === 'sleeper')
        expect(line).toMatchObject({ level: 'error', what: expect.stringContaining('did not return within 100 ms') })
      },
    )

    test.each([{ stream: false }, { stream: true }])(
      'fails the answer if it is critical (stream $stream)',
      async mode => {
        seen = []
        await using late = await start('sentry', true)
        const [answer, nano] = await charged(async () => {
          const answer = await late.chat(mode)
          return { answer, text: await textOf(answer.clone()) }
        }, late)
        if (mode.stream) {
          const events = parseSse(answer.text)
          expect(events.done).toBe(false)
          expect(
            chunksOf(events)
              .filter(({ error }) => error)
              .map(({ error }) => error?.code),
          ).toEqual(['plugin_error'])
          expect(answer.text).not.toContain('"finish_reason":"stop"')
        } else await expectRefusal(answer.answer, 'plugin_error')
        // A stream was delivered except for its end; a whole answer was not.
        expect(nano).toBe(mode.stream ? CHARGE : 0n)
        expect(seen).toEqual(['failed'])
      },
    )
  })
})
