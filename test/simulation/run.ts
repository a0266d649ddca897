/** Runs the simulation: seeds in processes of their own, and the engines on which it runs. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { testServer, WITHOUT_POSTGRES } from '../helpers/postgres.ts'

const MAIN = fileURLToPath(new URL('./main.ts', import.meta.url))

export interface Report {
  readonly ran: number
  /** The seed that broke an invariant, or null. */
  readonly failed: number | null
  readonly seconds: number
  /** The count of each kind of event. */
  readonly tally: Readonly<Record<string, number>>
}

/** Runs seeds in a process of their own, because time and randomness are replaced in it. */
export function simulate(parameters: readonly string[], plant?: string): Promise<{ report: Report; text: string }> {
  return new Promise((resolve, reject) => {
    const env = { ...process.env, ...(plant === undefined ? {} : { TOLLGATE_PLANT: plant }) }
    const options = { env, maxBuffer: 64 * 1024 * 1024 }
    execFile(process.execPath, [MAIN, ...parameters], options, (error, stdout, stderr) => {
      const lines = stdout.trimEnd().split('\n')
      const last = lines.pop() ?? ''
      if (!last.startsWith('{"first"'))
        reject(new Error(`the simulation broke off: ${error?.message}\n${stderr}${stdout}`))
      else resolve({ report: JSON.parse(last) as Report, text: lines.join('\n') })
    })
  })
}

/** In PostgreSQL a seed takes ten times as long. */
export const ALL_ENGINES = [
  {
    engine: 'SQLite',
    layers: ['unit', 'full'],
    missing: null,
    parameters: async () => [],
  },
  {
    engine: 'PostgreSQL',
    layers: ['system', 'full'],
    missing: WITHOUT_POSTGRES,
    parameters: async () => ['--postgres', `postgres://postgres@127.0.0.1:${(await testServer()).port}/postgres`],
  },
]

/** The engines of the current layer. */
export const ENGINES = ALL_ENGINES.filter(({ layers }) => layers.includes(process.env['TOLLGATE_LAYER'] ?? 'unit'))
