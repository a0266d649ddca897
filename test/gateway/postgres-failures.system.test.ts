/**
 * A gateway loses its PostgreSQL in every possible way, while streams are in progress. Clients get correct results, and each exchange is
 * charged exactly once when the database is back.
 */
import { connect, createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { answerOf, createAccount, type Gateway, startGateway, tollgate } from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { ownServer, type TestDatabase, testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { expectWithin } from '../helpers/promised.ts'
import { resourcesOf, WATCHED_GATEWAY } from '../helpers/resources.ts'
import { seeded } from '../helpers/seeded.ts'

const counts = countsOf('kills')

/** The length of the outage. The streams in progress end during it. */
const AWAY_MS = counts(1500, 20_000)
const FROZEN_MS = counts(2000, 30_000)
const PACE_MS = 30
/** They begin one after the other, so that each ends at a different stage of the gateway's attempts. */
const STREAMS = 24
const BEGIN_EVERY_MS = 40
/** The promise, times five: a refusal of paid requests, and the end of all waits. */
const REFUSED_WITHIN_MS = 5 * 1500

/** Each request costs exactly a dollar, whatever its content. */
const PRICE = { per: '1M tokens', input: '$0', output: '$0', request: '$1' }
const STEPS = [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }]

async function start(store: string, entry?: string): Promise<Gateway> {
  const target = { provider: 'demo', model: 'demo-small' }
  const model = { context: '128k', max_output: 1024, targets: [target] }
  const gateway = await startGateway({
    ...(entry === undefined ? {} : { entry }),
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      store,
      secret: '${TOLLGATE_SECRET}',
      providers: { demo: { dialect: 'demo', pace: `${PACE_MS}ms` } },
      models: { paid: { ...model, price: PRICE }, free: { ...model, price: 'free' } },
      routes: [
        { path: '/v1/chat/completions', policy: 'standard' },
        { path: '/open/v1/chat/completions', policy: 'open', public: true, unmetered: true },
      ],
    },
    policies: {
      standard: { steps: STEPS },
      open: { steps: [{ use: 'schema' }, { use: 'route' }] },
    },
    env: { TOLLGATE_SECRET: 'of a gateway that loses its database' },
  })
  onTestFinished(() => gateway.kill9())
  return gateway
}

