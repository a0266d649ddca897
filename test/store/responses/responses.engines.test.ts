import { describe, expect, test } from 'vitest'
import { atOnce } from '#contract'
import type { LocalStore } from '../../../src/store/local-store.ts'
import { createResponseOperations } from '../../../src/store/responses/responses.ts'
import { type NewResponse, StoreUnavailable } from '../../../src/store/store.ts'
import { faultyConnector } from '../faulty.ts'
import { contentOf, fund, onEveryEngine, SECRET, type TestStore, testStore, UNGUARDED } from '../helpers.ts'

const HOUR = 3_600_000
const MiB = 1024 * 1024

const aResponse = (account: string, more: Partial<NewResponse> = {}): NewResponse => ({
  id: 'resp_1',
  account,
  parts: { output: 'what was said' },
  keepMs: HOUR,
  used: [],
  most: { responseBytes: MiB, accountBytes: 64 * MiB },
  ...more,
})

/** A part of a kept response as text. */
const find = (store: LocalStore, id: string, account: string, part = 'output') =>
  atOnce(store.responses.read(id, account, part))?.toString()

const rowsIn = ({ connect }: TestStore) => {
  const database = connect({ readOnly: true })
  const count = (table: string) => Number(database.prepare(`SELECT count(*) AS n FROM ${table}`).get()!['n'])
  const total = database.prepare('SELECT bytes FROM response_total').all()
  const found = { response: count('response'), box: count('response_box'), totals: total.map(row => row['bytes']) }
  database.close()
  return found
}

