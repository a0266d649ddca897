/** A store with an account, and the step on it, for this plugin's tests. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Context } from 'koa'
import { afterEach, expect, vi } from 'vitest'
import {
  type Budget,
  type Checkpoint,
  type Ledger,
  type Model,
  type Outcome,
  type Progress,
  parseMoney,
  type Usage,
} from '#contract'
import { createBudgets } from '../../src/budgets/budget-chain.ts'
import type { Exchange } from '../../src/request/exchange.ts'
import { createBuckets } from '../../src/state/buckets.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { createSteps, type StepRequest, type StepText } from '../../test/helpers/step.ts'
import { until } from '../../test/helpers/until.ts'
import credits from './index.ts'
import { chat, model, progress, usage } from './test-samples.ts'

/** The secret of the store's keys. */
export const SECRET = 'a secret for tests, long enough'

/** Resources to close after the test, the last one first. */
export const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  vi.useRealTimers()
  for (const close of closers.splice(0).reverse()) await close()
})

/** The address of a store in a folder that is removed after the test. */
export async function temporaryFile(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'tollgate-credits-'))
  closers.push(() => rm(dir, { recursive: true }))
  return `sqlite:${join(dir, 'ledger.db')}`
}

interface Rig {
  readonly url?: string
  readonly settings?: StepText['with']
  readonly credit?: string
  /** The spending cap of the key. */
  readonly cap?: string
  /** The budgets of the account's plan. */
  readonly plan?: readonly Budget[]
  /** The catalog. */
  readonly models?: readonly Model[]
  /** Replaces methods of the ledger; it gets the real ones. */
  readonly wrap?: (ledger: Ledger) => Partial<Ledger>
  /** Milliseconds that each reading of the clock adds. */
  readonly lookMs?: number
}

/** A store with one account, and the step on it; counts the calls of each method of the ledger. */
export async function rig({
  url = 'memory',
  settings = {},
  credit = '$1',
  cap,
  plan = [],
  models = [],
  wrap,
  lookMs = 0,
}: Rig = {}) {
  const clock = { time: 1_790_000_000_000, now: () => (clock.time += lookMs) }
  const store = await openStore({ url, secret: SECRET, clock })
  closers.push(() => store.close())
  const { id } = await store.createAccount({ name: 'acme' })
  if (parseMoney(credit) > 0n)
    await store.credit({ account: id, amount: parseMoney(credit), reference: 'r', actor: 'test' })
  const { key } = await store.createKey({ account: id, name: 'k', spendingCap: cap ? parseMoney(cap) : null })
  const asked: string[] = []
  const checkpoints: Checkpoint[][] = []
  const wrapped = { ...store.ledger, ...wrap?.(store.ledger) }
  const ledger: Ledger = {
    hold(request) {
      asked.push('hold')
      return wrapped.hold(request)
    },
    settle(request) {
      asked.push('settle')
      return wrapped.settle(request)
    },
    checkpoint(all) {
      checkpoints.push([...all])
      return wrapped.checkpoint(all)
    },
    spool(request) {
      asked.push('spool')
      return wrapped.spool(request)
    },
    abandon(request) {
      asked.push('abandon')
      wrapped.abandon(request)
    },
  }
  const log: { level: string; message: string; fields: Readonly<Record<string, unknown>> }[] = []
  const write = (level: string) => (fields: Readonly<Record<string, unknown>>, message: string) =>
    void log.push({ level, message, fields })
  const services = {
    ledger,
    clock,
    log: { info: write('info'), warn: write('warn'), error: write('error') },
    buckets: createBuckets(clock),
    budgets: createBudgets(clock, { find: name => ({ name, models: null, limits: [], budgets: plan, weight: 1 }) }),
    plans: { find: () => undefined, of: () => undefined },
    catalog: { find: (id: string) => models.find(model => model.id === id), list: () => models },
  }
  /** The current totals. */
  const who = () => ({ key: store.reads.findKey(key.id)!, account: store.reads.findAccount(id)! })
  const run = createSteps([{ use: credits, with: settings }], services)
  return {
    store,
    clock,
    asked,
    checkpoints,
    log,
    id,
    run: (request: StepRequest = {}) =>
      run({
        next: answered(usage(10, 5)),
        ...request,
        facts: { ...who(), chat: chat(), model: model(), ...request.facts },
      }),
    raw: (request: StepRequest = {}) =>
      run({ next: answered(usage(10, 0)), ...request, facts: { ...who(), ...request.facts } }),
    balance: () => {
      const { posted, held } = store.reads.findAccount(id)!
      return { posted, held }
    },
    receipt: (exchange: Exchange) => store.reads.findReceipt(exchange.id),
    /** Checks all invariants of the ledger, and that no hold is open. */
    sound() {
      expect(store.reads.verify().violations).toEqual([])
      expect(store.openHolds()).toBe(0)
      expect(store.reads.findAccount(id)!.held).toBe(0n)
    },
  }
}

/** The rest of the pipeline: the exchange ends like this. */
export function ends(outcome: Outcome | null, used: Usage | null, progressed: Progress, error?: unknown) {
  return (exchange: Exchange) => {
    Object.assign(exchange, { outcome, usage: used, progress: progressed })
    if (error !== undefined) throw error
  }
}
/** An answer with this usage. */
export const answered = (used: Usage) => ends('answered', used, progress({ countedTokens: 5 }))

/** A request with an open hold whose answer comes at `release`. */
export async function openOne({ run, store }: Pick<Awaited<ReturnType<typeof rig>>, 'run' | 'store'>) {
  const gate = Promise.withResolvers<void>()
  const first = run({
    next: async exchange => {
      await gate.promise
      answered(usage(10, 5))(exchange)
    },
  })
  await until(() => expect(store.openHolds()).toBe(1))
  return { first, release: gate.resolve }
}

/** A header of the answer; empty: it is missing. */
export const header = (ctx: Context, name: string) => String(ctx.response.get(name) ?? '')
