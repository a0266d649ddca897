/** Backups and restores of a store: a refusal changes nothing, and a restore brings everything back. */
import {
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { atOnce } from '#contract'
import { connect } from '../../src/store/engine/database.ts'
import { openPostgres } from '../../src/store/engine/postgres/index.ts'
import { unseal } from '../../src/store/files/backup-file.ts'
import { takeLock } from '../../src/store/files/lock.ts'
import { type BackupRequest, makeBackup } from '../../src/store/files/make-backup.ts'
import { type RestoreRequest, restoreBackup } from '../../src/store/files/restore-backup.ts'
import { createSpool, spoolPath } from '../../src/store/money/spool.ts'
import { testWith } from '../helpers/missing.ts'
import { testDatabase, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import {
  aHold,
  aSettle,
  type Engine,
  folder,
  fund,
  onEveryEngine,
  SECRET,
  type TestStore,
  testClock,
  testStore,
  UNGUARDED,
} from './helpers.ts'

const clock = testClock()
const TOLLGATE = '9.8.7'

const urlOf = (path: string) => (path.startsWith('postgres:') ? path : `sqlite:${path}`)

function backUp(store: TestStore, more: Partial<BackupRequest> = {}) {
  const file = join(folder(), 'tollgate.db')
  const request = {
    store: urlOf(store.path),
    folder: join(store.spool, '..'),
    file,
    tollgate: TOLLGATE,
    clock,
    ...more,
  }
  return { file: request.file, made: makeBackup(request) }
}

async function backedUp(store: TestStore): Promise<string> {
  const { file, made } = backUp(store)
  await made
  return file
}

function restore(file: string, path: string, more: Partial<RestoreRequest> = {}) {
  const own = { secret: SECRET, secretPlace: 'the file /x/secret', replace: false, clock }
  return restoreBackup({ file, store: urlOf(path), folder: folder(), ...own, ...more })
}

/** A path or an address for a new store. */
const newPlace = async (engine: Engine) =>
  engine === 'sqlite' ? join(folder(), 'data/tollgate.db') : (await testDatabase()).url

/**
 * An account with a key, a kept response, one exchange that has ended, and three in progress: without checkpoint, with one, and spooled.
 */
async function fill(store: TestStore) {
  const account = await fund(store, 10_000n)
  const { token } = await store.createKey({ account, name: 'app' })
  for (const exchange of ['req_1', 'req_2', 'req_3', 'req_4']) {
    await store.ledger.hold(aHold({ accountId: account, exchange }))
  }
  await store.ledger.settle(aSettle({ exchange: 'req_1' }))
  await store.ledger.checkpoint([{ exchange: 'req_3', amount: 25n, usage: { input: 1, output: 1 } }])
  const most = { responseBytes: 1000, accountBytes: 1000 }
  await store.responses.keep({ id: 'resp_1', account, parts: { output: 'said' }, keepMs: 60_000, used: [], most })
  return { account, token }
}

/** Everything in a folder, with the content of the files. */
const contentsOf = (path: string) =>
  Object.fromEntries(readdirSync(path).map(name => [name, readFileSync(join(path, name)).toString('base64')]))

describe('a backup is refused', () => {
  type Refusal = readonly [
    name: string,
    prepare: () => Promise<Partial<BackupRequest>> | Partial<BackupRequest>,
    rule: RegExp,
  ]
  const REFUSED: readonly Refusal[] = [
    [
      'to an existing file',
      () => {
        const file = join(folder(), 'there.db')
        writeFileSync(file, 'x')
        return { file }
      },
      /there\.db exists already\./,
    ],
    [
      'of a missing store',
      () => ({ store: `sqlite:${join(folder(), 'none.db')}` }),
      /^The store .*none\.db does not exist yet\.$/,
    ],
    [
      'of a file that is not a database',
      () => {
        const path = join(folder(), 'notes.txt')
        writeFileSync(path, 'dear diary, '.repeat(100))
        return { store: `sqlite:${path}` }
      },
      /^The backup .* cannot be created: file is not a database\.$/,
    ],
    [
      'of an empty file',
      () => {
        const path = join(folder(), 'empty.db')
        writeFileSync(path, '')
        return { store: `sqlite:${path}` }
      },
      /has schema 0, .*Start the gateway once/,
    ],
    [
      "of another program's database",
      async () => ({ store: `sqlite:${await changed('PRAGMA user_version = 0')}` }),
      /^This file is the database of another program\./,
    ],
    [
      'of a store of a newer version',
      async () => ({ store: `sqlite:${await changed('PRAGMA user_version = 99')}` }),
      /^This store has schema 99, .* Run the newer version that wrote it\.$/,
    ],
    [
      'of a store that is not sound',
      async () => ({ store: `sqlite:${await changed('UPDATE balance SET posted = posted + 1')}` }),
      /^The store is not sound, so no backup was made: acc_.* Run: tollgate ledger verify$/,
    ],
    ['into a file', () => ({ file: join(import.meta.filename, 'x.db') }), /ENOTDIR|EEXIST/],
    [
      'into a missing folder: a disk may not be mounted',
      () => ({ file: join(folder(), 'nas/x.db') }),
      /^The folder \/.*\/nas of the backup does not exist\. Make it first: mkdir -p \/.*\/nas$/,
    ],
    [
      'of a server that does not run',
      () => ({ store: 'postgres://me:secret-word@127.0.0.1:1/none' }),
      /^The store postgres:\/\/me@127\.0\.0\.1:1\/none cannot be reached: /,
    ],
  ]

  async function changed(sql: string): Promise<string> {
    const store = await testStore()
    await fill(store)
    await store.close()
    const database = connect(store.path)
    database.exec(`${UNGUARDED.sqlite}; ${sql}`)
    database.close()
    return store.path
  }

  test.each(REFUSED)('%s, and leaves no file', async (_, prepare, rule) => {
    const target = folder()
    const store = await testStore()
    const { made } = backUp(store, { file: join(target, 'new.db'), ...(await prepare()) })
    const error = (await made.catch((error: Error) => error)) as Error
    expect(error.message).toMatch(rule)
    expect(error.message).not.toContain('secret-word')
    expect(readdirSync(target)).toEqual([])
  })
})

describe('a restore is refused', () => {
  type Damage = readonly [name: string, damage: (file: string) => void, rule: RegExp]
  const flip = (file: string, at: number) => {
    const bytes = readFileSync(file)
    bytes[at < 0 ? bytes.length + at : at]! ^= 1
    writeFileSync(file, bytes)
  }
  const swap = (from: string, to: string) => (file: string) =>
    writeFileSync(file, readFileSync(file, 'latin1').replace(from, to), 'latin1')
  const cut = (bytes: number) => (file: string) => truncateSync(file, statSync(file).size - bytes)
  const DAMAGED: readonly Damage[] = [
    [
      'a bit of the database',
      file => flip(file, 5000),
      /tollgate\.db is not a complete backup: its digest does not match\./,
    ],
    ['a bit of the digest', file => flip(file, -10), /is not a complete backup: its (digest|last line)/],
    ['its time', swap('"at":"2', '"at":"1'), /is not a complete backup: its digest/],
    ['a page', file => writeFileSync(file, readFileSync(file).subarray(4096)), /is not a complete backup: its digest/],
    ['the last byte', cut(1), /is not a complete backup: its last line is incomplete/],
    ['the end', cut(10_000), /is not a complete backup: it was not written by `tollgate backup`, or it is truncated/],
    ['all of it', file => truncateSync(file, 0), /is not a complete backup: it was not written by `tollgate backup`/],
    [
      'everything but the last line',
      file => writeFileSync(file, readFileSync(file).subarray(-157)),
      /is not a complete/,
    ],
    ['added bytes', file => writeFileSync(file, 'x', { flag: 'a' }), /is not a complete backup: its last line/],
    [
      'a newer format',
      swap('"format":1,"tollgate":"9.8.7"', '"format":2,"tollgate":"9.8.7"'),
      /was made by Tollgate 9\.8\.7 in format 2; this version reads formats up to 1\./,
    ],
  ]

  test.each(DAMAGED)('of a file with a missing or changed part: %s', async (_, damage, rule) => {
    const store = await testStore()
    await fill(store)
    const file = await backedUp(store)
    damage(file)
    const place = folder()
    await expect(restore(file, join(place, 'tollgate.db'))).rejects.toThrow(rule)
    expect(readdirSync(place)).toEqual([])
  })

  test('of each file with a changed bit in its last line', async () => {
    const store = await testStore()
    const file = await backedUp(store)
    const bytes = readFileSync(file)
    const copy = join(folder(), 'copy.db')
    writeFileSync(copy, '')
    for (let at = bytes.lastIndexOf('\ntollgate-backup '); at < bytes.length; at++) {
      for (const bit of [1, 2, 32]) {
        bytes[at]! ^= bit
        writeFileSync(file, bytes)
        bytes[at]! ^= bit
        await expect(unseal(file, copy), `byte ${at}`).rejects.toThrow(/is not a complete backup|in format [359];/)
      }
    }
  })

  testWith(WITHOUT_POSTGRES, 'into a database of an older version in use, which is not migrated', async () => {
    const file = await backedUp(await testStore())
    const { url } = await testDatabase()
    const database = openPostgres(url)
    onTestFinished(() => database.close())
    database.exec(readFileSync(join(import.meta.dirname, 'fixtures/postgres-001.sql'), 'utf8'))
    await expect(restore(file, url)).rejects.toThrow(/is not empty|is in use by replica/)
    expect(database.prepare('SELECT max(version) AS version FROM tollgate_schema').get()).toEqual({ version: 1 })
  })

  test('of each file with any changed byte', async () => {
    const store = await testStore()
    const file = await backedUp(store)
    const { size } = statSync(file)
    const place = folder()
    for (let at = 0; at < size; at += Math.ceil(size / 50)) {
      flip(file, at)
      await expect(restore(file, join(place, 'tollgate.db')), `byte ${at}`).rejects.toThrow(/is not a complete backup/)
      flip(file, at)
    }
    expect(readdirSync(place)).toEqual([])
    await restore(file, join(place, 'tollgate.db'))
  })

  test('over a store, beside a gateway, or with another secret: the store does not change', async () => {
    const store = await testStore()
    await fill(store)
    const file = await backedUp(store)
    await store.close()
    const place = join(store.path, '..')
    const before = contentsOf(place)
    const refused = async (rule: RegExp, more: Partial<RestoreRequest> = {}) => {
      await expect(restore(file, store.path, more)).rejects.toThrow(rule)
      const { 'tollgate.db.lock': _, ...after } = contentsOf(place)
      expect(after).toEqual(before)
    }
    await refused(/^There is a store at .*tollgate\.db already\. Use --replace /)
    const wrong = { secret: 'another secret, as long as it has to be', replace: true }
    await refused(/^The keys of .*\/tollgate\.db were made with another secret than the file /, wrong)
    const lock = await takeLock(store.path, clock, 'serve')
    await expect(restore(file, store.path, { replace: true })).rejects.toThrow(/is in use by process \d+/)
    lock.release()
    await refused(/^There is a store at/)
  })

  test('of the wrong file, or with another secret, while a gateway runs', async () => {
    const store = await testStore()
    const file = await backedUp(store)
    const place = join(folder(), 'data/tollgate.db')
    const lock = await takeLock(place, clock, 'serve')
    onTestFinished(lock.release)
    const wrong = { secret: 'another secret, as long as it has to be' }
    await expect(restore(file, place, wrong)).rejects.toThrow(/^The keys of .* were made with another secret/)
    await expect(restore(file, place)).rejects.toThrow(/is in use by process/)
    flip(file, 5000)
    await expect(restore(file, place)).rejects.toThrow(/is not a complete backup/)
  })

  test('of a backup of a newer schema', async () => {
    const store = await testStore()
    const database = connect(store.path)
    const file = join(folder(), 'backup.db')
    const { seal } = await import('../../src/store/files/backup-file.ts')
    database.exec('PRAGMA user_version = 99; PRAGMA wal_checkpoint(TRUNCATE)')
    copyFileSync(store.path, file)
    database.close()
    await seal(file, { tollgate: TOLLGATE, at: 'then' })
    await expect(restore(file, join(folder(), 'tollgate.db'))).rejects.toThrow(
      /^This store has schema 99, .* Run the newer/,
    )
  })

  test('to a path that has charges in a spool, although the file of the store was removed', async () => {
    const store = await testStore()
    const file = await backedUp(store)
    const path = join(folder(), 'tollgate.db')
    createSpool(`${path}.spool`).append(aSettle())
    await expect(restore(file, path)).rejects.toThrow(/^There is a store at/)
  })
})

test('a backup never writes to an existing file, which others may be able to read', async () => {
  const store = await testStore()
  const [target, elsewhere] = [folder(), join(folder(), 'elsewhere')]
  const [first, second] = ['1.db', '2.db'].map(name => join(target, name)) as [string, string]
  writeFileSync(`${first}.${process.pid}.partial`, '', { mode: 0o666 })
  symlinkSync(elsewhere, `${second}.${process.pid}.partial`)
  for (const file of [first, second]) {
    await backUp(store, { file }).made
    expect(lstatSync(file).isFile()).toBe(true)
    expect(statSync(file).mode & 0o777).toBe(0o600)
  }
  expect(existsSync(elsewhere)).toBe(false)
})

onEveryEngine(engine => {
  test('a restore brings back money, keys and responses, and settles requests in progress as after a crash', async () => {
    const store = await testStore()
    const { account, token } = await fill(store)
    createSpool(store.spool).append(aSettle({ exchange: 'req_4', amount: 33n }))
    // A second charge of an exchange, and a charge without an exchange: the restore must drop both.
    createSpool(store.spool).append(aSettle({ exchange: 'req_1' }))
    createSpool(store.spool).append(aSettle({ exchange: 'req_unknown' }))
    const { file, made } = backUp(store)
    expect(await made).toMatchObject({
      accounts: 1,
      openHolds: 3,
      waiting: 1,
      posted: 9960n,
      schema: expect.any(Number),
    })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(file, '..'))).toEqual(['tollgate.db'])
    expect(readFileSync(file).includes(SECRET)).toBe(false)
    // Later changes are not in the backup.
    await store.credit({ account, amount: 5n, reference: 'later', actor: 'test' })

    const path = await newPlace(engine)
    const beside = folder()
    const seen = new Set<string>()
    const onProgress = (doing: string) => void seen.add(doing)
    expect(await restore(file, path, { onProgress, folder: beside })).toMatchObject({
      tollgate: TOLLGATE,
      at: new Date(clock.ms).toISOString(),
      accounts: 1,
      replayed: 1,
      settled: 2,
      charged: 33n + 25n,
      posted: 9960n - 33n - 25n,
      kept: null,
    })
    expect(seen).toContain('Verifying')
    const left = engine === 'sqlite' ? readdirSync(join(path, '..')) : readdirSync(beside)
    expect(left).toEqual(engine === 'sqlite' ? ['tollgate.db', 'tollgate.db.lock'] : [])

    const restored = await testStore({ path, clock: store.clock })
    expect(await restored.recover()).toMatchObject({ settled: 0, replayed: 0 })
    expect(restored.reads.findAccount(account)).toMatchObject({ posted: 9902n, held: 0n })
    expect(await restored.keys.find(token, clock.now())).toMatchObject({ found: 'live' })
    expect(String(await atOnce(restored.responses.read('resp_1', account, 'output')))).toBe('said')
    expect(restored.reads.findReceipt('req_3')).toMatchObject({ charged: 25n, source: 'recovered' })
    expect(restored.reads.findReceipt('req_4')).toMatchObject({ charged: 33n, source: 'reported' })
    expect(restored.reads.verify()).toMatchObject({ openHolds: 0, violations: [] })
    await restored.ledger.hold(aHold({ accountId: account, exchange: 'req_new' }))
    expect(await restored.ledger.settle(aSettle({ exchange: 'req_new' }))).toBe('settled')
  })

  testWith(WITHOUT_POSTGRES, 'a backup can be restored to the other engine', async () => {
    const store = await testStore()
    await fill(store)
    const file = await backedUp(store)
    const other = engine === 'sqlite' ? 'postgres' : 'sqlite'
    const path = await newPlace(other)
    expect(await restore(file, path)).toMatchObject({ settled: 3, charged: 25n })
    const again = join(folder(), 'again.db')
    const made = await makeBackup({ store: urlOf(path), folder: folder(), file: again, tollgate: TOLLGATE, clock })
    expect(made).toMatchObject({ accounts: 1, openHolds: 0, posted: 9935n })
  })

  test('a backup during writes is one state: everything before its start, and no partial operation', async () => {
    const store = await testStore({ writes: 'thread' })
    const accounts = [await fund(store, 10n ** 9n, 'a'), await fund(store, 10n ** 9n, 'b')]
    let [isOver, done] = [false, 0]
    const work = Promise.all(
      accounts.map(async (accountId, place) => {
        for (let index = 0; !isOver; index++) {
          const exchange = `req_${place}_${String(index).padStart(6, '0')}`
          await store.ledger.hold(aHold({ accountId, exchange }))
          await store.ledger.settle(aSettle({ exchange }))
          done++
        }
      }),
    )
    onTestFinished(async () => {
      isOver = true
      await work
    })
    for (let round = 0; round < 3; round++) {
      await expect.poll(() => done).toBeGreaterThan(50 * (round + 1))
      const before = done
      const { made, file } = backUp(store)
      const { posted, openHolds } = await made
      expect(openHolds).toBeLessThanOrEqual(2)
      expect(2n * 10n ** 9n - posted).toBeGreaterThanOrEqual(BigInt(before) * 40n)
      const report = await restore(file, join(folder(), 'tollgate.db'))
      expect(report).toMatchObject({ posted, settled: openHolds, charged: 0n })
    }
  })
})

