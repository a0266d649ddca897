/**
 * The files under an open store. Only SQLite opens them. A store whose files were removed or replaced accepts nothing more, from the next
 * commit on.
 */
import { execFileSync } from 'node:child_process'
import {
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Log } from '#contract'
import { realPath } from '../../../src/store/files/files.ts'
import { takeLock } from '../../../src/store/files/lock.ts'
import { reportLosses } from '../../../src/store/money/report-losses.ts'
import { loadSecret } from '../../../src/store/secret.ts'
import { NOT_AS_ROOT, testWith } from '../../helpers/missing.ts'
import { holdsLock, openFiles, WITHOUT_LOCKS, WITHOUT_SQLITE } from '../../helpers/sqlite-program.ts'
import { aHold, aSettle, folder, fund, testStore } from '../helpers.ts'

describe.each(['thread', 'here'] as const)('written by: %s', writes => {
  testWith(
    WITHOUT_LOCKS,
    'an open store holds its lock, also after more connections were opened and closed',
    async () => {
      const store = await testStore({ writes })
      await fund(store, 1000n)
      const other = await testStore({ path: store.path, writes })
      expect(holdsLock(process.pid, store.path)).toBe(true)
      await other.close()
      expect(holdsLock(process.pid, store.path)).toBe(true)
      expect(openFiles(process.pid, store.path)).toEqual(['', '-shm', '-wal'])
    },
  )

  testWith(
    WITHOUT_SQLITE ?? WITHOUT_LOCKS,
    'another program that reads the store does not move the log into the database',
    async () => {
      const store = await testStore({ writes })
      const accountId = await fund(store, 1000n)
      execFileSync('sqlite3', [store.path, 'SELECT count(*) FROM event'])
      execFileSync('sqlite3', [store.path, `.backup ${store.path}.copy`])
      expect(openFiles(process.pid, store.path)).toEqual(['', '-shm', '-wal'])
      expect(await store.ledger.hold(aHold({ accountId }))).toMatchObject({ held: true })
      // Another process sees the hold: the store still writes to the log in the folder.
      expect(execFileSync('sqlite3', [store.path, 'SELECT count(*) FROM event']).toString()).toBe('2\n')
      expect(store.lostFiles()).toBeNull()
    },
  )

  const remove = (path: string) => rmSync(path)
  const replace = (path: string) => {
    copyFileSync(path, `${path}.copy`)
    renameSync(`${path}.copy`, path)
  }
  const rows: [what: string, name: string, act: (path: string) => void][] = [
    ['the log is removed', 'write-ahead log', path => remove(`${path}-wal`)],
    ['the log is replaced', 'write-ahead log', path => replace(`${path}-wal`)],
    ['the index is removed', 'WAL index', path => remove(`${path}-shm`)],
    ['the index is replaced', 'WAL index', path => replace(`${path}-shm`)],
    ['the database is moved away', 'database file', path => renameSync(path, `${path}.away`)],
    ['the database is replaced', 'database file', replace],
  ]
  test.each(rows)('if %s, that is reported and nothing is written any more', async (_what, name, act) => {
    const store = await testStore({ writes })
    const accountId = await fund(store, 1000n)
    await store.ledger.hold(aHold({ accountId }))
    expect(store.lostFiles()).toBeNull()
    act(store.path)
    const reason = `the store's ${name} was removed or replaced while the gateway ran; restart the gateway`
    expect(store.lostFiles()).toBe(reason)
    const refusal = { name: 'StoreUnavailable', written: 'not_written', message: expect.stringContaining(reason) }
    await expect(store.ledger.hold(aHold({ accountId, exchange: 'req_2' }))).rejects.toMatchObject(refusal)
    await expect(store.ledger.settle(aSettle())).rejects.toMatchObject(refusal)
    await expect(store.freeze(accountId, true)).rejects.toMatchObject(refusal)
  })

  test.each([
    ['write-ahead log', '-wal'],
    ['WAL index', '-shm'],
    ['database file', ''],
  ])('if the %s cannot be checked, that is reported and nothing is written any more', async (name, end) => {
    const store = await testStore({ writes })
    const accountId = await fund(store, 1000n)
    rmSync(store.path + end)
    // A link to itself: the real error of a real file system (ELOOP).
    symlinkSync(basename(store.path + end), store.path + end)
    const lines: unknown[] = []
    const log: Log = { info() {}, warn() {}, error: (fields, message) => void lines.push([message, fields]) }
    let check = (_atMs: number) => {}
    reportLosses(store, 'sqlite:a.db', {
      log,
      watch: each => {
        check = each
        return () => {}
      },
    })
    check(0)
    const reason = `the store's ${name} cannot be checked: ELOOP; restart the gateway`
    expect(lines).toEqual([['paid requests are refused', { store: 'sqlite:a.db', reason }]])
    expect(store.problem()).toBe(reason)
    const refusal = { name: 'StoreUnavailable', written: 'not_written', message: expect.stringContaining(reason) }
    await expect(store.ledger.hold(aHold({ accountId }))).rejects.toMatchObject(refusal)
  })

  test('if the log and its index are removed, the next commit is not acknowledged', async () => {
    const store = await testStore({ writes })
    const accountId = await fund(store, 1000n)
    for (const end of ['-wal', '-shm']) rmSync(store.path + end)
    const hold = store.ledger.hold(aHold({ accountId }))
    await expect(hold).rejects.toMatchObject({ name: 'StoreUnavailable', written: 'unknown' })
    expect(store.healthy()).toBe(false)
    const next = store.ledger.hold(aHold({ accountId, exchange: 'req_2' }))
    await expect(next).rejects.toMatchObject({ name: 'StoreUnavailable', written: 'not_written' })
  })
})

