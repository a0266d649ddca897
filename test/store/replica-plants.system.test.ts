/** The replica play finds bugs that are planted in the product's source. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { isFull } from '../helpers/counts.ts'
import { testDatabase } from '../helpers/postgres.ts'
import { onPostgres } from './helpers.ts'
import { PLANTED } from './replica-plants.ts'

const full = isFull('replicas')

const MAIN = fileURLToPath(new URL('./replica-main.ts', import.meta.url))
const SEEDS = 60
const STEPS = 60

/** Returns what the play found; null: nothing. */
async function play(seed: number, bug: string): Promise<string | null> {
  const { url } = await testDatabase()
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [MAIN, url, String(seed), String(STEPS), bug], (error, stdout, stderr) => {
      if (stdout === '') reject(new Error(`the play broke off: ${error?.message}\n${stderr}`))
      else resolve(error === null ? null : stdout)
    })
  })
}

/** Bugs that the first or second seed finds; `npm run test:full` tries all bugs. */
const QUICK = [
  'recovery charges the whole hold',
  "a lease is renewed by the process's own clock",
  'a dead replica is deleted before its holds are settled',
]

onPostgres(() => {
  test.each(PLANTED.filter(({ name }) => full || QUICK.includes(name)))('the play finds: $name', async ({ name }) => {
    const first = Math.floor(Math.random() * 2 ** 31)
    let found: string | null = null
    let seed = first
    for (; found === null && seed < first + SEEDS; seed++) found = await play(seed, name)
    expect(found, `${SEEDS} seeds from ${first} on did not find it`).not.toBe(null)
    console.log(`${name}: found by the seed ${seed - 1}, number ${seed - first}: ${found!.split('\n')[0]}`)
    // The seed found this bug: without the bug, the same seed finds nothing.
    expect(await play(seed - 1, 'none')).toBe(null)
  })
})
