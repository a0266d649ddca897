/** Stores in temporary folders, and a clock that stands still. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Clock } from '#contract'
import type { LocalStore } from '../../src/store/local-store.ts'
import { openStore, type StoreOptions } from '../../src/store/sqlite.ts'
import { SECRET } from './requests.ts'

export { aHold, aSettle, PRICE, SECRET } from './requests.ts'

export interface TestClock extends Clock {
  ms: number
}

export function testClock(ms = 1_800_000_000_000): TestClock {
  return {
    ms,
    now() {
      return this.ms
    },
  }
}

/** A folder that is gone after the test. */
export function folder(parent: string = tmpdir()): string {
  const path = mkdtempSync(join(parent, 'tollgate-store-'))
  onTestFinished(() => rmSync(path, { recursive: true, force: true }))
  return path
}

export type TestStore = LocalStore & { readonly clock: TestClock; readonly path: string }

/**
 * A store in a file (or `url: 'memory'`) that is closed after the test. It writes in the test's own thread unless `writes`
 * says otherwise: starting one takes longer than most tests, and those to which it matters run both ways.
 */
export async function testStore(options: Partial<StoreOptions> & { path?: string } = {}): Promise<TestStore> {
  const clock = (options.clock as TestClock | undefined) ?? testClock()
  const path = options.path ?? join(folder(), 'tollgate.db')
  const store = await openStore({ url: `sqlite:${path}`, secret: SECRET, writes: 'here', ...options, clock })
  // A test that loses settles has heard of it before.
  onTestFinished(() => store.close().catch(ignoreLoss))
  return Object.assign(store, { clock, path })
}

function ignoreLoss(error: Error): void {
  if (!/settles could not be written/.test(error.message)) throw error
}

/** An account with credit. */
export async function fund(store: LocalStore, amount: bigint, name = 'alice'): Promise<string> {
  const { id } = await store.createAccount({ name })
  await store.credit({ account: id, amount, reference: `first credit of ${name}`, actor: 'test' })
  return id
}