test('a store of an older version is backed up unchanged, and restored to the newest version', async () => {
  const store = await testStore()
  const { token } = await fill(store)
  await store.close()
  const database = connect(store.path)
  database.exec(`
    DROP TABLE budget_period; DROP TABLE low_account; DROP TABLE alert_delivery; DROP TABLE alert_receiver; DROP TABLE alert; ALTER TABLE account DROP COLUMN budgets; ALTER TABLE key DROP COLUMN budgets; ALTER TABLE event DROP COLUMN tags; ALTER TABLE event DROP COLUMN budgets;
    DROP TABLE correction; DROP TABLE response_box; DROP TABLE response; DROP TABLE response_total; ALTER TABLE event DROP COLUMN price_search;
    ALTER TABLE event DROP COLUMN searches; ALTER TABLE event DROP COLUMN price; ALTER TABLE event DROP COLUMN units;
    PRAGMA user_version = 6`)
  database.close()
  const { file, made } = backUp(store)
  expect(await made).toMatchObject({ schema: 6, openHolds: 3 })
  const old = connect(file, { readOnly: true })
  expect(old.prepare('PRAGMA user_version').get()).toEqual({ user_version: 6 })
  old.close()
  const path = join(folder(), 'tollgate.db')
  await restore(file, path)
  const restored = await testStore({ path, clock: store.clock })
  expect(await restored.keys.find(token, clock.now())).toMatchObject({ found: 'live' })
})