onEveryEngine(() => {
  describe.each(['here', 'thread'] as const)('a response, written by: %s', writes => {
    test('is found at once, only by its account, also after the store was closed', async () => {
      const store = await testStore({ writes })
      const [alice, bob] = [await fund(store, 1n), await fund(store, 1n, 'bob')]
      const written = store.responses.keep(aResponse(alice))
      // The response is not written yet, but the client that got the answer may already refer to it.
      expect(find(store, 'resp_1', alice)).toBe('what was said')
      expect(find(store, 'resp_1', bob)).toBeUndefined()
      expect(await written).toBe('kept')
      expect(find(store, 'resp_1', alice)).toBe('what was said')
      expect(find(store, 'resp_1', bob)).toBeUndefined()
      expect(find(store, 'resp_2', alice)).toBeUndefined()
      await store.close()
      const again = await testStore({ path: store.path, clock: store.clock, writes })
      expect(find(again, 'resp_1', alice)).toBe('what was said')
      expect(await again.responses.remove('resp_1', bob)).toBe(false)
      expect(await again.responses.remove('resp_1', alice)).toBe(true)
      expect(find(again, 'resp_1', alice)).toBeUndefined()
      expect(await again.responses.remove('resp_1', alice)).toBe(false)
    })

    test('that is removed before it is written is not found', async () => {
      const store = await testStore({ writes })
      const account = await fund(store, 1n)
      const written = store.responses.keep(aResponse(account))
      expect(await store.responses.remove('resp_1', account)).toBe(true)
      await written
      expect(find(store, 'resp_1', account)).toBeUndefined()
      expect(rowsIn(store)).toMatchObject({ response: 0, box: 0 })
    })

    test('that is not written yet delays the close', async () => {
      const store = await testStore({ writes })
      const account = await fund(store, 1n)
      const large = 'x'.repeat(900_000)
      void store.responses.keep(aResponse(account, { parts: { output: large } }))
      await store.close()
      const again = await testStore({ path: store.path, clock: store.clock })
      expect(find(again, 'resp_1', account)).toBe(large)
    })
  })

  test('each part of a response is read alone, even if another part is long', async () => {
    const store = await testStore()
    const account = await fund(store, 1n)
    const parts = { output: 'an answer', input: 'x'.repeat(3 * MiB), rest: '' }
    const most = { responseBytes: 4 * MiB, accountBytes: 64 * MiB }
    const written = store.responses.keep(aResponse(account, { parts, most }))
    const found = () => ['output', 'input', 'rest', 'none'].map(part => find(store, 'resp_1', account, part))
    expect(found()).toEqual([...Object.values(parts), undefined])
    await written
    expect(found()).toEqual([...Object.values(parts), undefined])
    expect(rowsIn(store)).toMatchObject({ response: 1, box: 3 })
    const yields = (part: string) => [...store.responses.read('resp_1', account, part)].length
    // Other work runs while a long part is decrypted.
    expect(yields('output')).toBe(0)
    expect(yields('input')).toBeGreaterThan(8)
  })

  test('a response lives for the given time, and longer when it is used', async () => {
    const store = await testStore()
    const account = await fund(store, 1n)
    const start = store.clock.ms
    await store.responses.keep(aResponse(account, { id: 'resp_1' }))
    await store.responses.keep(aResponse(account, { id: 'resp_2' }))
    store.clock.ms = start + HOUR / 2
    await store.responses.keep(aResponse(account, { id: 'resp_3', used: ['resp_1', 'resp_none'] }))
    const alive = () => [1, 2, 3].filter(id => find(store, `resp_${id}`, account) !== undefined)
    store.clock.ms = start + HOUR - 1
    expect(alive()).toEqual([1, 2, 3])
    store.clock.ms = start + HOUR
    expect(alive()).toEqual([1, 3])
    store.clock.ms = start + HOUR * 1.5
    expect(alive()).toEqual([])
    expect(rowsIn(store)).toMatchObject({ response: 3, box: 3 })
    await store.responses.sweep()
    expect(rowsIn(store)).toEqual({ response: 0, box: 0, totals: [0] })
  })

  test("an account cannot extend the lifetime of another account's response", async () => {
    const store = await testStore()
    const [alice, bob] = [await fund(store, 1n), await fund(store, 1n, 'bob')]
    await store.responses.keep(aResponse(alice, { id: 'resp_1' }))
    store.clock.ms += HOUR - 1
    await store.responses.keep(aResponse(bob, { id: 'resp_2', used: ['resp_1'] }))
    store.clock.ms += 1
    expect(find(store, 'resp_1', alice)).toBeUndefined()
  })

  test('expired responses are removed a few at a time', async () => {
    const store = await testStore()
    const account = await fund(store, 1n)
    const most = { responseBytes: 2 * MiB, accountBytes: 64 * MiB }
    for (let index = 0; index < 200; index++) {
      const output = 'x'.repeat(index < 10 ? 1.5 * MiB : 10)
      await store.responses.keep(
        aResponse(account, { id: `resp_${1000 + index}`, parts: { output }, most, keepMs: HOUR + index }),
      )
    }
    const database = store.connect()
    const { sweepResponses } = createResponseOperations(database)
    const left: number[] = []
    for (let step = 0; step < 7; step++) {
      sweepResponses(store.clock.ms + 2 * HOUR)
      left.push(rowsIn(store).response)
    }
    database.close()
    // The step ends with the response that exceeds its bytes, or with the 64th response.
    expect(left).toEqual([197, 194, 191, 127, 63, 0, 0])
  })

  test('an account has limited space; responses that expire first are removed first', async () => {
    const store = await testStore()
    const [alice, bob] = [await fund(store, 1n), await fund(store, 1n, 'bob')]
    const most = { responseBytes: MiB, accountBytes: 1000 + 3 * 100_000 }
    const keep = (account: string, id: string, used: string[] = []) =>
      store.responses.keep(aResponse(account, { id, used, parts: { output: 'x'.repeat(99_000) }, most }))
    await keep(bob, 'resp_bob')
    for (const id of ['resp_1', 'resp_2', 'resp_3']) {
      expect(await keep(alice, id)).toBe('kept')
      store.clock.ms += 1
    }
    expect(await keep(alice, 'resp_4', ['resp_1'])).toBe('kept')
    const alive = ['resp_1', 'resp_2', 'resp_3', 'resp_4'].filter(id => find(store, id, alice) !== undefined)
    expect(alive).toEqual(['resp_1', 'resp_3', 'resp_4'])
    expect(find(store, 'resp_bob', bob)).toBeDefined()
    expect(Math.max(...rowsIn(store).totals.map(Number))).toBeLessThan(most.accountBytes)

    const brief = aResponse(alice, { id: 'resp_5', most: { responseBytes: 10, accountBytes: MiB } })
    expect(await store.responses.keep(brief)).toBe('too_large')
    expect(await store.responses.keep({ ...brief, most: { responseBytes: MiB, accountBytes: 100 } })).toBe('no_room')
    expect(find(store, 'resp_5', alice)).toBeUndefined()
  })

  test('a response that can never fit removes nothing and extends nothing', async () => {
    const store = await testStore()
    const account = await fund(store, 1n)
    await store.responses.keep(aResponse(account, { id: 'resp_1' }))
    store.clock.ms += HOUR / 2
    const most = { responseBytes: MiB, accountBytes: 10_000 }
    const large = aResponse(account, { id: 'resp_2', used: ['resp_1'], parts: { output: 'x'.repeat(10_000) }, most })
    expect(await store.responses.keep(large)).toBe('no_room')
    expect(find(store, 'resp_1', account)).toBeDefined()
    store.clock.ms += HOUR / 2
    expect(find(store, 'resp_1', account)).toBeUndefined()
  })

  test('a large response replaces as many small ones as needed, a few in a transaction', async () => {
    const store = await testStore()
    const account = await fund(store, 1n)
    const most = { responseBytes: MiB, accountBytes: 200_000 }
    const outcomes = Array.from({ length: 300 }, (_, index) =>
      store.responses.keep(aResponse(account, { id: `resp_${1000 + index}`, most, keepMs: HOUR + index })),
    )
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['kept']))
    const large = aResponse(account, {
      id: 'resp_large',
      parts: { output: 'x'.repeat(150_000) },
      most,
      keepMs: 2 * HOUR,
    })
    const deleted = store.responses.keep({ ...large, id: 'resp_deleted' })
    expect(await store.responses.remove('resp_deleted', account)).toBe(true)
    await deleted
    expect(find(store, 'resp_deleted', account)).toBeUndefined()
    expect(await store.responses.keep(large)).toBe('kept')
    const { response, box, totals } = rowsIn(store)
    expect(box).toBe(response)
    expect(response).toBeGreaterThan(50)
    expect(Math.max(...totals.map(Number))).toBeLessThanOrEqual(most.accountBytes)
    // The responses that expire last are kept.
    expect(find(store, 'resp_1299', account)).toBeDefined()
    expect(find(store, 'resp_1150', account)).toBeUndefined()
  })

  test('responses are deleted with their account', async () => {
    const store = await testStore()
    const { id } = await store.createAccount({ name: 'alice' })
    await store.responses.keep(aResponse(id))
    await store.close()
    const database = store.connect()
    // No command removes an account yet; a manual removal also removes its responses.
    database.exec('DELETE FROM balance; DELETE FROM account')
    database.close()
    expect(rowsIn(store)).toEqual({ response: 0, box: 0, totals: [] })
  })

  test('the files do not contain the text of a response, and a moved row does not open', async () => {
    const store = await testStore()
    const account = await fund(store, 1n)
    await store.responses.keep(aResponse(account, { parts: { output: 'confidential '.repeat(100) } }))
    expect((await contentOf(store)).includes('confidential')).toBe(false)
    await store.close()
    // A row under another id does not open.
    const database = store.connect()
    database.exec(UNGUARDED[database.dialect.engine])
    database.exec("UPDATE response SET id = 'resp_2'; UPDATE response_box SET response = 'resp_2'")
    database.close()
    const again = await testStore({ path: store.path, clock: store.clock, secret: SECRET })
    expect(find(again, 'resp_2', account)).toBeUndefined()
    await again.close()
    // Neither does a part in the place of another one.
    const swapped = store.connect()
    swapped.exec(UNGUARDED[swapped.dialect.engine])
    swapped.exec("UPDATE response SET id = 'resp_1'; UPDATE response_box SET response = 'resp_1'")
    swapped.exec("UPDATE response_box SET part = 'input'")
    swapped.close()
    const third = await testStore({ path: store.path, clock: store.clock, secret: SECRET })
    expect(find(third, 'resp_1', account, 'input')).toBeUndefined()
  })

  test('a failing disk is reported, and an unwritten response is not found', async () => {
    const { faults, connector } = faultyConnector()
    const store = await testStore({ connector })
    const account = await fund(store, 1n)
    faults.before = 3
    await expect(store.responses.keep(aResponse(account))).rejects.toBeInstanceOf(StoreUnavailable)
    expect(find(store, 'resp_1', account)).toBeUndefined()
    // A response that was written although the disk reported a failure is not written twice.
    faults.after = 1
    expect(await store.responses.keep(aResponse(account))).toBe('kept')
    expect(rowsIn(store)).toMatchObject({ response: 1, box: 1 })
    expect(store.reads.verify().violations).toEqual([])
  })

  test('responses take a limited part of the memory while they wait for a slow disk', async () => {
    const turns: (() => void)[] = []
    let isSlow = false
    const store = await testStore({ schedule: fn => void (isSlow ? turns.push(fn) : setImmediate(fn)) })
    const account = await fund(store, 1n)
    isSlow = true
    const most = { responseBytes: 32 * MiB, accountBytes: 256 * MiB }
    const output = 'x'.repeat(30 * MiB)
    const outcomes = ['resp_1', 'resp_2', 'resp_3'].map(id =>
      store.responses.keep(aResponse(account, { id, parts: { output }, most })),
    )
    expect(await outcomes[2]).toBe('store_busy')
    expect(find(store, 'resp_3', account)).toBeUndefined()
    expect(find(store, 'resp_2', account)).toBe(output)
    isSlow = false
    for (const turn of turns) turn()
    expect(await Promise.all(outcomes)).toEqual(['kept', 'kept', 'store_busy'])
  })
})
