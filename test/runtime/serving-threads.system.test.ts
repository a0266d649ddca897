/** Serving threads that die, hang or cannot start, at unfavourable moments. */
import { statSync } from 'node:fs'
import { createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createIds, LANES } from '../../src/store/ids.ts'
import { RECORD_BYTES } from '../../src/store/money/spool.ts'
import { countsOf, onlyFull } from '../helpers/counts.ts'
import { testWith } from '../helpers/missing.ts'
import { until } from '../helpers/until.ts'
import { faultyConnector } from '../store/faulty.ts'
import { aHold, fund, testStore } from '../store/helpers.ts'
import { ADDRESS, PLAIN_STEPS, startThreads, type TestThreads } from './serving-threads.ts'

const counts = countsOf('replicas')

/** Blocks the calling thread. */
const block = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

const deaths = ({ log }: TestThreads) => log.filter(({ msg }) => msg === 'a serving thread has ended').length

/** @param die ends its thread, if the policy's own plugin serves */
function ask(port: number, die = ''): Promise<Response> {
  return fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'x-die': die, 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
  })
}

/** Retries until a thread listens. */
const answer = (port: number) => until(() => ask(port))

/** Retries until a thread listens that serves without the policy's own plugin. */
async function changed(port: number): Promise<void> {
  await until(async () => expect((await ask(port)).headers.get('x-own')).toBe(null))
}

async function kill(all: TestThreads, port: number): Promise<void> {
  const before = deaths(all)
  await expect(ask(port, 'now')).rejects.toThrow()
  await died(all, before + 1)
}

/** Resolves when this many threads have died. */
async function died(all: TestThreads, count: number): Promise<void> {
  await until(() => expect(deaths(all)).toBeGreaterThanOrEqual(count))
}

test('a shutdown is orderly, however late the main thread learns that a thread has ended', async () => {
  const { threads, log } = await startThreads(2)
  await threads.listen(ADDRESS)
  threads.drain()
  await threads.idle()
  const closing = threads.close()
  block(1000)
  await closing
  expect(log.filter(({ level }) => level !== 'info')).toEqual([])
})

test('each thread reserves disk space for its settles at its start', async () => {
  const { store } = await startThreads(2)
  const isReserved = (lane: number) => statSync(`${store.path}.spool.${lane}`, { throwIfNoEntry: false })?.size ?? 0
  await until(() => expect([1, 2].map(isReserved)).toEqual([2000 * RECORD_BYTES, 2000 * RECORD_BYTES]))
})

test('the counts of a thread are kept when it dies', async () => {
  const all = await startThreads(2)
  const { threads, retired } = all
  const port = await threads.listen(ADDRESS)
  const answered = async () => {
    const values = [...(await threads.metrics()), ...retired]
    return values
      .flatMap(each => each['tollgate_exchanges_total'] ?? [])
      .map(([, value]) => (value as { sum: number }).sum)
  }
  const total = async () => (await answered()).reduce((sum, each) => sum + each, 0)
  for (let asked = 0; asked < 10; asked++) expect((await ask(port)).status).toBe(200)
  expect(await total()).toBe(10)
  expect(threads.threads()).toEqual({ answering: 2, silent: 0, deaths: 0 })
  await kill(all, port)
  expect(retired).toHaveLength(1)
  expect(await total()).toBe(10)
  expect(threads.threads()).toMatchObject({ deaths: 1 })
})

/** Blocks for four seconds on request. */
const BUSY = `
import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'own',
  needsBody: false,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: () => (ctx, next) => {
    if (ctx.get('x-die') !== '') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000)
    return next()
  },
})
`