test('--replace keeps the old store, complete under its new name', async () => {
  const store = await testStore()
  await fill(store)
  const file = await backedUp(store)
  const { id } = await store.createAccount({ name: 'later' })
  createSpool(store.spool).append(aSettle({ exchange: 'req_4' }))
  createSpool(spoolPath(store.path, 1)).reject('a torn line')
  await store.close()
  const { kept } = await restore(file, store.path, { replace: true })
  expect(kept).toMatch(/tollgate\.db\.replaced-20\d\d-/)
  expect(readFileSync(`${kept}.spool.1.rejected`, 'utf8')).toBe('a torn line\n')
  const names = readdirSync(join(store.path, '..')).filter(name => !name.includes('.replaced-'))
  expect(names).toEqual(['tollgate.db', 'tollgate.db.lock'])
  const [one, other] = [await testStore({ path: store.path }), await testStore({ path: kept! })]
  expect(one.reads.findAccount('later')).toBeUndefined()
  expect(one.lostCommits).toBeNull()
  expect(other.reads.findAccount('later')).toMatchObject({ id })
  expect(await other.recover()).toMatchObject({ replayed: 1 })
  for (const each of [one, other]) expect(each.reads.verify().violations).toEqual([])
})

test('a restore by root belongs to the owner of the old store, or else of its folder', async () => {
  const store = await testStore()
  const file = await backedUp(store)
  await store.close()
  const uid = process.getuid!() === 0 ? 12_345 : process.getuid!()
  const ownersIn = (path: string) => new Set(readdirSync(path).map(name => statSync(join(path, name)).uid))
  const place = join(store.path, '..')
  for (const name of readdirSync(place)) chownSync(join(place, name), uid, uid)
  await restore(file, store.path, { replace: true })
  expect(ownersIn(place)).toEqual(new Set([uid]))
  const empty = folder()
  chownSync(empty, uid, uid)
  await restore(file, join(empty, 'tollgate.db'))
  expect(ownersIn(empty)).toEqual(new Set([uid]))
})

