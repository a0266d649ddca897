/**
 * Runs one seed of the replica play (replica-play.ts) with a planted bug. It has a process of its own, because it changes the product's
 * source while the source is loaded.
 *
 *     node test/store/replica-main.ts postgres://…/empty-database SEED STEPS "the planted bug's name"
 *
 * The exit code is 1 if the play found a bug, else 0.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { changeWhileLoading } from '../simulation/plant.ts'
import { PLANTED } from './replica-plants.ts'

const [url, seed, steps, name] = process.argv.slice(2)
changeWhileLoading(PLANTED.filter(each => each.name === name).map(({ change }) => change))
// Imported only now: the changes apply to later imports.
const { openStore } = await import('../../src/store/engine/sqlite.ts')
const { openPostgres } = await import('../../src/store/engine/postgres/index.ts')
const { testClock } = await import('./helpers.ts')
const { Play } = await import('./replica-play.ts')
const { SECRET } = await import('./requests.ts')

const folders: string[] = []

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'tollgate-play-'))
  folders.push(made)
  return made
}

const play = new Play(Number(seed), {
  folder,
  async open({ path = url!, clock = testClock(), ...options }) {
    const place = options.folder ?? folder()
    const store = await openStore({ url: path, secret: SECRET, ...options, folder: place, clock })
    const connect = (how = {}) => openPostgres(path, how)
    return Object.assign(store, {
      clock: clock as ReturnType<typeof testClock>,
      path,
      spool: join(place, 'tollgate.spool'),
      connect,
    })
  },
})
let found: unknown
try {
  await play.start()
  for (let step = 0; step < Number(steps); step++) await play.step()
  await play.end(8000)
  play.check()
} catch (error) {
  // Not a bug: the machine was too busy to connect within a second.
  if (!/cannot be reached/.test(String(error))) found = error
}
for (const each of folders) rmSync(each, { recursive: true, force: true })
console.log(found === undefined ? 'nothing was found' : String(found).slice(0, 1000))
process.exit(found === undefined ? 0 : 1)
