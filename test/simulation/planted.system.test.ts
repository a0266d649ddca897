/** The simulation finds bugs: each is planted in the code, and some seed breaks an invariant. */
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { describe, expect, test } from 'vitest'
import { isFull } from '../helpers/counts.ts'
import { apply } from './plant.ts'
import { PLANTED, PLANTED_IN_POSTGRES } from './planted.ts'
import { ALL_ENGINES, simulate } from './run.ts'

const full = isFull('simulation')

const ROOT = new URL('../../', import.meta.url)

/** Bugs of each kind (charging, sending, delivering) that the first seeds find. */
const QUICK = [
  'no-settle-on-leaving',
  'dispatch-before-hold',
  'finish-before-settle',
  'broken-stream-ends-cleanly',
  'former-forgotten',
]

/** Each bug with the row of its engine. */
const BUGS = ALL_ENGINES.flatMap(row =>
  (row.engine === 'SQLite' ? PLANTED : PLANTED_IN_POSTGRES).map(bug => ({ ...row, ...bug })),
)

describe('planted bugs', () => {
  test.each(BUGS)('can be planted: $name', ({ changes }) => {
    for (const change of changes) {
      const source = readFileSync(new URL(change.file, ROOT), 'utf8')
      const planted = apply(source, change)
      expect(planted).not.toBe(source)
      // Node.js must be able to parse it.
      expect(() => stripTypeScriptTypes(planted)).not.toThrow()
    }
  })

  for (const { name, what, engine, missing, parameters } of BUGS.filter(({ name }) => full || QUICK.includes(name)))
    test(`is found on ${engine}: ${name} (${what})`, async context => {
      if (missing !== null) return context.skip(missing)
      const where = await parameters()
      const { report } = await simulate(['--from', '1', '--count', '1000', ...where], name)
      console.log(`${name}: found by seed ${report.failed}`)
      expect(report.failed, `${report.ran} seeds did not find it`).not.toBe(null)
      // Without the planted bug, the same seed passes.
      const { report: sound, text } = await simulate(['--from', String(report.failed), '--count', '1', ...where])
      expect(sound.failed, text).toBe(null)
    })
})
