/**
 * The process of the simulation: runs seeds with virtual time and randomness.
 *
 * - `node test/simulation/main.ts --from 1 --count 1000`
 * - `node test/simulation/main.ts --seed 123            one seed, with its event log`
 * - `node test/simulation/main.ts --from 1 --count 100 --twice`
 * - `node test/simulation/main.ts --seed 123 --postgres postgres://postgres@127.0.0.1:5432/postgres`
 *
 * With TOLLGATE_PLANT=name in the environment a bug is planted in the product first (planted.ts). The last line is a JSON report; the
 * exit code is 1 if an invariant was broken.
 */
import { parseArgs } from 'node:util'
import { installChanges } from './plant.ts'
import { installWorld } from './world.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    from: { type: 'string', default: '1' },
    count: { type: 'string', default: '1' },
    twice: { type: 'boolean', default: false },
    postgres: { type: 'string' },
  },
})

/** Lines of the event log that a failure shows. */
const LAST_LINES = 40

installWorld()
installChanges(process.env['TOLLGATE_PLANT'])
// Imported only now, because modules keep the clock and the randomness that they find at import.
const { prepareGround } = await import('./ground.ts')
const { runSeed } = await import('./seed.ts')

const first = Number(values.seed ?? values.from)
const count = values.seed === undefined ? Number(values.count) : 1
const ground = await prepareGround(values.postgres ?? null)
const tally: Record<string, number> = {}
const startedMs = process.hrtime.bigint()
let failed: number | null = null
let ran = 0
for (let seed = first; seed < first + count && failed === null; seed++) {
  const result = await runSeed(seed, ground)
  ran++
  for (const [what, times] of result.tally) tally[what] = (tally[what] ?? 0) + times
  if (values.seed !== undefined) console.log(result.lines.join('\n'))
  if (result.violation) {
    failed = seed
    const { message, stack, cause } = result.violation
    if (values.seed === undefined) console.log(result.lines.slice(-LAST_LINES).join('\n'))
    console.log(
      `\nseed ${seed}: ${message}${result.violation.name === 'Violation' ? '' : `\n${stack}`}${cause instanceof Error ? `\n${cause.stack}` : ''}`,
    )
    console.log(`again: TOLLGATE_SEED=${seed} npm run test:full -- simulation -t 'asked for'`)
    console.log(
      `   or: node_modules/.bin/node test/simulation/main.ts --seed ${seed}${values.postgres ? ' --postgres postgres://…' : ''}`,
    )
  } else if (values.twice) {
    const again = await runSeed(seed, ground)
    if (again.hash !== result.hash) {
      failed = seed
      const at = result.lines.findIndex((line, nth) => line !== again.lines[nth])
      console.log(`seed ${seed} differs from itself at line ${at}:\n  ${result.lines[at]}\n  ${again.lines[at]}`)
    }
  }
}
const seconds = Number(process.hrtime.bigint() - startedMs) / 1e9
console.log(JSON.stringify({ first, ran, failed, seconds: Math.round(seconds * 100) / 100, tally }))
ground.engine.clear()
process.exit(failed === null ? 0 : 1)
