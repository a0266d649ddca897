/**
 * The exchange and the ledger, simulated: each seed is some thirty exchanges with everything that can happen to them,
 * and after each of them the invariants have to hold. Again: TOLLGATE_SEED=123 runs one seed and shows its event log.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { counts, full } from '../helpers/counts.ts'
import { testServer, WITHOUT_POSTGRES } from '../helpers/postgres.ts'
import { apply } from './plant.ts'
import { PLANTED, PLANTED_IN_POSTGRES } from './planted.ts'

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))
const ROOT = new URL('../../', import.meta.url)
const MAX_MS = counts(120_000, 3_600_000)
/** Seeds of one process. What a simulated kill has left under way stays in its memory, 0.35 MB a seed. */
const AT_MOST = 1000

interface Report {
  readonly ran: number
  /** The seed that broke an invariant, or null. */
  readonly failed: number | null
  readonly seconds: number
  /** What has happened how often. */
  readonly tally: Readonly<Record<string, number>>
}

/** Runs seeds in a process of their own, for its time and chance are theirs. */
function simulate(parameters: readonly string[], plant?: string): Promise<{ report: Report; text: string }> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...(plant === undefined ? {} : { TOLLGATE_PLANT: plant }) }
    const options = { env, maxBuffer: 64 * 1024 * 1024, timeout: MAX_MS }
    execFile(process.execPath, [MAIN, ...parameters], options, (error, stdout, stderr) => {
      const lines = stdout.trimEnd().split('\n')
      const last = lines.pop() ?? ''
      if (!last.startsWith('{"first"'))
        reject(new Error(`the simulation broke off: ${error?.message}\n${stderr}${stdout}`))
      else resolve({ report: JSON.parse(last) as Report, text: lines.join('\n') })
    })
  })
}

/** What every run of some length has to have come across: what never happens is not tested. */
const ENDINGS = [
  'outcome answered',
  'outcome client_left',
  'outcome failed',
  'outcome cut',
  'outcome refused',
  'source reported',
  'source clamped',
  'source estimated',
  'source estimated_low',
  'source prompt_estimated',
  'source insurance',
  'source released',
  'source recovered',
  'recovered at a checkpoint',
  'recovered at nothing',
  'left behind the finish',
  'left and drained',
  'streams done',
  'streams with an error',
  'clamped cap',
  'client left',
  'client closed',
  'client process ended',
  'client no connection',
  'code insufficient_quota',
  'code credit_on_hold',
  'code rate_limit_exceeded',
  'code revoked_api_key',
  'code account_frozen',
  'code store_unavailable',
  'code shutting_down',
  'code bad_request',
  'code upstream_timeout',
  'code upstream_truncated',
  'code upstream_invalid',
  'code upstream_unreachable',
  'log a settle could not be written; it is spooled',
  'log a settle could neither be written nor spooled; it waits in memory',
  'log settles that had to wait are written',
  'disk begin',
  'disk full',
  'disk read-only',
  'disk before',
  'disk after',
  'mishap crash',
  'mishap crash at commit',
  'mishap stop',
  'mishap clock',
  'crashes',
]

const seed = process.env['TOLLGATE_SEED']

/** The engines of the store; in PostgreSQL a seed takes ten times as long. */
const ENGINES = [
  { engine: 'SQLite', seeds: counts(50, 10_000), twice: counts(3, 100), isLeftOut: false, parameters: async () => [] },
  {
    engine: 'PostgreSQL',
    seeds: counts(8, 500),
    twice: counts(1, 20),
    isLeftOut: WITHOUT_POSTGRES !== null,
    parameters: async () => ['--postgres', `postgres://postgres@127.0.0.1:${(await testServer()).port}/postgres`],
  },
]
/** Of which everything above has to have happened. */
const MANY = 40

test.runIf(seed).each(ENGINES)(
  'the seed that was asked for, on $engine',
  {
    timeout: MAX_MS,
  },
  async ({ isLeftOut, parameters, engine }) => {
    if (isLeftOut) throw new Error(`${engine}: ${WITHOUT_POSTGRES}`)
    const { report, text } = await simulate(['--seed', seed!, ...(await parameters())])
    console.log(text)
    expect(report.failed).toBe(null)
  },
)

describe.skipIf(seed).each(ENGINES)('simulated on $engine', ({ engine, seeds, twice, isLeftOut, parameters }) => {
  if (isLeftOut) console.warn(`${engine}: ${WITHOUT_POSTGRES}`)

  test.skipIf(isLeftOut)('every invariant holds, whatever happens', { timeout: MAX_MS }, async () => {
    const tally: Record<string, number> = {}
    let [ran, seconds] = [0, 0]
    for (let from = 1; from <= seeds; from += AT_MOST) {
      const count = String(Math.min(AT_MOST, seeds))
      const { report, text } = await simulate(['--from', String(from), '--count', count, ...(await parameters())])
      if (report.failed !== null) throw new Error(text)
      ran += report.ran
      seconds += report.seconds
      for (const [what, times] of Object.entries(report.tally)) tally[what] = (tally[what] ?? 0) + times
    }
    expect(ran).toBe(seeds)
    const endings = ENDINGS.map(each => `${each}: ${tally[each] ?? 0}`).join(', ')
    console.log(
      `${ran} seeds, ${(ran / seconds).toFixed(1)} a second; ${tally['exchanges']} exchanges, ${tally['crashes']} crashes; ${endings}`,
    )
    if (seeds >= MANY) expect(ENDINGS.filter(each => !tally[each])).toEqual([])
  })

  test.skipIf(isLeftOut)('the same seed is the same run, to the byte', { timeout: MAX_MS }, async () => {
    const count = ['--from', '1', '--count', String(twice)]
    const { report, text } = await simulate([...count, '--twice', ...(await parameters())])
    if (report.failed !== null) throw new Error(text)
    expect(report.ran).toBe(twice)
  })
})

/** One of each kind that shows in its first seeds: what is owed, what is sent, what is let out. */
const QUICK = [
  'no-settle-on-leaving',
  'dispatch-before-hold',
  'finish-before-settle',
  'broken-stream-ends-cleanly',
  'former-forgotten',
]

/** Each with its engine. */
const BUGS = ENGINES.flatMap(row =>
  (row.engine === 'SQLite' ? PLANTED : PLANTED_IN_POSTGRES).map(bug => ({ ...row, ...bug })),
)

describe.skipIf(seed)('planted bugs', () => {
  test.each(BUGS)('can be planted: $name', ({ changes }) => {
    for (const change of changes) {
      const source = readFileSync(new URL(change.file, ROOT), 'utf8')
      const planted = apply(source, change)
      expect(planted).not.toBe(source)
      // Node.js must be able to read it.
      expect(() => stripTypeScriptTypes(planted)).not.toThrow()
    }
  })

  for (const { name, what, engine, isLeftOut, parameters } of BUGS.filter(({ name }) => full || QUICK.includes(name)))
    test.skipIf(isLeftOut)(`is found on ${engine}: ${name} (${what})`, { timeout: MAX_MS }, async () => {
      const where = await parameters()
      const { report } = await simulate(['--from', '1', '--count', '1000', ...where], name)
      console.log(`${name}: found by seed ${report.failed}`)
      expect(report.failed, `${report.ran} seeds did not find it`).not.toBe(null)
      // It is the bug that was found: without it the same seed holds.
      const { report: sound, text } = await simulate(['--from', String(report.failed), '--count', '1', ...where])
      expect(sound.failed, text).toBe(null)
    })
})
