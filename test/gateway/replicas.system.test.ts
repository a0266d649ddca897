/** Replicas: several gateway processes with one store in PostgreSQL. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { ExchangeView, PageView, ProviderView, SummaryView } from '../../src/api/views.ts'
import { countsOf } from '../helpers/counts.ts'
import {
  answerOf,
  createAccount,
  type Gateway,
  startGateway,
  tollgate,
  writeConfiguration,
} from '../helpers/gateway.ts'
import { describeWith } from '../helpers/missing.ts'
import { fileDatabase, type TestDatabase, testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { expectWithin } from '../helpers/promised.ts'
import { seeded } from '../helpers/seeded.ts'

const counts = countsOf('replicas')

const SECRET = 'the secret that all replicas of this test share'
/** Each request costs exactly a dollar, whatever its content. */
const PRICE = { per: '1M tokens', input: '$0', output: '$0', request: '$1' }
const STEPS = [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route' }]

function optionsOf(database: TestDatabase, more: object = {}) {
  return {
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      store: database.url,
      secret: '${TOLLGATE_SECRET}',
      drain: '5s',
      // On a busy machine the loop is late, and 503 would be correct.
      limits: { event_loop: '1m' },
      providers: { demo: { dialect: 'demo', pace: '5ms' } },
      models: {
        m: { context: '128k', max_output: 1024, price: PRICE, targets: [{ provider: 'demo', model: 'demo-small' }] },
      },
      routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
      ...more,
    },
    policies: { standard: { steps: STEPS } },
    env: { TOLLGATE_SECRET: SECRET },
  }
}

interface More {
  readonly dir?: string
  readonly [key: string]: unknown
}

/** It ends with the file, or when a test ends it. */
async function startOne(database: TestDatabase, { dir, ...yaml }: More = {}): Promise<Gateway> {
  return startGateway({ ...optionsOf(database, yaml), ...(dir === undefined ? {} : { dir }) })
}

async function startReplica(database: TestDatabase, more: More = {}): Promise<Gateway> {
  const gateway = await startOne(database, more)
  onTestFinished(() => gateway.kill9())
  return gateway
}

async function startReplicas(count: number): Promise<{ all: Gateway[]; database: TestDatabase }> {
  const database = await testDatabase()
  // One after the other: the first creates the tables.
  const all = [await startReplica(database)]
  while (all.length < count) all.push(await startReplica(database))
  return { all, database }
}

const ask = (gateway: Gateway, key: string, body: object = {}, signal?: AbortSignal) =>
  fetch(`${gateway.url}/v1/chat/completions`, {
    method: 'POST',
    signal: signal ?? null,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }], ...body }),
  })

/** Also returns the status of a request whose connection breaks. */
async function statusOf(asked: Promise<Response>): Promise<number> {
  try {
    const answer = await asked
    await answer.text()
    return answer.status
  } catch {
    return 0
  }
}

async function moneyOf(gateway: Gateway, account: string): Promise<{ posted: string; held: string }> {
  const shown = await answerOf<{ account: { posted: string; held: string } }>(['account', 'show', account], gateway)
  return { posted: shown.account.posted, held: shown.account.held }
}

async function expectSound(gateway: Gateway): Promise<void> {
  const { code, stdout, stderr } = await tollgate(['ledger', 'verify'], { config: gateway.config })
  expect(code, stdout + stderr).toBe(0)
}

const ADMIN = { admin: '127.0.0.1:0' }
/** Replicas, one to be killed. */
const COUNT = counts(2, 3)

