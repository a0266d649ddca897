import { readFile, writeFile } from 'node:fs/promises'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Account, type Key, type Model, retryHeaders } from '#contract'
import { BUILT_IN } from '../../src/loader/builtin.ts'
import { isOfAddress } from '../../src/state/buckets.ts'
import { LocalSlots } from '../../src/state/slots.ts'
import { countsOf } from '../../test/helpers/counts.ts'
import { exact, gated, startFakeProvider } from '../../test/helpers/fake-provider.ts'
import { FIVE_STEPS, startInProcess } from '../../test/helpers/in-process.ts'
import { createSteps, readSettings, type StepRequest, type StepResult } from '../../test/helpers/step.ts'
import concurrency from './index.ts'

const counts = countsOf('corpus')

const key = { id: 'key_1', accountId: 'acc_1' } as Key
const account = { id: 'acc_1' } as Account
const model = { id: 'chat-small' } as Model
const facts = { key, account, model }

/** Steps with their own time and slots; `hold` starts a request that is in progress until the test ends it. */
function limited(...settings: Record<string, unknown>[]) {
  const clock = { time: 1_000_000, now: () => clock.time }
  const steps = settings.map((each, i) => ({ use: concurrency, with: each, id: `step-${i}` }))
  const slots = new LocalSlots()
  const run = createSteps(steps, { clock, slots })
  const send = (request: StepRequest = {}) => run({ ...request, facts: { ...facts, ...request.facts } })
  const hold = async (request: StepRequest = {}) => {
    const inside = Promise.withResolvers<void>()
    const over = Promise.withResolvers<void>()
    const result = send({
      ...request,
      next: () => {
        inside.resolve()
        return over.promise
      },
    })
    await Promise.race([inside.promise, result])
    return { result, end: over.resolve, fail: over.reject }
  }
  return { clock, run, send, hold, size: () => slots.size, names: () => [...slots.counts()].map(([name]) => name) }
}

const remaining = ({ ctx }: StepResult) => ctx.response.get('x-ratelimit-remaining-concurrency')

describe('settings', () => {
  test.each([
    ['nothing', {}],
    ['no limit', { per: 'key' }],
    ['no `per`', { limit: 1 }],
    ['an unknown `per`', { per: 'user', limit: 1 }],
    ['a limit of 0', { per: 'key', limit: 0 }],
    ['a limit of 1.5', { per: 'key', limit: 1.5 }],
    ['a queue without a wait', { per: 'key', limit: 1, queue: { length: 1 } }],
    ['a queue without a length', { per: 'key', limit: 1, queue: { wait: '1s' } }],
    ['a queue of length 0', { per: 'key', limit: 1, queue: { length: 0, wait: '1s' } }],
    ['a wait of hours', { per: 'key', limit: 1, queue: { length: 1, wait: '1h' } }],
    ['a wait without a unit', { per: 'key', limit: 1, queue: { length: 1, wait: 5 } }],
    ['an unknown name', { per: 'key', limit: 1, lenght: 5 }],
  ])('%s is refused', (_name, settings) => {
    expect(() => readSettings(concurrency, settings)).toThrow('concurrency:')
  })

  test.each([
    ['key', ['key']],
    ['account', ['account']],
    ['model', ['model']],
    ['address', []],
    ['everybody', []],
  ])('per %s needs %o', (per, needs) => {
    const read = readSettings(concurrency, { per, limit: 1 })
    expect((concurrency.needs as (settings: unknown) => readonly string[])(read)).toEqual(needs)
  })
})

