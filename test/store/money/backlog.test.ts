/** Settles that cannot be written: where they stay, which holds are refused meanwhile, and how that is reported. */
import { mkdirSync, rmdirSync, rmSync, statSync } from 'node:fs'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { Log } from '#contract'
import type { StoreOptions } from '../../../src/store/engine/sqlite.ts'
import { StoreError } from '../../../src/store/error.ts'
import { StoreUnavailable } from '../../../src/store/store.ts'
import { until } from '../../helpers/until.ts'
import { faultyConnector } from '../faulty.ts'
import { aHold, aSettle, fund, testStore } from '../helpers.ts'

const WRITES = ['here', 'thread'] as const
const ALL = 1_000_000

/** A store whose disk fails on request, with one open hold of 100 for each exchange. */
async function rig(options: Partial<StoreOptions>, ...exchanges: string[]) {
  const { connector, faults } = faultyConnector()
  const lines: { level: string; message: string; fields: Readonly<Record<string, unknown>> }[] = []
  const write = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) =>
    void lines.push({ level, message, fields })
  const log: Log = { info: write('info'), warn: write('warn'), error: write('error') }
  const store = await testStore({ connector, log, ...options })
  const accountId = await fund(store, 1000n)
  for (const exchange of exchanges) await store.ledger.hold(aHold({ accountId, exchange }))
  return {
    store,
    faults,
    lines,
    accountId,
    hold: (exchange: string) => store.ledger.hold(aHold({ accountId, exchange })),
    spool: (exchange: string) => store.ledger.spool(aSettle({ exchange, amount: 61n })),
    /** A folder in the file's place: the real error of a real file system. */
    refuseSpool: () => mkdirSync(`${store.path}.spool`),
    allowSpool: () => rmdirSync(`${store.path}.spool`),
    balance: () => {
      const { posted, held } = store.reads.findAccount('alice')!
      return { posted, held }
    },
  }
}

describe.each(WRITES)('settles that cannot be written, written by: %s', writes => {
  test.each([
    { where: 'in the spool', isRefused: false },
    { where: 'in memory', isRefused: true },
  ])('stay $where, nothing new is held, and everything is settled when the disk is back', async ({ isRefused }) => {
    const { store, faults, hold, spool, balance, lines, ...at } = await rig({ writes }, 'req_1', 'req_2', 'req_3')
    faults.before = ALL
    if (isRefused) at.refuseSpool()
    expect([spool('req_1'), spool('req_2')]).toEqual(isRefused ? ['waiting', 'waiting'] : ['spooled', 'spooled'])
    store.ledger.abandon(aSettle({ exchange: 'req_3', amount: 0n, outcome: 'refused' }))
    expect(store.unwritten()).toMatchObject(isRefused ? { spooled: 0, waiting: 2 } : { spooled: 2, waiting: 0 })
    expect(store.problem()).toBe('the ledger cannot be written')
    for (const exchange of ['req_4', 'req_5']) {
      const refused = await hold(exchange).catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(StoreUnavailable)
      expect(refused).toMatchObject({ written: 'not_written', message: expect.stringMatching(/earlier settles wait/) })
    }

    faults.before = 0
    await until(async () => expect(await hold('req_6')).toMatchObject({ held: true }))
    expect(store.unwritten()).toMatchObject({ spooled: 0, waiting: 0 })
    expect(balance()).toEqual({ posted: 1000n - 122n, held: 100n })
    expect(store.problem()).toBeNull()
    expect(lines).toMatchObject([{ level: 'warn', message: 'delayed settles were written', fields: { settles: 3 } }])
    expect(store.reads.verify().violations).toEqual([])
  })

  test('are retried without a request', async () => {
    const { store, faults, spool, balance } = await rig({ writes }, 'req_1')
    faults.before = 7
    spool('req_1')
    await until(() => expect(balance()).toEqual({ posted: 939n, held: 0n }))
    await until(() => expect(store.unwritten().spooled).toBe(0))
  })

  test('are not retried by requests during a pause', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const { store, faults, spool, hold } = await rig({ writes }, 'req_1')
    faults.before = ALL
    spool('req_1')
    for (let index = 2; index < 22; index++) await expect(hold(`req_${index}`)).rejects.toBeInstanceOf(StoreUnavailable)
    expect(ALL - faults.before).toBe(0)
    // A request during an attempt waits for its end.
    faults.before = 0
    vi.advanceTimersByTime(50)
    expect(await hold('req_22')).toMatchObject({ held: true })
    expect(store.unwritten()).toMatchObject({ spooled: 0, waiting: 0 })
  })

  test('in memory go to the spool as soon as it has room', async () => {
    const { store, faults, spool, ...at } = await rig({ writes }, 'req_1')
    faults.before = ALL
    at.refuseSpool()
    spool('req_1')
    let isSafe = false
    const flushed = store.flushed().then(() => {
      isSafe = true
    })
    await store.look()
    expect(isSafe).toBe(false)
    at.allowSpool()
    await flushed
    expect(store.unwritten()).toMatchObject({ spooled: 1, waiting: 0 })
    faults.before = 0
  })

  test('until the store closes are logged with their amounts, and closing reports them', async () => {
    const { store, faults, spool, lines, ...at } = await rig({ writes }, 'req_1', 'req_2')
    faults.before = ALL
    at.refuseSpool()
    spool('req_1')
    store.ledger.abandon(aSettle({ exchange: 'req_2', amount: 0n }))
    const closed = await store.close().catch((error: unknown) => error)
    expect(closed).toBeInstanceOf(StoreError)
    expect(String(closed)).toContain('1 settles could not be written')
    const lost = {
      exchange: 'req_1',
      amount: '0.000000061',
      source: 'reported',
      prompt_tokens: 10,
      completion_tokens: 20,
    }
    expect(lines).toEqual([
      { level: 'error', message: expect.stringMatching(/^a settle is lost/), fields: lost },
      // The next start releases the hold, like every open hold of a dead process.
      {
        level: 'warn',
        message: 'a hold that may exist stays open until the next start',
        fields: { exchange: 'req_2' },
      },
    ])
    at.allowSpool()
    const next = await testStore({ path: store.path })
    expect(await next.recover()).toMatchObject({ settled: 2, charged: 0n })
  })

  test('that the ledger refuses are logged, and do not block others', async () => {
    const { store, lines, hold, ...at } = await rig({ writes }, 'req_1')
    at.refuseSpool()
    store.ledger.spool(aSettle({ exchange: 'req_1', amount: 101n }))
    store.ledger.spool(aSettle({ exchange: 'req_9', amount: 1n }))
    await until(async () => expect(await hold('req_2')).toMatchObject({ held: true }))
    const refused = lines.filter(({ level }) => level === 'error')
    expect(refused.map(({ fields }) => fields['exchange']).sort()).toEqual(['req_1', 'req_9'])
    expect(store.unwritten()).toMatchObject({ spooled: 0, waiting: 0 })
  })
})