test('--replace also replaces a store that cannot be opened any more, and keeps its files', async () => {
  const store = await testStore()
  await fill(store)
  const file = await backedUp(store)
  await store.close()
  for (const end of ['', '-wal']) writeFileSync(store.path + end, 'no database, and not a log either '.repeat(200))
  const { kept } = await restore(file, store.path, { replace: true })
  expect(['', '-wal'].map(end => readFileSync(kept! + end, 'utf8').slice(0, 11))).toEqual([
    'no database',
    'no database',
  ])
  const restored = await testStore({ path: store.path })
  expect(restored.reads.verify()).toMatchObject({ accounts: 1, violations: [] })
})

test('after a restore that was killed between its steps, the next restore succeeds and the kept store is complete', async () => {
  const store = await testStore()
  await fill(store)
  const file = await backedUp(store)
  // The log was copied and the database moved; the log and the count were still in place.
  const kept = `${store.path}.replaced-then`
  for (const end of ['', '-wal']) copyFileSync(store.path + end, kept + end)
  await store.close()
  rmSync(store.path)
  await expect(restore(file, store.path)).rejects.toThrow(/^There is a store at/)
  await restore(file, store.path, { replace: true })
  for (const path of [store.path, kept]) {
    const opened = await testStore({ path })
    expect(opened.reads.findAccount('alice')).toBeDefined()
    expect(opened.lostCommits).toBeNull()
    expect(opened.reads.verify().violations).toEqual([])
  }
})

test('a restore removes the files that a killed restore left', async () => {
  const store = await testStore()
  await fill(store)
  const file = await backedUp(store)
  const path = join(folder(), 'data/tollgate.db')
  mkdirSync(join(path, '..'))
  for (const end of ['', '-wal', '.commits', '.spool']) writeFileSync(`${path}.restoring${end}`, 'half')
  await restore(file, path)
  expect(readdirSync(join(path, '..'))).toEqual(['tollgate.db', 'tollgate.db.lock'])
  expect(existsSync(`${path}.restoring`)).toBe(false)
})
