/** The layers of the tests, and the parts whose full counts `npm run test:full -- PART` runs. */
import { basename } from 'node:path'

/** `npm test`, `npm run test:system`, `npm run test:full -- PART`. */
export type Layer = 'unit' | 'system' | 'full'

export const PARTS = {
  simulation: 'the ledger under simulated crashes, on SQLite and PostgreSQL, with planted bugs',
  ledger: 'the model of the ledger, log cuts, recovery, reports, large stores',
  kills: 'kill -9 of the gateway and of PostgreSQL under load, full disks, shutdowns, backups',
  replicas: 'several replicas and threads: leases, takeovers, upgrades under load',
  clients: 'clients in other languages, and each fault in each dialect as the official SDK reads it',
  corpus: 'all recorded traffic, and the property tests of formats, plugins and the API with thousands of cases',
  floods: 'attackers, slow clients, many streams, memory',
  plants: 'planted faults: for each promise one that `npm test` must find',
} as const

export type Part = keyof typeof PARTS

export function isPart(name: string): name is Part {
  return Object.hasOwn(PARTS, name)
}

/**
 * The layer in which a test file runs, by its name. Two kinds run in both layers: `X.engines.test.ts` on SQLite, then on PostgreSQL;
 * `X.share.test.ts` with a share of its rows, then with all.
 */
export function runsIn(file: string, layer: 'unit' | 'system'): boolean {
  const [, kind] = /\.(system|engines|share)\.test\.ts$/.exec(basename(file)) ?? []
  return kind === 'engines' || kind === 'share' || (kind ?? 'unit') === layer
}

/** Whether a file needs the packages of test/packages: only `npm run test:system` and `npm run test:full` load it. */
export function isSystemFile(file: string): boolean {
  return /\.system(?:\.test)?\.ts$/.test(file) || file.startsWith('test/clients/')
}

/** The part whose full counts a file uses, from its code: `const counts = countsOf('kills')`. */
export function partsIn(code: string): string[] {
  return [...code.matchAll(/\b(?:countsOf|isFull|onlyFull)\('(\w+)'\)/g)].map(match => match[1]!)
}
