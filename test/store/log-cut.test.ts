/**
 * Power loss: the write-ahead log ends at any byte, or has a flipped bit. The store must then equal its state after the last complete
 * commit. It has everything acknowledged by then and nothing later, and recovery leaves no hold open.
 */
import { copyFileSync, existsSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { connect } from '../../src/store/engine/database.ts'
import { verify } from '../../src/store/money/verify.ts'
import { countsOf } from '../helpers/counts.ts'
import { seeded } from '../helpers/seeded.ts'
import { aHold, aSettle, folder, fund, testClock, testStore } from './helpers.ts'

const counts = countsOf('ledger')

const SEED = Number(process.env.TOLLGATE_SEED ?? Date.now() % 1_000_000)
// The test cuts the log itself, so no write needs to wait for a disk.
const MEMORY = existsSync('/dev/shm') ? '/dev/shm' : undefined
const HEADER_BYTES = 32
const FRAME_BYTES = 24 + 4096

/** A commit: the end of the log when the commit was acknowledged, and all rows of the store at that time. */
interface Commit {
  readonly end: number
  readonly rows: string
}

interface Log {
  /** The database's bytes, without a log. */
  readonly path: string
  readonly bytes: Buffer
  readonly commits: readonly Commit[]
}

const ROWS = `
  SELECT id || ' ' || kind || ' ' || amount AS row FROM event UNION ALL
  SELECT exchange || ' at ' || seq || ' ' || amount FROM checkpoint UNION ALL
  SELECT account || ' owns ' || posted || ' holds ' || held FROM balance ORDER BY row`

/** Writes holds, checkpoints and settles, alone and in groups, and records the known state after each. */
async function writeLog(): Promise<Log> {
  const clock = testClock()
  const store = await testStore({ clock, path: join(folder(MEMORY), 'tollgate.db') })
  const accountId = await fund(store, 1_000_000n)
  const reader = connect(store.path, { readOnly: true })
  const commits: Commit[] = []
  const committed = () => {
    const rows = reader
      .prepare(ROWS)
      .all()
      .map(({ row }) => row)
    commits.push({ end: statSync(`${store.path}-wal`).size, rows: rows.join('\n') })
  }
  const hold = (exchange: string) => store.ledger.hold(aHold({ accountId, exchange }))
  const reach = (exchange: string, amount: bigint) =>
    store.ledger.checkpoint([{ exchange, amount, usage: { input: 1, output: 1 } }])
  committed()
  for (let round = 0; round < 8; round++) {
    clock.ms += 30_000
    const [one, other, late] = [`req_${round}_a`, `req_${round}_b`, `req_${round}_c`] as const
    await hold(one)
    committed()
    await Promise.all([hold(other), hold(late), reach(one, 7n)])
    committed()
    await reach(other, BigInt(round))
    committed()
    // One hold of each round stays open.
    await Promise.all([store.ledger.settle(aSettle({ exchange: one })), reach(other, 9n)])
    committed()
    await store.ledger.settle(aSettle({ exchange: late, amount: 0n, source: 'released' }))
    committed()
  }
  reader.close()
  const path = join(folder(MEMORY), 'tollgate.db')
  copyFileSync(store.path, path)
  return { path, bytes: readFileSync(`${store.path}-wal`), commits }
}

/** The last commit that is complete in the first `goodBytes` bytes of the log. */
function expectedAt({ commits }: Log, goodBytes: number): Commit {
  return commits.findLast(({ end }) => end <= goodBytes)!
}

/** Reads a log in place, and audits it. Read-only, so that the files can be reused. */
function expectPrefix(log: Log, goodBytes: number, what: string): void {
  rmSync(`${log.path}-shm`, { force: true })
  const database = connect(log.path, { readOnly: true })
  try {
    const rows = database
      .prepare(ROWS)
      .all()
      .map(({ row }) => row)
    const expected = expectedAt(log, goodBytes).rows
    if (rows.join('\n') !== expected) expect(rows.join('\n'), what).toBe(expected)
    const { violations } = verify(database)
    if (violations.length > 0) expect(violations, what).toEqual([])
  } finally {
    database.close()
  }
}

/** Opens the store like the next start of a gateway, settles open holds, and checks all balances. */
async function expectRecovers(log: Log, wal: Buffer, what: string): Promise<void> {
  const path = join(folder(MEMORY), 'tollgate.db')
  copyFileSync(log.path, path)
  writeFileSync(`${path}-wal`, wal)
  const store = await testStore({ path })
  const open = store.openHolds()
  expect(await store.recover(), what).toMatchObject({ settled: open, replayed: 0, rejected: 0 })
  expect(store.reads.verify(), what).toMatchObject({ openHolds: 0, violations: [] })
  await store.close()
}

test(`a log that is cut at any byte of its last commits is a shorter log (TOLLGATE_SEED=${SEED})`, async () => {
  const log = await writeLog()
  const { path, bytes, commits } = log
  // The full run cuts at every byte of as many commits as fit in three minutes.
  const from = commits.at(-counts(3, 5))!.end
  const step = counts(97, 1)
  writeFileSync(`${path}-wal`, bytes)
  const startedAt = performance.now()
  let cuts = 0
  for (let cut = bytes.length; cut >= from; cut -= step, cuts++) {
    truncateSync(`${path}-wal`, cut)
    expectPrefix(log, cut, `cut at ${cut}`)
  }
  const seconds = (performance.now() - startedAt) / 1000
  const recovered = await recoverAround(log, seeded(SEED))
  console.log(
    `${cuts} cuts of the last ${bytes.length - from} bytes (${commits.filter(({ end }) => end > from).length} commits) in ` +
      `${seconds.toFixed(1)} s, ${recovered} more with a recovery; the log has ${bytes.length} bytes and ${commits.length} commits`,
  )
})

/** Recovers before, at and after the ends of frames in the whole log, and at random bytes. */
async function recoverAround(log: Log, random: () => number): Promise<number> {
  const { bytes, commits } = log
  const from = commits[0]!.end
  const frames = Math.floor((bytes.length - from) / FRAME_BYTES)
  const ends = Array.from({ length: frames }, (_, index) => from + index * FRAME_BYTES)
  const around = ends.flatMap(end => [end - 1, end, end + 1]).filter((_, index) => index % counts(16, 1) === 0)
  const anywhere = Array.from({ length: counts(10, 1000) }, () => Math.floor(random() * bytes.length))
  for (const cut of [...around, ...anywhere]) await expectRecovers(log, bytes.subarray(0, cut), `cut at ${cut}`)
  return around.length + anywhere.length
}

test(`a flipped bit ends the log before its frame (TOLLGATE_SEED=${SEED})`, async () => {
  const random = seeded(SEED)
  const log = await writeLog()
  const { path, bytes, commits } = log
  const from = commits[0]!.end
  const flips = counts(20, 200)
  for (let flip = 0; flip < flips; flip++) {
    const at = from + Math.floor(random() * (bytes.length - from))
    const bit = 1 << Math.floor(random() * 8)
    const spoiled = Buffer.from(bytes)
    spoiled[at]! ^= bit
    const frame = at - ((at - HEADER_BYTES) % FRAME_BYTES)
    writeFileSync(`${path}-wal`, spoiled)
    expectPrefix(log, frame, `bit ${bit} of byte ${at}`)
    if (flip % counts(5, 1) === 0) await expectRecovers(log, spoiled, `bit ${bit} of byte ${at}`)
  }
})
