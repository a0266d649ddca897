/** A ledger that lost its last commits is sound in itself; the count beside it shows the loss. */
import { copyFileSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { connect, openDatabase } from '../../../src/store/engine/database.ts'
import { verify } from '../../../src/store/money/verify.ts'
import { aHold, folder, fund, type TestStore, testClock, testStore } from '../helpers.ts'

const AT = 1_800_000_000_000
const TIME = '2027-01-15T08:00:00.000Z'

/** The violations that `ledger verify` reports, from another connection. */
function violations(path: string) {
  const database = openDatabase(path, { readOnly: true })
  try {
    return verify(database, undefined, path).violations
  } finally {
    database.close()
  }
}

/** Moves the log into the database, as after the last connection has closed. */
function checkpointLog(path: string): void {
  const database = connect(path)
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  database.close()
}

/** Returns a running store to the state before its last commits. */
async function withoutLastCommits(holds: number, writes: 'thread' | 'here' = 'here'): Promise<string> {
  const first = await testStore({ writes })
  const { path } = first
  await fund(first, 1000n)
  await first.close()
  checkpointLog(path)
  copyFileSync(path, `${path}.before`)
  const second = await testStore({ path, writes })
  const accountId = second.reads.listAccounts()[0]!.id
  for (let hold = 0; hold < holds; hold++) {
    await second.ledger.hold(aHold({ accountId, exchange: `req_${hold}`, amount: 1n }))
  }
  // As after kill -9: the count as it is before the store closes.
  const log = readFileSync(`${path}.commits`, 'utf8')
  await second.close()
  checkpointLog(path)
  copyFileSync(`${path}.before`, path)
  writeFileSync(`${path}.commits`, log)
  return path
}

test.each(['thread', 'here'] as const)('three lost commits are reported, written by: %s', async writes => {
  const path = await withoutLastCommits(3, writes)
  const violation = { invariant: 'I13', subject: 'ledger' }
  const sentence = `The ledger ends 3 commits before the last one that was acknowledged (commit 6, ${TIME}).`
  expect(violations(path)).toEqual([{ ...violation, message: sentence }])

  // The next start reports the loss and continues; each later audit reports the loss too.
  const store = await testStore({ path, writes })
  expect(store.lostCommits).toEqual({ from: 4, to: 6, at: AT })
  const found = `A start found that the last 3 commits up to ${TIME} were missing (4 to 6).`
  expect(store.reads.verify().violations).toEqual([{ ...violation, message: found }])
  await fund(store, 5n, 'bob')
  expect(store.reads.verify().violations).toEqual([{ ...violation, message: found }])
  await store.close()

  // After a review the file is removed, and the next start makes a new one.
  rmSync(`${path}.commits`)
  expect(violations(path)).toEqual([])
  const again = await testStore({ path, writes })
  expect(again.lostCommits).toBeNull()
  await fund(again, 5n, 'carol')
  expect(again.reads.verify().violations).toEqual([])
})

test('a loss is reported once, even if a start is killed between its two notes of the loss', async () => {
  const path = await withoutLastCommits(2)
  copyFileSync(path, `${path}.lost`)
  await (await testStore({ path })).close()
  checkpointLog(path)
  const noted = readFileSync(`${path}.commits`, 'utf8')
  copyFileSync(`${path}.lost`, path)
  writeFileSync(`${path}.commits`, noted.replace(/^\d{16}/, '0000000000000005'))
  const store = await testStore({ path })
  expect(store.reads.verify().violations).toHaveLength(1)
})

async function someCommits(): Promise<TestStore> {
  const store = await testStore({ clock: testClock(AT) })
  await fund(store, 1000n)
  return store
}

test('one lost commit is reported in the singular', async () => {
  const store = await someCommits()
  writeFileSync(`${store.path}.commits`, `0000000000000003 ${String(AT).padStart(16, '0')}\n`)
  expect(store.reads.verify().violations).toEqual([
    {
      invariant: 'I13',
      subject: 'ledger',
      message: `The ledger ends 1 commit before the last one that was acknowledged (commit 3, ${TIME}).`,
    },
  ])
})

test.each([
  ['is behind, as after a power cut', '0000000000000001 0000000000000000\n', []],
  ['is exact', undefined, []],
  ['is missing, as beside a backup', null, []],
  ['is garbage', '\0\0\0\0', ['corrupt']],
])('a count that %s', async (_what, text, expected) => {
  const store = await someCommits()
  if (text === null) rmSync(`${store.path}.commits`)
  else if (text !== undefined) writeFileSync(`${store.path}.commits`, text)
  expect(store.reads.verify().violations.map(({ invariant }) => invariant)).toEqual(expected)
  await store.close()
  const again = await testStore({ path: store.path })
  expect(again.lostCommits).toBeNull()
  await fund(again, 5n, 'bob')
  expect(again.reads.verify().violations).toEqual([])
})

test('the count has a constant length, is overwritten in place, and is exact after every commit', async () => {
  const store = await testStore({ path: `${folder()}/tollgate.db`, clock: testClock(AT) })
  const { ino, size } = statSync(`${store.path}.commits`)
  for (let commit = 1; commit < 12; commit++) {
    await store.createAccount({ name: `customer ${commit}` })
    const text = readFileSync(`${store.path}.commits`, 'utf8')
    expect(text).toBe(`${String(commit).padStart(16, '0')} ${String(AT).padStart(16, '0')}\n`)
    expect(statSync(`${store.path}.commits`)).toMatchObject({ ino, size })
  }
})