describe('without a queue', () => {
  test('a request above the limit is refused, with the limit and the time of a retry', async () => {
    const { send, hold } = limited({ per: 'key', limit: 2 })
    const first = await hold()
    const second = await hold()
    const { refusal, passed } = await send()
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'rate_limit_exceeded', status: 429, retryable: true })
    expect(refusal!.message).toBe(
      'Too many requests at once: this key may have 2 requests in progress. Try again when one of them has ended.',
    )
    expect(refusal!.headers).toEqual({
      'x-ratelimit-limit-concurrency': '2',
      'x-ratelimit-remaining-concurrency': '0',
    })
    expect(retryHeaders(refusal!)).toEqual({ 'retry-after': '1', 'retry-after-ms': '1000' })
    first.end()
    expect(remaining(await first.result)).toBe('1')
    expect(remaining(await send())).toBe('0')
    second.end()
    expect(remaining(await second.result)).toBe('0')
  })

  test.each<[string, string, StepRequest, StepRequest, boolean]>([
    ['each key', 'key', {}, { facts: { key: { ...key, id: 'key_2' } } }, true],
    ['the keys of an account together', 'account', {}, { facts: { key: { ...key, id: 'key_2' } } }, false],
    ['each account', 'account', {}, { facts: { account: { ...account, id: 'acc_2' } } }, true],
    ['each model', 'model', {}, { facts: { model: { ...model, id: 'chat-large' } } }, true],
    ['the keys that use a model together', 'model', {}, { facts: { key: { ...key, id: 'key_2' } } }, false],
    ['each address', 'address', { address: '192.0.2.1' }, { address: '192.0.2.2' }, true],
    [
      'an IPv6 network of 64 bits together',
      'address',
      { address: '2001:db8::1' },
      { address: '2001:db8::2:0:0:1' },
      false,
    ],
    ['all requests together', 'everybody', { address: '192.0.2.1' }, { address: '192.0.2.2' }, false],
  ])('counts %s', async (_name, per, one, two, passes) => {
    const { send, hold } = limited({ per, limit: 1 })
    const { result, end } = await hold(one)
    expect((await send(one)).passed).toBe(false)
    expect((await send(two)).passed).toBe(passes)
    end()
    expect((await result).passed).toBe(true)
    expect((await send(one)).passed).toBe(true)
  })

  test('the names of slots of addresses are recognizable, because these have memory of their own', async () => {
    const { hold, names } = limited({ per: 'address', limit: 1 }, { per: 'key', limit: 1 })
    const { end } = await hold({ address: '192.0.2.1' })
    expect(names().map(isOfAddress)).toEqual([true, false])
    end()
  })

  test('each ending of an exchange frees its slot, and no name is kept', async () => {
    const { hold, size } = limited({ per: 'key', limit: 1 }, { per: 'everybody', limit: 1 })
    const answered = await hold()
    answered.end()
    await answered.result
    const failed = await hold()
    failed.fail(new Error('connection reset'))
    await expect(failed.result).rejects.toThrow('connection reset')
    const late = await hold()
    expect(size()).toBe(2)
    late.end()
    expect((await late.result).passed).toBe(true)
    expect(size()).toBe(0)
  })

  test('a refusal by a later limit frees the slot of the earlier one, and headers show the tighter limit', async () => {
    const { send, hold, size } = limited(
      { per: 'account', limit: 9 },
      { per: 'key', limit: 1 },
      { per: 'model', limit: 5 },
    )
    const { result, end } = await hold()
    expect((await send()).passed).toBe(false)
    end()
    expect((await result).ctx.response.get('x-ratelimit-limit-concurrency')).toBe('1')
    expect(size()).toBe(0)
  })

  test('a reload finds the slots of the generation before', async () => {
    const services = { clock: { now: () => 0 }, slots: new LocalSlots() }
    const step = { use: concurrency, with: { per: 'everybody', limit: 1 } }
    const over = Promise.withResolvers<void>()
    const before = createSteps([step], services)({ next: () => over.promise })
    expect((await createSteps([step], services)()).passed).toBe(false)
    expect((await createSteps([{ ...step, id: 'another' }], services)()).passed).toBe(true)
    over.resolve()
    await before
    expect((await createSteps([step], services)()).passed).toBe(true)
  })
})

