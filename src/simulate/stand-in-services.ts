/** What stands in a rehearsal for those who are asked there and for what would be written: everybody is known and can pay. */
import {
  type Account,
  type AnyPlugin,
  type Buckets,
  type Key,
  type Ledger,
  refuse,
  type Services,
  type StepMiddleware,
} from '#contract'
import { createPlan, type Plan, type PlanError, type PlannableStep } from '../loader/plan.ts'
import { runsDry, saysWho } from './configuration.ts'

/** What is as it will be. */
export type RealServices = Pick<Services, 'catalog' | 'targets' | 'clock' | 'random'>

const ACCOUNT: Account = { id: 'acct_rehearsal', name: 'dryRun', plan: 'default', frozen: false, createdAt: 0 }
const KEY: Key = {
  id: 'key_rehearsal',
  accountId: ACCOUNT.id,
  name: 'dryRun',
  models: null,
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
}

/** What takes part in place of a step; null: the step itself, created once more. */
export function insteadOf(step: PlannableStep): StepMiddleware | null {
  const { plugin, mode } = step
  // What only writes down has nothing to write: nobody has asked.
  if (plugin.records) return passes
  if (mode === 'off' || runsDry(step)) return null
  return identityOf(plugin) ?? (plugin.gives?.length ? ends : passes)
}

const passes: StepMiddleware = (_ctx, next) => next()

/** Later steps may need what a step gives that is not run: what they do without it says nothing. */
const ends: StepMiddleware = async () => {
  throw refuse('shutting_down')
}

/** In place of a step that gives who asks, and nothing else: lets the made-up key in. Null for other steps. */
export function identityOf(plugin: AnyPlugin): StepMiddleware | null {
  const { gives = [] } = plugin
  if (!saysWho(plugin)) return null
  return (ctx, next) => {
    if (gives.includes('key')) ctx.exchange.give('key', KEY)
    if (gives.includes('account')) ctx.exchange.give('account', ACCOUNT)
    return next()
  }
}

/** The services that a plugin names, of which none keeps anything. */
export function servicesFor(plugin: AnyPlugin, real: RealServices): Partial<Services> {
  const all: Services = {
    keys: { find: () => ({ found: 'live', key: KEY, account: ACCOUNT }) },
    accounts: { find: () => ACCOUNT },
    buckets: FULL,
    ledger: createLedger(),
    log: { info() {}, warn() {}, error() {} },
    ...real,
  }
  return Object.fromEntries((plugin.uses ?? []).map(name => [name, all[name]]))
}

/**
 * Creates a step over services that keep nothing, and lets go of it. Answers why the gateway could not create it, in the words
 * of the gateway's start; null when it could.
 */
export async function whyNotCreated(policy: string, step: PlannableStep, real: RealServices): Promise<string | null> {
  let plan: Plan
  try {
    plan = createPlan(policy, [step], ({ plugin }) => servicesFor(plugin, real), 'check')
  } catch (error) {
    return (error as PlanError).reason
  }
  await plan.dispose().catch(() => {})
  return null
}

/** Always full, whatever is taken. */
const FULL: Buckets = {
  take: (_name, { capacity }) => ({ taken: true, remaining: Math.floor(capacity), retryAfterMs: 0, resetMs: 0 }),
  give() {},
}

/** Holds whatever it is asked for, and forgets it. */
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
