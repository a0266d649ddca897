/** The services of steps without real requests: every client is known and can pay, and nothing is stored. */
import type { Account, AnyPlugin, Buckets, Key, Ledger, Services } from '#contract'
import { createBudgets } from '../budgets/budget-chain.ts'
import { createPlan, type Plan, type PlanError, type PlannableStep } from '../loader/plan.ts'
import { createLocalState } from '../state/state.ts'

/** The services that must be given. */
export type RealServices = Pick<Services, 'catalog' | 'plans' | 'targets' | 'clock' | 'random'>

/** The made-up account and key. */
export const ACCOUNT: Account = { id: 'acc_dry_run', name: 'dry run', plan: 'default', frozen: false, createdAt: 0 }
export const KEY: Key = {
  id: 'key_dry_run',
  accountId: ACCOUNT.id,
  name: 'dry run',
  models: null,
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
}

/** All services: the given ones, and stand-ins for the others. */
export function standInServices(given: RealServices & Partial<Services>): Services {
  const { slots, kv, cacheOf, versions } = createLocalState(given.clock)
  return {
    keys: { find: () => ({ found: 'live', key: KEY, account: ACCOUNT }) },
    accounts: { find: () => ACCOUNT },
    buckets: FULL,
    slots,
    kv,
    cache: cacheOf(''),
    versions,
    ledger: createLedger(),
    budgets: createBudgets(given.clock, given.plans),
    log: { info() {}, warn() {}, error() {} },
    ...given,
  }
}

/** The services that a plugin names. */
export function servicesFor(plugin: AnyPlugin, all: Services): Partial<Services> {
  return Object.fromEntries((plugin.uses ?? []).map(name => [name, all[name]]))
}

/**
 * Creates a step with stand-ins and disposes of it. Returns why the gateway could not create it, as at the gateway's start; null if it
 * could.
 */
export async function whyNotCreated(policy: string, step: PlannableStep, real: RealServices): Promise<string | null> {
  let plan: Plan
  try {
    plan = createPlan(policy, [step], ({ plugin }) => servicesFor(plugin, standInServices(real)), 'check')
  } catch (error) {
    return (error as PlanError).reason
  }
  await plan.dispose().catch(() => {})
  return null
}

const FULL: Buckets = {
  take: (_name, { capacity }) => ({ taken: true, remaining: Math.floor(capacity), retryAfterMs: 0, resetMs: 0 }),
  give() {},
}

/** A ledger that accepts every hold and stores no amounts. */
function createLedger(): Ledger {
  const open = new Set<string>()
  return {
    async hold({ exchange }) {
      open.add(exchange)
      return { held: true, available: 2n ** 62n }
    },
    async settle({ exchange }) {
      return open.delete(exchange) ? 'settled' : 'no_hold'
    },
    async checkpoint() {},
    spool: () => 'spooled',
    abandon() {},
  }
}