describe('with a queue', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterEach(() => void vi.useRealTimers())
  const queue = { length: 2, wait: '5s' }

  test('a request is refused at once if the queue is full, and after `wait` if it waited', async () => {
    const { send, hold, size } = limited({ per: 'key', limit: 1, queue })
    const first = await hold()
    const waiting = [send(), send()]
    const { refusal } = await send()
    expect(refusal!.message).toContain('its queue is full or the wait was too long')
    await vi.advanceTimersByTimeAsync(4_999)
    expect(await Promise.race([...waiting, null])).toBeNull()
    await vi.advanceTimersByTimeAsync(1)
    expect((await Promise.all(waiting)).map(each => each.refusal?.code)).toEqual([
      'rate_limit_exceeded',
      'rate_limit_exceeded',
    ])
    first.end()
    await first.result
    expect(size()).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })

  test('requests get slots in the order of their arrival, and the trail has the time of the wait', async () => {
    const { clock, hold } = limited({ per: 'key', limit: 1, queue })
    const order: number[] = []
    const first = await hold()
    const [second, third] = [2, 3].map(number =>
      hold({ headers: [['x', String(number)]] }).then(held => [number, held] as const),
    )
    void second!.then(([number]) => order.push(number))
    void third!.then(([number]) => order.push(number))
    clock.time += 250
    first.end()
    const [, two] = await second!
    expect(order).toEqual([2])
    clock.time += 1_000
    two.end()
    const [, three] = await third!
    three.end()
    const results = await Promise.all([first.result, two.result, three.result])
    expect(results.map(({ exchange }) => exchange.trail[0]?.note)).toEqual([
      undefined,
      'waited 250ms for a slot',
      'waited 2s for a slot',
    ])
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a new request does not overtake those that wait', async () => {
    const { send, hold } = limited({ per: 'key', limit: 1, queue: { length: 1, wait: '5s' } })
    const first = await hold()
    const second = hold()
    first.end()
    expect((await send()).passed).toBe(false)
    ;(await second).end()
  })

  test('a client that disconnects frees its place in the queue and takes no slot', async () => {
    const { send, hold, size } = limited({ per: 'key', limit: 1, queue: { length: 1, wait: '5s' } })
    const first = await hold()
    const client = new AbortController()
    const left = send({ facts: { signal: client.signal } as never })
    client.abort()
    const third = hold()
    // It continues to the end of the pipeline, which sends nothing for it and records the disconnect.
    expect(await left).toMatchObject({ passed: true, refusal: null })
    first.end()
    await first.result
    ;(await third).end()
    await (await third).result
    expect(size()).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })
})

test('by chance: never more requests in progress than the limit, no request hangs, and no name is kept', async () => {
  const ending = fc.constantFrom('answers', 'throws', 'leaves')
  const arrival = fc.record({ who: fc.nat(2), ending, lasts: fc.nat(4), pause: fc.nat(3) })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.option(fc.integer({ min: 1, max: 5 }), { nil: undefined }),
      fc.array(arrival, { minLength: 1, maxLength: 40 }),
      async (limit, length, arrivals) => {
        const queue = length === undefined ? {} : { queue: { length, wait: '1m' } }
        const { send, size } = limited({ per: 'key', limit, ...queue })
        const inside = [0, 0, 0]
        const results: Promise<unknown>[] = []
        for (const { who, ending, lasts, pause } of arrivals) {
          const controller = new AbortController()
          const request = send({
            facts: { key: { ...key, id: `key_${who}` }, signal: controller.signal } as never,
            next: async ({ signal }) => {
              // A request whose client has disconnected needs no slot: it is not sent.
              if (signal.aborted) return
              expect(++inside[who]!).toBeLessThanOrEqual(limit)
              await turns(lasts)
              inside[who]!--
              if (ending === 'throws') throw new Error('connection reset')
            },
          })
          results.push(request.catch(error => expect(error.message).toBe('connection reset')))
          if (ending === 'leaves') void turns(lasts).then(() => controller.abort())
          await turns(pause)
        }
        await Promise.all(results)
        expect(inside).toEqual([0, 0, 0])
        expect(size()).toBe(0)
      },
    ),
    { numRuns: counts(50, 20_000) },
  )
})

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise(resolve => setImmediate(resolve))
}