test('a spool that cannot be replayed is logged once, until it is replayed', async () => {
  const { store, lines, spool } = await rig({})
  const failures = () => lines.filter(({ message }) => message === 'the spool cannot be written to the ledger')
  for (let times = 1; times <= 2; times++) {
    // The ledger refuses the settle, and the rejected line cannot be written.
    mkdirSync(`${store.path}.spool.rejected`)
    spool(`req_${times}0`)
    for (let looks = 0; looks < 3; looks++) {
      store.clock.ms += 1000
      await store.look()
    }
    expect(store.unwritten()).toMatchObject({ spooled: 1, waiting: 0 })
    expect(failures()).toHaveLength(times)
    expect(failures().at(-1)).toMatchObject({
      level: 'error',
      fields: { settles: 1, error: expect.stringContaining('EISDIR') },
    })
    rmdirSync(`${store.path}.spool.rejected`)
    const refused = () => lines.filter(({ fields }) => fields['rejected'] === 1)
    await until(() => expect(refused()).toHaveLength(times))
    expect(store.unwritten()).toMatchObject({ spooled: 0, waiting: 0 })
    rmSync(`${store.path}.spool.rejected`)
  }
})

describe.each(WRITES)('a check of the disk, written by: %s', writes => {
  test('reports without any traffic that it cannot be written, and that it can again', async () => {
    const { store, faults } = await rig({ writes })
    await store.look()
    expect(store.problem()).toBeNull()
    faults.before = ALL
    store.clock.ms += 1000
    await store.look()
    expect([store.problem(), store.healthy()]).toEqual(['the ledger cannot be written', false])
    faults.before = 0
    store.clock.ms += 1000
    await store.look()
    expect([store.problem(), store.healthy()]).toEqual([null, true])
  })

  test('runs once a second, however many callers request it', async () => {
    const { store, faults } = await rig({ writes })
    await store.look()
    const commits = faults.commitsHere + faults.commitsElsewhere
    await Promise.all(Array.from({ length: 50 }, () => store.look()))
    expect(faults.commitsHere + faults.commitsElsewhere).toBe(commits)
    store.clock.ms += 1000
    await Promise.all(Array.from({ length: 50 }, () => store.look()))
    expect(faults.commitsHere + faults.commitsElsewhere).toBe(commits + 1)
  })
})

test('a check writes as much as an exchange', async () => {
  const { store, accountId } = await rig({})
  const { key } = await store.createKey({ account: accountId, name: 'k' })
  /** The growth of the log in bytes: a log this short is never truncated. */
  const written = async (act: () => Promise<unknown>) => {
    const before = statSync(`${store.path}-wal`).size
    await act()
    return statSync(`${store.path}-wal`).size - before
  }
  const most = { hold: 0, settle: 0, look: Number.POSITIVE_INFINITY }
  for (let index = 100; index < 120; index++) {
    const exchange = `req_${index}`
    store.clock.ms += 1000
    const hold = () => store.ledger.hold(aHold({ accountId, keyId: key.id, exchange, amount: 1n }))
    most.hold = Math.max(most.hold, await written(hold))
    most.settle = Math.max(most.settle, await written(() => store.ledger.settle(aSettle({ exchange, amount: 1n }))))
    most.look = Math.min(most.look, await written(store.look))
  }
  expect(most.look).toBeGreaterThanOrEqual(most.hold)
  expect(most.look).toBeGreaterThanOrEqual(most.settle)
})

test('a slow disk is a problem until it has answered', async () => {
  const { store, faults } = await rig({ writes: 'thread' })
  faults.delayMs = 3000
  await store.look()
  expect(store.problem()).toBe('writes to the ledger take too long')
  faults.delayMs = 0
  await until(() => expect(store.problem()).toBeNull())
})

test('a spool whose space cannot be reserved is a problem and is logged once, until its space is reserved', async () => {
  const { store, lines, ...at } = await rig({ reserve: () => 10 })
  at.refuseSpool()
  // As at a start: there are no holds yet.
  for (let times = 0; times < 3; times++) {
    store.clock.ms += 1000
    await store.look()
  }
  expect(store.problem()).toBe('the disk has no space for the spool')
  expect(lines).toMatchObject([{ level: 'error', message: 'the space for the spool cannot be reserved' }])
  at.allowSpool()
  store.clock.ms += 1000
  await store.look()
  expect(store.problem()).toBeNull()
  expect(statSync(`${store.path}.spool`).size).toBe(20_480)
  expect(lines.at(-1)).toMatchObject({ level: 'warn', message: 'the space for the spool is reserved again' })
})