describeWith(WITHOUT_POSTGRES, 'replicas', () => {
  describe('three of them', () => {
    let database: TestDatabase
    const all: Gateway[] = []
    beforeAll(async () => {
      database = await fileDatabase()
      // One after the other: the first creates the tables.
      while (all.length < 3) all.push(await startOne(database, ADMIN))
    })
    afterAll(() => Promise.all(all.map(gateway => gateway.kill9())))

    test('share one balance: of a thousand requests at once, exactly ten are paid', async () => {
      for (let round = 0; round < counts(1, 50); round++) {
        const { key, accountId } = await createAccount(all[round % 3]!, { credit: 10 })
        const asked = Array.from({ length: counts(150, 1000) }, (_, index) => statusOf(ask(all[index % 3]!, key)))
        const statuses = await Promise.all(asked)
        expect(statuses.filter(status => status === 200)).toHaveLength(10)
        // 429 while the ten still hold their dollar, 402 when it is spent.
        expect(statuses.filter(status => ![200, 402, 429].includes(status))).toEqual([])
        expect(await moneyOf(all[0]!, accountId)).toEqual({ posted: '0.000000000', held: '0.000000000' })
      }
      await expectSound(all[0]!)
    })

    test('refuse a key within a second of its revocation on another one', async () => {
      for (let round = 0; round < counts(1, 20); round++) {
        const { key, keyId } = await createAccount(all[0]!, { credit: 100 })
        for (const gateway of all) expect(await statusOf(ask(gateway, key))).toBe(200)
        expect((await tollgate(['key', 'revoke', keyId], { config: all[round % 3]!.config })).code).toBe(0)
        const refused = async () => Promise.all(all.map(gateway => statusOf(ask(gateway, key))))
        const revokedAt = performance.now()
        await expect.poll(refused).toEqual([401, 401, 401])
        expectWithin(performance.now() - revokedAt, 1000)
      }
    })

    test('accept commands while they serve, even from a folder without a gateway', async () => {
      const options = optionsOf(database)
      const config = await writeConfiguration(`${all[0]!.dir}/elsewhere`, options)
      const created = await tollgate(['account', 'create', 'alice', '--credit', '5'], { config, env: options.env })
      expect(created.stderr).toBe('')
      const shown = await tollgate(['account', 'list', '--json'], { config: all[1]!.config })
      expect(shown.stdout).toContain('alice')
    })

    test('show by a hash whether they have the same configuration', async () => {
      const other = await startReplica(database, { ...ADMIN, drain: '6s' })
      const hashes = await Promise.all(
        [all[0]!, all[1]!, other].map(async gateway => {
          const page = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
          return /^tollgate_config_info\{hash="([0-9a-f]{12})"\} 1$/m.exec(page)?.[1]
        }),
      )
      expect(hashes[0]).toBeDefined()
      expect(hashes[1]).toBe(hashes[0])
      expect(hashes[2]).not.toBe(hashes[0])
      expect(await other.stop()).toBe(0)
    })
  })

  describe('two of them, with dashboards', () => {
    let database: TestDatabase
    let one: Gateway
    let two: Gateway
    beforeAll(async () => {
      database = await fileDatabase()
      const more = { ...ADMIN, dashboard: '127.0.0.1:0', providers: { demo: { dialect: 'demo', pace: '1s' } } }
      one = await startOne(database, more)
      two = await startOne(database, more)
    })
    afterAll(() => Promise.all([one, two].map(gateway => gateway?.kill9())))

    test('count wrong passwords together', async () => {
      const statuses: number[] = []
      for (let round = 0; round < 8; round++) {
        const { dashboardUrl } = [one, two][round % 2]!
        const answer = await fetch(`${dashboardUrl}/api/session`, {
          method: 'POST',
          headers: {
            'content-type': 'application/json',
            origin: new URL(dashboardUrl).origin,
            'x-tollgate-dashboard': '1',
          },
          body: JSON.stringify({ email: 'alice@example.com', password: 'a wrong password' }),
        })
        await answer.text()
        statuses.push(answer.status)
      }
      // Three attempts at one person need not wait; each replica alone would have allowed three.
      expect(statuses).toEqual([401, 401, 401, 429, 429, 429, 429, 429])
    })

    test('show operators the exchanges and target states of all of them', async () => {
      const { key } = await createAccount(one, { credit: 10 })
      const made = await tollgate(['token', 'create', 'test'], { config: one.config })
      const token = /tg_oper_\w+/.exec(made.stdout)![0]
      const read = async <Body>(gateway: Gateway, path: string) => {
        const answer = await fetch(`${gateway.adminUrl}/api/operator/${path}`, {
          headers: { authorization: `Bearer ${token}` },
        })
        expect(answer.status).toBe(200)
        return (await answer.json()) as Body
      }
      const inProgress = async (gateway: Gateway) =>
        (await read<PageView<ExchangeView>>(gateway, 'exchanges')).items.map(({ model, replica }) => ({
          model,
          replica,
        }))
      const leaving = new AbortController()
      const answer = await ask(one, key, { stream: true }, leaving.signal)
      expect(answer.status).toBe(200)
      const expected = [{ model: 'm', replica: expect.stringMatching(/ \(1\)$/) }]
      expect(await inProgress(one)).toEqual(expected)
      await expect.poll(() => inProgress(two)).toEqual(expected)
      // The first publication may precede the hold.
      await expect.poll(() => read<SummaryView>(two, 'summary')).toMatchObject({ inflight: 1, open_holds: 1 })
      const [provider] = (await read<PageView<ProviderView>>(two, 'providers')).items
      expect(provider!.targets).toMatchObject([{ target: 'demo/demo-small', inflight: 1 }])
      leaving.abort()
      await expect.poll(() => inProgress(two)).toEqual([])
      // The published view of a dead replica is removed with it.
      await one.kill9()
      await database.run("UPDATE replica SET lease_until = clock_timestamp() - interval '1 s' WHERE id = 1")
      expect(await inProgress(two)).toEqual([])
    })
  })

  test('with serving threads have one balance too', async () => {
    const database = await testDatabase()
    const all = [await startReplica(database, { threads: 2 })]
    all.push(await startReplica(database, { threads: 2 }))
    const { key } = await createAccount(all[0]!, { credit: 10 })
    const statuses = await Promise.all(Array.from({ length: 100 }, (_, index) => statusOf(ask(all[index % 2]!, key))))
    expect(statuses.filter(status => status === 200)).toHaveLength(10)
    for (const gateway of all) expect(await gateway.stop()).toBe(0)
    await expectSound(all[0]!)
  })

  test.each([
    ['holds, with one thread', 1, 0, '53100'],
    ['holds, because a right was taken away', 1, 0, '42501'],
    ['holds, with serving threads', 2, 0, '53100'],
    ['settles, with one thread', 1, 1, '53100'],
    ['settles, with serving threads', 2, 1, '53100'],
  ])('are not ready while the database refuses %s', async (_, threads, kind, code) => {
    const database = await testDatabase()
    const gateway = await startReplica(database, { threads, admin: '127.0.0.1:0' })
    const { key } = await createAccount(gateway, { credit: 100 })
    expect(await statusOf(ask(gateway, key))).toBe(200)
    await database.run(`
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '${code}'; END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON event FOR EACH ROW WHEN (new.kind = ${kind}) EXECUTE FUNCTION refuse()`)
    const paid = () => Promise.all(Array.from({ length: 8 }, () => statusOf(ask(gateway, key))))
    const ready = async () => (await fetch(`${gateway.adminUrl}/readyz`)).status
    await expect.poll(paid).toContain(503)
    await expect.poll(ready).toBe(503)
    // This lasts while there are no requests.
    for (let look = 0; look < 2; look++) {
      await new Promise(resolve => setTimeout(resolve, 1100))
      expect(await ready()).toBe(503)
    }
    await database.run('DROP TRIGGER refuse ON event')
    await expect.poll(ready).toBe(200)
    expect(await paid()).toEqual(Array(8).fill(200))
  })

  test(
    'of which one is killed: it settles at its next start, or the others do when its lease has ended',
    async () => {
      const seed = Math.floor(Math.random() * 2 ** 32)
      console.info(`killed by the seed ${seed}`)
      const random = seeded(seed)
      const { all, database } = await startReplicas(COUNT)
      const { key, accountId } = await createAccount(all[0]!, { credit: 100_000 })
      let paid = 0
      for (let round = 0; round < counts(2, 200); round++) {
        const streams = Array.from({ length: 30 }, (_, index) =>
          statusOf(ask(all[index % COUNT]!, key, { stream: true })),
        )
        await new Promise(resolve => setTimeout(resolve, random() * 60))
        const place = Math.floor(random() * COUNT)
        const dead = all[place]!
        await dead.kill9()
        const statuses = await Promise.all(streams)
        paid += statuses.filter(status => status === 200).length
        // The other replicas are not affected.
        expect(statuses.filter((status, index) => index % COUNT !== place && status !== 200)).toEqual([])
        if (round % 2 === 0) all[place] = await startReplica(database, { dir: dead.dir })
        else {
          const id = Number.parseInt(await readFile(`${dead.dir}/.tollgate/tollgate.replica`, 'utf8'), 10)
          await database.run("UPDATE replica SET lease_until = clock_timestamp() - interval '1 s' WHERE id = $1", [id])
          all[place] = await startReplica(database)
        }
        await expect.poll(async () => (await moneyOf(all[place]!, accountId)).held).toBe('0.000000000')
      }
      const { posted } = await moneyOf(all[0]!, accountId)
      // A complete answer is charged once; others at most at their checkpoint.
      expect(100_000 - Number(posted)).toBeGreaterThanOrEqual(paid)
      await expectSound(all[0]!)
    },
    counts(120_000, 3_000_000),
  )

  test('on one machine have separate folders, and the same secret', async () => {
    const { all, database } = await startReplicas(1)
    const [one] = all
    await expect(startReplica(database, { dir: one!.dir })).rejects.toThrow(
      /tollgate\.replica is in use by process \d+.* Replicas on one machine need a folder each/,
    )
    const another = { ...optionsOf(database), env: { TOLLGATE_SECRET: 'another one than the others have' } }
    await expect(startGateway(another)).rejects.toThrow(/The keys of .* were made with another secret/)
  })
})