test('in the gateway: a stream has its slot until it ends, and a disconnect frees the slot', async () => {
  await using gateway = await startInProcess({
    plugins: [concurrency].filter(plugin => !BUILT_IN.includes(plugin)),
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'concurrency', with: { per: 'key', limit: 1 } },
      { use: 'credits' },
      { use: 'route' },
    ],
  })
  const client = new AbortController()
  const stream = await gateway.chat({ stream: true, max_tokens: 1000 }, { signal: client.signal })
  expect(stream.headers.get('x-ratelimit-remaining-concurrency')).toBe('0')
  expect((await gateway.chat()).status).toBe(429)
  client.abort()
  await gateway.exchangeLine(stream.headers.get('x-request-id')!)
  const after = await gateway.chat({ stream: true })
  expect(after.status).toBe(200)
  await after.text()
  expect((await gateway.chat()).status).toBe(200)
  expect(gateway.balance().held).toBe(0n)
})

describe('among gateways of one process', () => {
  const step = (more: object) => ({ use: 'concurrency', ...more })
  const start = (url: string, concurrent: object) =>
    startInProcess({
      provider: url,
      plugins: [concurrency].filter(plugin => !BUILT_IN.includes(plugin)),
      steps: [...FIVE_STEPS.slice(0, 3), concurrent, ...FIVE_STEPS.slice(3)],
    })

  test('each has its own slots, and finds them again after a reload', async () => {
    await using provider = await startFakeProvider({ script: gated() })
    const one = step({ with: { per: 'everybody', limit: 1 } })
    await using first = await start(provider.baseUrl, one)
    await using second = await start(provider.baseUrl, one)
    const inside = first.chat({ stream: true })
    await provider.waitForRequest()
    provider.script(exact())
    expect((await second.chat()).status).toBe(200)
    const { file } = first.running.configuration
    await writeFile(file, (await readFile(file, 'utf8')).replace('8192', '8193'))
    expect(await first.running.reload()).toBe('changed')
    expect((await first.chat()).status).toBe(429)
    provider.release()
    await (await inside).text()
    expect((await first.chat()).status).toBe(200)
  })

  test('in shadow mode no request waits: it counts as waiting until its answer has ended, and a full queue would refuse', async () => {
    await using provider = await startFakeProvider({ script: gated() })
    const queue = { length: 1, wait: '5m' }
    const settings = { mode: 'shadow', with: { per: 'key', limit: 1, queue } }
    await using gateway = await start(provider.baseUrl, step(settings))
    const open = []
    for (let i = 0; i < 3; i++) {
      open.push(gateway.chat({ stream: true }))
      // Each is sent while those before it are in progress.
      await provider.waitForRequest(i)
    }
    provider.script(exact())
    provider.release()
    const entryOf = async (sent: Promise<Response>) => {
      const answer = await sent
      expect(answer.status).toBe(200)
      expect(answer.headers.get('x-ratelimit-limit-concurrency')).toBeNull()
      await answer.text()
      const entry = gateway.receipt(answer)!.trail.find(({ step }) => step === 'concurrency')!
      return [entry.verdict, entry.code, /would have waited for a slot/.test(entry.note ?? '')]
    }
    expect(await Promise.all(open.map(entryOf))).toEqual([
      ['passed', undefined, false],
      ['passed', undefined, true],
      ['would_refuse', 'rate_limit_exceeded', false],
    ])
    expect(await entryOf(gateway.chat())).toEqual(['passed', undefined, false])
  })
})
