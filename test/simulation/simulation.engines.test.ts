/**
 * The exchange and the ledger, simulated: each seed has about thirty exchanges with all kinds of faults, and the invariants must hold.
 * TOLLGATE_SEED=123 repeats one seed and shows its event log.
 */
import { expect, test } from 'vitest'
import { countsOf } from '../helpers/counts.ts'
import { describeWith, testWith } from '../helpers/missing.ts'
import { ENGINES, simulate } from './run.ts'

const counts = countsOf('simulation')

/** The number of seeds, and the number of seeds that run twice. */
const SEEDS: Readonly<Record<string, readonly [seeds: number, twice: number]>> = {
  SQLite: [counts(8, 2_000), counts(1, 50)],
  PostgreSQL: [counts(8, 150), counts(1, 10)],
}
/** Seeds of one process. Exchanges that a simulated kill interrupts stay in its memory, 0.35 MB a seed. */
const AT_MOST = 1000

/** Events that every long run must include: otherwise it would not test them. */
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
  'log failed to write a settle; it is in the spool',
  'log failed to write a settle and to spool it; it waits in memory',
  'log delayed settles were written',
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

/** A run of this many seeds must include all of these events. */
const MANY = 40

for (const { engine, missing, parameters } of seed ? ENGINES : [])
  testWith(missing, `the seed that was asked for, on ${engine}`, async () => {
    const { report, text } = await simulate(['--seed', seed!, ...(await parameters())])
    console.log(text)
    expect(report.failed).toBe(null)
  })

for (const { engine, missing, parameters } of seed ? [] : ENGINES) {
  const [seeds, twice] = SEEDS[engine]!
  describeWith(missing, `simulated on ${engine}`, () => {
    test('every invariant holds under all faults', async () => {
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

    test('the same seed gives the same run, to the byte', async () => {
      const count = ['--from', '1', '--count', String(twice)]
      const { report, text } = await simulate([...count, '--twice', ...(await parameters())])
      if (report.failed !== null) throw new Error(text)
      expect(report.ran).toBe(twice)
    })
  })
}