test('a thread that is too busy to answer is shown with its last counts', async () => {
  const { threads, clock } = await startThreads(2, { plugin: BUSY })
  const port = await threads.listen(ADDRESS)
  await Promise.all(Array.from({ length: 20 }, () => ask(port)))
  const counted = async () => (await threads.metrics()).map(each => each['tollgate_exchanges_total'])
  const before = await counted()
  const busy = ask(port, 'busy')
  await until(async () => {
    const page = counted()
    // Long enough for threads that are not busy.
    await new Promise(resolve => setTimeout(resolve, 100))
    clock.advance(2000)
    expect(await page).toEqual(before)
    expect(threads.threads()).toEqual({ answering: 1, silent: 1, deaths: 0 })
  })
  // Operators see the others, and /readyz answers.
  const asked = [threads.views.exchanges(), threads.views.providers(), threads.views.find('none'), threads.look()]
  const pause = () => new Promise(resolve => setTimeout(resolve, 200))
  await pause()
  clock.advance(2000)
  const answers = await Promise.race([Promise.all(asked), pause()])
  expect(answers).toMatchObject([[], [{ name: 'demo' }], undefined, undefined])
  await busy
})

test('a shutdown waits until the open holds of a dead thread are settled', async () => {
  const { connector, faults } = faultyConnector()
  const all = await startThreads(1, { connector })
  const { threads, store } = all
  const port = await threads.listen(ADDRESS)
  const accountId = await fund(store, 1000n)
  await store.ledger.hold(aHold({ accountId, exchange: createIds(store.clock, { lane: 1 }).next('req_') }))
  // Longer than another thread takes to start and to end.
  faults.delayMs = 1000
  await kill(all, port)
  await threads.close()
  faults.delayMs = 0
  expect(store.openHolds()).toBe(0)
})

test('settling the open holds of a dead thread is retried until it succeeds', async () => {
  const { connector, faults } = faultyConnector()
  const all = await startThreads(1, { connector })
  const { threads, store, clock } = all
  const port = await threads.listen(ADDRESS)
  const accountId = await fund(store, 1000n)
  await store.ledger.hold(aHold({ accountId, exchange: createIds(store.clock, { lane: 1 }).next('req_') }))
  // Each attempt makes three commits.
  faults.before = 6
  await kill(all, port)
  for (const pause of [100, 200]) {
    await until(() => expect(clock.watched).toBe(1))
    clock.advance(pause - 1)
    expect([clock.watched, store.openHolds()]).toEqual([1, 1])
    clock.advance(1)
  }
  await until(() => expect(store.openHolds()).toBe(0))
  expect((await answer(port)).status).toBe(200)
  expect(all.log.filter(({ thread }) => thread === 1).map(({ msg }) => msg)).toEqual([
    'a serving thread has ended',
    'the open holds of a serving thread cannot be settled yet',
    'settled the open holds of a serving thread that ended',
  ])
})

test('a shutdown does not wait for a failing disk: the next start settles open holds', async () => {
  const { connector, faults } = faultyConnector()
  const all = await startThreads(1, { connector })
  const { threads, store, clock } = all
  const port = await threads.listen(ADDRESS)
  const accountId = await fund(store, 1000n)
  await store.ledger.hold(aHold({ accountId, exchange: createIds(store.clock, { lane: 1 }).next('req_') }))
  faults.before = 1000
  await kill(all, port)
  await until(() => expect(clock.watched).toBe(1))
  const closing = threads.close()
  clock.advance(0)
  await closing
  expect(all.log.at(-1)).toMatchObject({ msg: 'the open holds of a serving thread are settled at the next start' })
  faults.before = 0
  await store.close()
  const next = await testStore({ path: store.path, clock: store.clock })
  expect(await next.recover()).toMatchObject({ settled: 1 })
})

testWith(onlyFull('replicas'), 'more threads than lanes can start one after the other', async () => {
  const all = await startThreads(1)
  const port = await all.threads.listen(ADDRESS)
  const texts = await all.read(PLAIN_STEPS)
  all.begin(new Map())
  await kill(all, port)
  for (let death = 2; death <= LANES + 5; death++) {
    await died(all, death)
    if (death === LANES + 5) all.begin(texts)
    all.clock.advance(10_000)
  }
  expect((await answer(port)).status).toBe(200)
})

test('a thread that cannot start reports the reason', async () => {
  const plugin = 'throw new Error("not in a thread")'
  await expect(startThreads(2, { plugin })).rejects.toThrow('not in a thread')
})

