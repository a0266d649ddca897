/** A ledger that cannot be written, or that refuses a settle. */
import { describe, expect, test, vi } from 'vitest'
import { parseMoney, retryHeaders } from '#contract'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { StoreError } from '../../src/store/error.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { until } from '../../test/helpers/until.ts'
import { closers, header, rig, SECRET, temporaryFile } from './test-rig.ts'
import { chat, model, priced } from './test-samples.ts'

const stream = () => chat({ stream: true })
const dollars = (text: string) => parseMoney(text)

describe('a charge that cannot be written', () => {
  const unavailable = () => new StoreUnavailable('unknown', new Error('I/O error at /var/lib/ledger.db'))

  test('is retried, and the answer waits for it', async () => {
    let failures = 3
    const { run, asked, balance, log, sound } = await rig({
      wrap: real => ({ settle: request => (failures-- > 0 ? Promise.reject(unavailable()) : real.settle(request)) }),
    })
    const { refusal, ctx } = await run()
    expect(refusal).toBeNull()
    expect(asked).toEqual(['hold', 'settle', 'settle', 'settle', 'settle'])
    expect(header(ctx, 'x-tollgate-cost')).toBe('0.000020000')
    expect(balance().posted).toBe(dollars('$1') - 20_000n)
    expect(log).toEqual([])
    sound()
  })

  test('is charged once if it was written although its commit failed', async () => {
    let failures = 2
    const { run, balance, sound } = await rig({
      wrap: real => ({
        async settle(request) {
          const result = await real.settle(request)
          if (failures-- > 0) throw unavailable()
          return result
        },
      }),
    })
    expect((await run()).refusal).toBeNull()
    expect(balance().posted).toBe(dollars('$1') - 20_000n)
    sound()
  })

  test('in time goes to the spool, the answer is sent, and it is charged before the store closes', async () => {
    const url = await temporaryFile()
    const broken = { settle: () => Promise.reject(unavailable()) }
    const { run, store, asked, log, id } = await rig({ url, lookMs: 1_000, wrap: () => broken })
    const { refusal, exchange, ctx } = await run({ facts: { chat: stream() } })
    // The charge is on disk, so the answer may end.
    expect(refusal).toBeNull()
    expect(exchange.outcome).toBe('answered')
    expect(header(ctx, 'x-tollgate-cost')).toBe('0.000020000')
    expect(asked.at(-1)).toBe('spool')
    expect(asked.filter(verb => verb === 'settle').length).toBeGreaterThan(1)
    expect(log).toMatchObject([{ level: 'error', fields: { exchange: exchange.id } }])
    expect(store.openHolds()).toBe(1)
    expect(store.unwritten()).toMatchObject({ spooled: 1, waiting: 0 })
    await store.close()

    const next = await openStore({ url, secret: SECRET, clock: { now: () => 1_790_000_100_000 } })
    closers.push(() => next.close())
    expect(await next.recover()).toMatchObject({ settled: 0, replayed: 0 })
    expect(next.reads.findAccount(id)).toMatchObject({ posted: dollars('$1') - 20_000n, held: 0n })
    expect(next.reads.findReceipt(exchange.id)).toMatchObject({ charged: 20_000n, source: 'reported' })
    expect(next.reads.verify().violations).toEqual([])
  })

  test.each([
    ['is a correction, because recovery has settled the hold', 'settle', 'corrected'],
    ['is spooled after the lease has ended', 'spool', 'spooled_late'],
  ] as const)('and %s: the answer names no cost', async (_, verb, result) => {
    const { run } = await rig({
      lookMs: 1_000,
      wrap: () =>
        verb === 'settle'
          ? { settle: async () => result }
          : { settle: () => Promise.reject(unavailable()), spool: () => result },
    })
    const { refusal, exchange, ctx } = await run()
    expect(refusal).toBeNull()
    expect(exchange.outcome).toBe('answered')
    expect(header(ctx, 'x-tollgate-cost')).toBe('')
  })

  test('in time goes to the spool while its last attempt is still running', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    let tries = 0
    const { run, asked, log } = await rig({
      url: await temporaryFile(),
      wrap: () => ({ settle: () => (tries++ === 0 ? Promise.reject(unavailable()) : new Promise(() => {})) }),
    })
    const running = run({ facts: { chat: stream() } })
    await until(() => expect(asked).toContain('settle'))
    await vi.advanceTimersByTimeAsync(4_900)
    expect((await running).refusal).toBeNull()
    expect(asked.slice(-3)).toEqual(['settle', 'settle', 'spool'])
    expect(log).toMatchObject([{ level: 'error', message: 'failed to write a settle; it is in the spool' }])
  })

  test('goes to the spool at once if the first attempt took all the time', async () => {
    const { run, asked, clock } = await rig({
      url: await temporaryFile(),
      wrap: () => ({
        async settle() {
          clock.time += 4_500
          throw unavailable()
        },
      }),
    })
    expect((await run({ facts: { chat: stream() } })).refusal).toBeNull()
    expect(asked).toEqual(['hold', 'settle', 'spool'])
  })

  test('nor spooled waits in memory, and the client gets a 503', async () => {
    const { run, log, store, balance } = await rig({
      lookMs: 2_000,
      wrap: () => ({ settle: () => Promise.reject(unavailable()) }),
    })
    const { refusal, exchange, ctx } = await run()
    expect(refusal).toMatchObject({ code: 'store_unavailable', status: 503 })
    expect(refusal!.message).not.toContain('/var/lib')
    expect(refusal!.message).toContain('It is charged when the ledger can be written again.')
    // It will be charged later: a retry would be charged too.
    expect({ ...retryHeaders(refusal!), ...refusal!.headers }).toEqual({ 'x-should-retry': 'false' })
    expect(exchange.outcome).toBe('failed')
    expect(header(ctx, 'x-tollgate-cost')).toBe('')
    expect(log).toMatchObject([{ level: 'error', fields: { exchange: exchange.id, amount: '0.000020000' } }])
    // The store itself works: it writes the waiting settle.
    await until(() => expect(store.unwritten().waiting).toBe(0))
    expect(balance()).toEqual({ posted: dollars('$1') - 20_000n, held: 0n })
  })

  test('because the ledger refuses it is kept for the operator, and the answer is withheld', async () => {
    const { run, log } = await rig({
      url: await temporaryFile(),
      lookMs: 2_000,
      wrap: () => ({ settle: () => Promise.reject(new StoreError('req_1 holds less.')) }),
    })
    expect((await run()).refusal).toMatchObject({ code: 'store_unavailable', status: 503 })
    expect(log).toMatchObject([{ level: 'error', message: 'failed to write a settle; it is in the spool' }])
  })

  test('because its hold is missing is a bug, and is logged', async () => {
    const { run, log } = await rig({ wrap: () => ({ settle: () => Promise.resolve('no_hold') }) })
    expect((await run()).refusal).toBeNull()
    expect(log).toMatchObject([{ level: 'error', message: 'a settle has no hold' }])
  })

  test('is charged as soon as the ledger can be written, without a restart', async () => {
    let isBroken = true
    const { run, store, balance, sound } = await rig({
      url: await temporaryFile(),
      lookMs: 1_000,
      wrap: real => ({ settle: request => (isBroken ? Promise.reject(unavailable()) : real.settle(request)) }),
    })
    const { exchange } = await run()
    expect(balance().held).toBeGreaterThan(0n)
    isBroken = false
    // Until it is written, new holds are refused.
    await until(() => expect(store.openHolds()).toBe(0))
    await run()
    expect(balance()).toEqual({ posted: dollars('$1') - 40_000n, held: 0n })
    expect(store.reads.findReceipt(exchange.id)).toMatchObject({ charged: 20_000n, source: 'reported' })
    sound()
  })

  test('has no negative time limit if the clock is set ahead during a pause', async () => {
    const timer = vi.spyOn(globalThis, 'setTimeout')
    const { run, asked } = await rig({
      url: await temporaryFile(),
      lookMs: 2_400,
      wrap: () => ({ settle: () => Promise.reject(unavailable()) }),
    })
    await run({ facts: { chat: stream() } })
    expect(asked.filter(verb => verb === 'settle')).toHaveLength(2)
    expect(timer.mock.calls.filter(([, ms = 0]) => ms < 0)).toEqual([])
  })

  test('is abandoned in time if the clock is set back at each reading', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const { run, asked } = await rig({
      lookMs: -60_000,
      wrap: () => ({ settle: () => Promise.reject(unavailable()) }),
    })
    void run()
    await until(() => expect(asked).toContain('settle'))
    await vi.advanceTimersByTimeAsync(4_900)
    expect(asked.at(-1)).toBe('spool')
    expect(asked.filter(verb => verb === 'settle').length).toBeLessThan(20)
  })
})

describe('a hold that the ledger refuses as a mistake', () => {
  test('because its amount is above the column is 402: no account has so much credit', async () => {
    const dear = priced({ output: 2n ** 62n })
    const { run, sound } = await rig({ settings: { when_short: ['refuse'] } })
    const { refusal, passed } = await run({
      facts: { chat: chat({ n: 128 }, 1_000_000), model: model({ price: dear }) },
    })
    expect(passed).toBe(false)
    expect(refusal).toMatchObject({ code: 'insufficient_quota', status: 402, retryable: false })
    sound()
  })

  test('is a bug that a retry would not fix; nothing is released', async () => {
    const mistake = new StoreError('req_1 is settled; it cannot be held again.')
    const { run, asked } = await rig({ wrap: () => ({ hold: () => Promise.reject(mistake) }) })
    expect((await run()).refusal).toMatchObject({ code: 'plugin_error', status: 500, retryable: false })
    expect(asked).toEqual(['hold'])
  })
})