const ask = (gateway: Gateway, key: string, body: object = {}, path = '/v1') =>
  fetch(`${gateway.url}${path}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'paid',
      messages: [{ role: 'user', content: 'Say something of some length.' }],
      max_tokens: 40,
      ...body,
    }),
  })

interface RequestResult {
  readonly status: number
  readonly ms: number
}

async function askedAt(gateway: Gateway, key: string): Promise<RequestResult> {
  const began = performance.now()
  const answer = await ask(gateway, key, { max_tokens: 1 })
  await answer.text()
  return { status: answer.status, ms: performance.now() - began }
}

/** A way to lose the database and to get it back. */
interface Outage {
  readonly url: string
  away(): Promise<unknown> | unknown
  back(): Promise<unknown> | unknown
}

const own =
  (
    away: (server: Awaited<ReturnType<typeof ownServer>>) => unknown,
    back: (server: Awaited<ReturnType<typeof ownServer>>) => unknown,
  ) =>
  async (): Promise<Outage> => {
    const server = await ownServer()
    return { url: server.url, away: () => away(server), back: () => back(server) }
  }

const within =
  (away: (database: TestDatabase) => unknown, back: (database: TestDatabase) => unknown) =>
  async (): Promise<Outage> => {
    const database = await testDatabase()
    return { url: database.url, away: () => away(database), back: () => back(database) }
  }

/** Delays the server's answers. */
async function slow(ms: number): Promise<Outage> {
  const { url } = await testDatabase()
  const place = new URL(url)
  const [port, state] = [Number(place.port), { ms: 0 }]
  const proxy = createServer(client => {
    const server = connect(port, '127.0.0.1')
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', () => {})
    client.pipe(server)
    let written = Promise.resolve()
    server.on('data', bytes => {
      const due = performance.now() + state.ms
      written = written.then(async () => {
        await wait(Math.max(0, due - performance.now()))
        client.write(bytes)
      })
    })
    server.on('close', () => client.destroy())
    client.on('close', () => server.destroy())
  })
  await new Promise<void>(resolve => proxy.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void proxy.close())
  place.port = String((proxy.address() as { port: number }).port)
  const set = (to: number) => () => {
    state.ms = to
  }
  return { url: place.href, away: set(ms), back: set(0) }
}

const readOnly = (isReadOnly: boolean) => async (database: TestDatabase) => {
  const set = `ALTER DATABASE ${database.name} SET default_transaction_read_only = ${isReadOnly}`
  await database.run(`BEGIN READ WRITE; ${set}; COMMIT`)
  await database.cut()
}

/** Answers like a disk without room, with the same SQLSTATE. */
const FULL = `
  CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$;
  CREATE TRIGGER no_room BEFORE INSERT ON event FOR EACH ROW EXECUTE FUNCTION no_room();`

/** The first four are of different kinds. The full run has all of them. */
const OUTAGES: readonly (readonly [name: string, ms: number, make: () => Promise<Outage>])[] = [
  [
    'killed, and started again',
    AWAY_MS,
    own(
      server => server.kill(),
      server => server.start(),
    ),
  ],
  [
    'frozen, and thawed',
    FROZEN_MS,
    own(
      server => server.freeze(),
      server => server.thaw(),
    ),
  ],
  [
    'full',
    AWAY_MS,
    within(
      database => database.run(FULL),
      database => database.run('DROP FUNCTION no_room CASCADE'),
    ),
  ],
  ['two seconds late', AWAY_MS, () => slow(2000)],
  [
    'stopped by its operator, and started again',
    AWAY_MS,
    own(
      server => server.stop(),
      server => server.start(),
    ),
  ],
  [
    'rejecting every connection',
    AWAY_MS,
    within(
      database => database.allow(false),
      database => database.allow(true),
    ),
  ],
  ['read-only', AWAY_MS, within(readOnly(true), readOnly(false))],
]

/** Reads a stream to its end; returns its text. */
async function streamOf(gateway: Gateway, key: string, began: () => void): Promise<string> {
  const answer = await ask(gateway, key, { stream: true })
  expect(answer.status).toBe(200)
  let text = ''
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream())) {
    if (text === '') began()
    text += chunk
  }
  return text
}

async function moneyOf(gateway: Gateway, account: string): Promise<{ posted: number; held: number }> {
  const shown = answerOf<{ account: { posted: string; held: string } }>(['account', 'show', account], gateway)
  const { posted, held } = (await shown.catch(() => null))?.account ?? {}
  return { posted: Number(posted), held: Number(held) }
}

const readiness = async (gateway: Gateway) => {
  const answer = await fetch(`${gateway.adminUrl}/readyz`)
  return `${answer.status} ${await answer.text()}`
}

describeWith(WITHOUT_POSTGRES, 'a database that is', () => {
  test.each(OUTAGES.slice(0, counts(4, OUTAGES.length)))(
    '%s: paid requests are refused in time, streams end completely, and each is charged once',
    async (_, ms, make) => {
      const loss = await make()
      const gateway = await start(loss.url)
      const { key, accountId } = await createAccount(gateway, { credit: 1000 })
      // A key that has to be read, because it was not used yet.
      const { key: unseen } = await createAccount(gateway, { credit: 1000 })
      expect(await askedAt(gateway, key)).toMatchObject({ status: 200 })
      let begun = 0
      const streams: Promise<string>[] = []
      for (let began = 0; began < STREAMS; began++) {
        streams.push(streamOf(gateway, key, () => void begun++))
        await wait(BEGIN_EVERY_MS)
      }
      await expect.poll(() => begun).toBe(STREAMS)

      await loss.away()
      const lostAt = performance.now()
      const refused: RequestResult[] = []
      while (performance.now() - lostAt < ms) {
        refused.push(await askedAt(gateway, key), await askedAt(gateway, unseen))
        // Free requests continue.
        const open = await ask(gateway, '', { model: 'free', max_tokens: 1 }, '/open/v1')
        expect(await open.text()).toContain('"finish_reason"')
        await wait(100)
      }
      for (const text of await Promise.all(streams)) expect(text).toMatch(/data: \[DONE\]\n\n$/)
      expect(await readiness(gateway)).toMatch(/^503 .*the ledger cannot be written/)
      console.info(`refused within ${Math.max(...refused.map(each => Math.round(each.ms)))} ms`)
      expect(refused.filter(({ status }) => status !== 503)).toEqual([])
      expect(refused.filter(each => each.ms > REFUSED_WITHIN_MS)).toEqual([])

      await loss.back()
      const backAt = performance.now()
      const owes = { posted: 1000 - 1 - STREAMS, held: 0 }
      await expect.poll(() => moneyOf(gateway, accountId)).toEqual(owes)
      console.info(`all charged ${Math.round(performance.now() - backAt)} ms after it was back`)
      await expect.poll(() => askedAt(gateway, key)).toMatchObject({ status: 200 })
      await expect.poll(() => readiness(gateway)).toMatch(/^200/)
      // In its own process: in this one it would wait for the proxy.
      const { code, stdout } = await tollgate(['ledger', 'verify'], { config: gateway.config })
      expect(code, stdout).toBe(0)
      expect((await moneyOf(gateway, accountId)).held).toBe(0)
    },
  )

  test('killed repeatedly under load: complete answers are charged once, and nothing stays held', async () => {
    const seed = Math.floor(Math.random() * 2 ** 32)
    console.info(`killed by the seed ${seed}`)
    const random = seeded(seed)
    const server = await ownServer()
    const gateway = await start(server.url)
    const { key, accountId } = await createAccount(gateway, { credit: 100_000 })
    let [isOver, ended, broken] = [false, 0, 0]
    const client = async (index: number) => {
      while (!isOver) {
        const answer = await ask(gateway, key, { stream: index % 2 === 0, max_tokens: 1 + (index % 8) })
        const text = await answer.text()
        if (answer.status === 200 && /\[DONE\]|"finish_reason":"/.test(text)) ended++
        else if (answer.status === 503) await wait(20)
        else broken++
      }
    }
    const clients = Array.from({ length: 12 }, (_, index) => client(index))
    const rounds = counts(2, 200)
    for (let round = 0; round < rounds; round++) {
      await wait(200 + random() * 300)
      await server.kill()
      await wait(random() * 100)
      await server.start()
      await expect.poll(async () => (await askedAt(gateway, key)).status).toBe(200)
      ended++
    }
    isOver = true
    await Promise.all(clients)
    console.info(`${rounds} kills, ${ended} answers, ${broken} others`)
    expect(broken).toBe(0)
    const backAt = performance.now()
    await expect.poll(() => moneyOf(gateway, accountId)).toEqual({ posted: 100_000 - ended, held: 0 })
    expectWithin(performance.now() - backAt, 5000)
    const { code, stdout } = await tollgate(['ledger', 'verify'], { config: gateway.config })
    expect(code, stdout).toBe(0)
  })

  test('cut off repeatedly: no connection, timer or memory leaks', async () => {
    const database = await testDatabase()
    const gateway = await start(database.url, WATCHED_GATEWAY)
    const { key, accountId } = await createAccount(gateway, { credit: 1000 })
    const names =
      "SELECT application_name AS name FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'tollgate%'"
    const connections = async () => (await database.run(names)).map(({ name }) => name).sort()
    let paid = 0
    const cutOnce = async () => {
      await database.cut()
      await expect.poll(async () => (await askedAt(gateway, key)).status).toBe(200)
      paid++
    }
    for (let warm = 0; warm < 3; warm++) await cutOnce()
    const before = await resourcesOf(gateway)
    for (let cuts = 0; cuts < counts(10, 50); cuts++) await cutOnce()
    // One that writes, one that listens, and two that read, each opened on demand.
    const others = async () => (await connections()).filter(name => name !== 'tollgate (reads)')
    await expect.poll(others).toEqual(['tollgate (changes)', 'tollgate replica 1'])
    expect((await connections()).length).toBeLessThanOrEqual(4)
    const timers = async () => (await resourcesOf(gateway)).active['Timeout'] ?? 0
    await expect.poll(timers).toBeLessThanOrEqual((before.active['Timeout'] ?? 0) + 2)
    const after = await resourcesOf(gateway)
    expect(after.heap - before.heap).toBeLessThan(4 * 2 ** 20)
    expect(after.resident - before.resident).toBeLessThan(64 * 2 ** 20)
    await expect.poll(() => moneyOf(gateway, accountId)).toEqual({ posted: 1000 - paid, held: 0 })
  })

  test('answering 50 ms late: nothing is refused', async () => {
    const loss = await slow(50)
    const gateway = await start(loss.url)
    const { key, accountId } = await createAccount(gateway, { credit: 1000 })
    await loss.away()
    const asked = await Promise.all(Array.from({ length: counts(30, 300) }, () => askedAt(gateway, key)))
    expect(asked.filter(({ status }) => status !== 200)).toEqual([])
    await loss.back()
    await expect.poll(() => moneyOf(gateway, accountId)).toEqual({ posted: 1000 - asked.length, held: 0 })
  })
})