test.each([
  ['is starting', async () => {}],
  ['has started', (all: TestThreads) => all.threads.waiting()],
])('a change of the configuration reaches a replacement thread that %s', async (_when, started) => {
  const all = await startThreads(1)
  const port = await all.threads.listen(ADDRESS)
  const texts = await all.read(PLAIN_STEPS)
  await all.threads.prepare(texts)
  await kill(all, port)
  await started(all)
  all.use(texts)
  await changed(port)
  // A commit of the serving configuration is not a change.
  all.use(texts)
  await changed(port)
  expect([deaths(all), all.log.filter(({ msg }) => msg === 'unhandled promise rejection')]).toEqual([1, []])
})

test('a thread that cannot follow a change is replaced by one that starts with it', async () => {
  const all = await startThreads(1)
  const port = await all.threads.listen(ADDRESS)
  const texts = await all.read(PLAIN_STEPS)
  all.use(texts, new Map())
  await died(all, 1)
  await changed(port)
})

test('a thread that cannot start is retried after growing pauses, and /readyz reports the reason', async () => {
  const all = await startThreads(1)
  const port = await all.threads.listen(ADDRESS)
  const texts = await all.read(PLAIN_STEPS)
  all.begin(new Map())
  await kill(all, port)
  const pauses = [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000].slice(0, counts(4, 9))
  for (const [index, pause] of pauses.entries()) {
    await died(all, index + 2)
    all.clock.advance(pause - 1)
    expect(all.clock.watched).toBe(1)
    if (index + 1 === pauses.length) all.begin(texts)
    all.clock.advance(1)
    expect(all.clock.watched).toBe(0)
  }
  expect((await answer(port)).status).toBe(200)
  expect(deaths(all)).toBe(pauses.length + 1)
  expect(all.threads.problem()).toMatch(/^\d+ serving threads have ended within a minute: .*gateway\.yaml/)
  all.clock.advance(60_001)
  expect(all.threads.problem()).toBe(null)
})

test('a thread that cannot listen is retried', async () => {
  const all = await startThreads(1)
  const port = await all.threads.listen(ADDRESS)
  await kill(all, port)
  await answer(port)
  await kill(all, port)
  // During the pause another program takes the port.
  const other = createServer()
  await new Promise<void>(resolve => other.listen(port, ADDRESS.host, resolve))
  all.clock.advance(100)
  await died(all, 3)
  await new Promise(resolve => other.close(resolve))
  all.clock.advance(200)
  expect((await answer(port)).status).toBe(200)
  expect(all.log.flatMap(line => (line.msg === 'a serving thread has ended' ? [line.error] : [])).at(-1)).toMatchObject(
    {
      message: expect.stringContaining('EADDRINUSE'),
    },
  )
})

describe('a kept response', () => {
  async function start() {
    const { connector, faults } = faultyConnector()
    const { threads, store } = await startThreads(2, { connector })
    const url = `http://127.0.0.1:${await threads.listen(ADDRESS)}/v1/responses`
    const { token } = await store.createKey({ account: await fund(store, 1n), name: 'laptop' })
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', connection: 'close' }
    return {
      faults,
      async make(): Promise<string> {
        const made = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ model: 'm', input: 'hi' }) })
        return ((await made.json()) as { id: string }).id
      },
      /** Requests the response on several connections, so that both threads answer. Returns the distinct statuses. */
      async find(id: string): Promise<number[]> {
        const found = Array.from({ length: 16 }, () => fetch(`${url}/${id}`, { headers }))
        return [...new Set((await Promise.all(found)).map(({ status }) => status))]
      },
    }
  }

  test('is found by every thread once its client has received its end', async () => {
    const { faults, make, find } = await start()
    // Longer than the lookups take.
    faults.delayMs = 300
    expect(await find(await make())).toEqual([200])
    faults.delayMs = 0
  })

  test('does not wait long for a disk that hangs', async () => {
    const { faults, make, find } = await start()
    onTestFinished(() => void (faults.paced = 0))
    faults.paced = 1
    const id = await make()
    await until(() => expect(faults.waiting).toBe(1))
    faults.paced = 0
    // More frequent lookups would be refused.
    await until(async () => expect(await find(id)).toEqual([200]))
  })
})
