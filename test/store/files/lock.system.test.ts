/** One owner of a store, across real processes. */
import { existsSync, linkSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { StoreError } from '../../../src/store/error.ts'
import { takeLock } from '../../../src/store/files/lock.ts'
import { onlyFull } from '../../helpers/counts.ts'
import { NOT_ON_LINUX, testWith } from '../../helpers/missing.ts'
import { type Child, startChild } from '../child.ts'
import { folder, fund, testStore } from '../helpers.ts'

const START = 1_800_000_000_000

test.each([
  ['12 s', 12_000],
  ['7 min', 7 * 60_000],
  ['26 h 5 min', (26 * 60 + 5) * 60_000],
  ['3 days', 3 * 86_400_000],
  ['0 s', -5000],
])('a lock of another process is refused with its pid and its age (%s)', async (age, ms) => {
  const path = join(folder(), 'tollgate.db')
  const owner = startChild('lock.child.ts', path)
  await owner.untilLines(1)
  const second = takeLock(path, { now: () => START + ms })
  await expect(second).rejects.toThrow(`The store ${path} is in use by process ${owner.pid}, for ${age}. Stop that one`)
  await expect(second).rejects.toBeInstanceOf(StoreError)
  await owner.kill()
})

test('a lock is free at once after kill -9 of its owner, without a cleanup', async () => {
  const path = join(folder(), 'tollgate.db')
  const owner = startChild('lock.child.ts', path)
  await owner.untilLines(1)
  await owner.kill()
  expect(existsSync(`${path}.owner`)).toBe(true)
  const lock = await takeLock(path, { now: () => START })
  lock.release()
})

test('a second lock of the same process is refused too, until the release', async () => {
  const path = join(folder(), 'deep', 'tollgate.db')
  const now = () => START
  const first = await takeLock(path, { now })
  await expect(takeLock(path, { now })).rejects.toThrow(`in use by process ${process.pid}, for 0 s`)
  // The refused attempt has opened and closed the lock's file. The first lock must still hold.
  await expect(takeLock(path, { now })).rejects.toThrow(/in use/)
  first.release()
  first.release()
  const second = await takeLock(path, { now })
  second.release()
  expect(readdirSync(join(path, '..'))).toEqual(['tollgate.db.lock'])
})

test.each([
  ['missing', undefined],
  ['half written', '{"pid":'],
])("an owner's name that is %s: refused nevertheless", async (_what, text) => {
  const path = join(folder(), 'tollgate.db')
  const lock = await takeLock(path, { now: () => START })
  rmSync(`${path}.owner`)
  if (text !== undefined) writeFileSync(`${path}.owner`, text)
  await expect(takeLock(path, { now: () => START })).rejects.toThrow(
    'is in use by another process. Stop that one first',
  )
  lock.release()
})

test('a lock that cannot be taken at all reports the reason', async () => {
  const path = join(folder(), 'tollgate.db')
  writeFileSync(`${path}.lock`, 'this is not a database, and long enough for SQLite to see it'.repeat(20))
  await expect(takeLock(path, { now: () => START })).rejects.toThrow(/\.lock cannot be taken: file is not a database/)
})

describe('a gateway', () => {
  const now = () => START

  test('waits for a command that has the lock', async () => {
    const path = join(folder(), 'tollgate.db')
    const command = startChild('lock.child.ts', path)
    await command.untilLines(1)
    const waiting = takeLock(path, { now }, 'serve')
    await command.kill()
    const lock = await waiting
    lock.release()
  })

  test('waits for a command even if the name of a dead gateway is left over', async () => {
    const path = join(folder(), 'tollgate.db')
    const dead = startChild('lock.child.ts', path, 'serve')
    await dead.untilLines(1)
    await dead.kill()
    const command = startChild('lock.child.ts', path)
    await command.untilLines(1)
    writeFileSync(`${path}.owner`, JSON.stringify({ pid: dead.pid, startedAt: START, purpose: 'serve' }))
    const waiting = takeLock(path, { now }, 'serve')
    await command.kill()
    const lock = await waiting
    lock.release()
  })

  test.each([
    ['this process', () => process.pid, true],
    ['a process that was started later', (command: Child) => command.pid, process.platform === 'linux'],
  ])('waits for a command even if a dead gateway had the pid of %s', async (_what, pidOf, isKnown) => {
    if (!isKnown) return
    const path = join(folder(), 'tollgate.db')
    const command = startChild('lock.child.ts', path)
    await command.untilLines(1)
    const owner = { pid: pidOf(command), startedAt: START - 3_600_000, purpose: 'serve' }
    writeFileSync(`${path}.owner`, JSON.stringify(owner))
    const waiting = takeLock(path, { now }, 'serve')
    await command.kill()
    const lock = await waiting
    lock.release()
  })

  test('does not wait for itself', async () => {
    const path = join(folder(), 'tollgate.db')
    const lock = await takeLock(path, { now }, 'serve')
    const before = performance.now()
    await expect(takeLock(path, { now }, 'serve')).rejects.toThrow(`in use by process ${process.pid}, for 0 s`)
    // A useless wait would take 10 s.
    expect(performance.now() - before).toBeLessThan(5000)
    lock.release()
  })

  test('does not wait for another gateway', async () => {
    const path = join(folder(), 'tollgate.db')
    const first = startChild('lock.child.ts', path, 'serve')
    await first.untilLines(1)
    await expect(takeLock(path, { now }, 'serve')).rejects.toThrow(`in use by process ${first.pid}, for 0 s`)
  })

  testWith(onlyFull('kills'), 'gives up after 10 s', async () => {
    const path = join(folder(), 'tollgate.db')
    const command = startChild('lock.child.ts', path)
    await command.untilLines(1)
    await expect(takeLock(path, { now }, 'serve')).rejects.toThrow(`in use by process ${command.pid}, for 0 s`)
  })
})

describe('other names of a store', () => {
  const now = () => START

  test.each([
    ['a link to its file', true],
    ['a link to a missing file', false],
  ])('%s has the same lock', async (_what, isThere) => {
    const path = join(folder(), 'deep', 'tollgate.db')
    const owner = startChild('lock.child.ts', path)
    await owner.untilLines(1)
    if (isThere) writeFileSync(path, '')
    const other = join(path, '../../other.db')
    symlinkSync(path, other)
    const message = `The store ${other} is in use by process ${owner.pid}, for 0 s`
    await expect(takeLock(other, { now })).rejects.toThrow(message)
    await owner.kill()
    const lock = await takeLock(other, { now })
    await expect(takeLock(path, { now })).rejects.toThrow(`in use by process ${process.pid}`)
    lock.release()
  })

  testWith(NOT_ON_LINUX, 'hard links are refused, naming who has the file open', async () => {
    const path = join(folder(), 'tollgate.db')
    const store = await testStore({ path })
    await fund(store, 1_000_000n)
    await store.close()
    const owner = startChild('writer.child.ts', path)
    await owner.untilLines(1)
    linkSync(path, `${path}2`)
    await expect(takeLock(`${path}2`, { now })).rejects.toThrow(
      new RegExp(`is in use by process ${owner.pid}, for \\d+ s, under another name`),
    )
  })

  test('hard links are refused, even if no gateway serves', async () => {
    const path = join(folder(), 'tollgate.db')
    writeFileSync(path, '')
    linkSync(path, `${path}2`)
    for (const name of [path, `${path}2`]) {
      await expect(takeLock(name, { now })).rejects.toThrow(
        `The store ${name} cannot be opened. The file has 2 hard links, and a store must have one name only`,
      )
    }
    rmSync(`${path}2`)
    const lock = await takeLock(path, { now })
    lock.release()
  })
})

test('the files of the lock are private', async () => {
  const path = join(folder(), 'tollgate.db')
  const lock = await takeLock(path, { now: () => START })
  for (const end of ['.lock', '.owner']) expect(statSync(path + end).mode & 0o777, end).toBe(0o600)
  lock.release()
})
