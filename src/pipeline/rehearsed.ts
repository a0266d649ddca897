/** What stands in a rehearsal for those who are asked there and for what would be written: everybody is known and can pay. */
import type {
  Account,
  AnyPlugin,
  Buckets,
  FactName,
  Key,
  Ledger,
  ServiceName,
  Services,
  StepMiddleware,
} from '#contract'
import { createPlan, type Plan, type PlannableStep, type PlannedStep } from './plan.ts'

/** What is as it will be. */
export type RealServices = Pick<Services, 'catalog' | 'targets' | 'clock' | 'random'>

/** Services that would leave a trace, or know nobody. */
const PLAYED: readonly ServiceName[] = ['keys', 'accounts', 'buckets', 'ledger']
const IDENTITY: readonly FactName[] = ['key', 'account']

const ACCOUNT: Account = { id: 'acct_rehearsal', name: 'rehearsal', plan: 'default', frozen: false, createdAt: 0 }
const KEY: Key = {
  id: 'key_rehearsal',
  accountId: ACCOUNT.id,
  name: 'rehearsal',
  models: null,
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
}

/** Whether a step is to be created once more for the rehearsal. Those who say who asks are tried as they are. */
export function isPlayed({ plugin, foreign, mode }: PlannedStep): boolean {
  if (foreign || mode === 'off' || plugin.records || identityOf(plugin) !== null) return false
  return (plugin.uses ?? []).some(name => PLAYED.includes(name))
}

/** In place of a step that gives who asks, and nothing else: lets the made-up key in. Null for other steps. */
export function identityOf({ gives = [] }: AnyPlugin): StepMiddleware | null {
  if (gives.length === 0 || !gives.every(fact => IDENTITY.includes(fact))) return null
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
    plan = createPlan(policy, [step], ({ plugin }) => servicesFor(plugin, real))
  } catch (error) {
    const { position } = step
    const place = position ? `${position.file}:${position.line}:${position.column}: ` : ''
    return (error as Error).message.slice(place.length)
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