// Commands run as root, and the gateway as another user.
testWith(NOT_AS_ROOT, 'files that root makes belong to the owner of the folder', async () => {
  const top = folder()
  chownSync(top, 12_345, 12_346)
  const path = join(top, 'deep/tollgate.db')
  const lock = await takeLock(path, { now: () => Date.now() })
  loadSecret(null, join(top, 'deep'), path)
  const store = await testStore({ path })
  const accountId = await fund(store, 1000n)
  await store.ledger.hold(aHold({ accountId }))
  store.ledger.spool(aSettle())
  const owners = () =>
    Object.fromEntries(
      readdirSync(top, { recursive: true, encoding: 'utf8' })
        .filter(name => !name.endsWith('.owner'))
        .map(name => [name, statSync(join(top, name)).uid]),
    )
  const names = ['', '-shm', '-wal', '.commits', '.lock', '.lock-journal', '.spool'].map(
    end => `deep/tollgate.db${end}`,
  )
  const made = ['deep', ...names, 'deep/secret'].map(name => [name, 12_345])
  expect(owners()).toEqual(Object.fromEntries(made))
  await store.close()
  lock.release()
})

testWith(NOT_AS_ROOT, 'root changes the owner only of files that it has made', async () => {
  const [top, other] = [folder(), folder()]
  chownSync(top, 12_345, 12_346)
  const path = join(top, 'tollgate.db')
  // The owner of the folder tries to become the owner of other files of root.
  for (const end of ['.commits', '.spool']) symlinkSync(join(other, end), path + end)
  writeFileSync(join(other, '.commits'), '')
  const store = await testStore({ path })
  const accountId = await fund(store, 1000n)
  await store.ledger.hold(aHold({ accountId }))
  store.ledger.spool(aSettle())
  for (const name of readdirSync(other)) expect(statSync(join(other, name)).uid, name).toBe(0)
  expect(statSync(path).uid).toBe(12_345)
})

test('all files of a store are private', async () => {
  const store = await testStore({ writes: 'thread' })
  for (const end of ['', '-wal', '-shm', '.commits']) expect(statSync(store.path + end).mode & 0o777, end).toBe(0o600)
})

test.each([
  ['an existing file', 'real/tollgate.db', 'real/tollgate.db'],
  ['a link to it', 'link.db', 'real/tollgate.db'],
  ['a link to a link', 'link-to-link.db', 'real/tollgate.db'],
  ['a link to a missing file', 'dangling.db', 'real/new.db'],
  ['a missing file, through a linked folder', 'folder/deep/x.db', 'real/deep/x.db'],
  ['a link to itself', 'loop.db', 'loop.db'],
  ['a file in a file', 'real/tollgate.db/x', 'real/tollgate.db/x'],
])('the real path of %s', async (_what, name, expected) => {
  const root = realPath(folder())
  mkdirSync(join(root, 'real'))
  await testStore({ path: join(root, 'real/tollgate.db') })
  const links = {
    'link.db': 'real/tollgate.db',
    'link-to-link.db': 'link.db',
    'dangling.db': join(root, 'real/new.db'),
    folder: 'real',
    'loop.db': 'loop.db',
  }
  for (const [link, target] of Object.entries(links)) symlinkSync(target, join(root, link))
  expect(realPath(join(root, name))).toBe(join(root, expected))
})
