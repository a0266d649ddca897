/**
 * The verbs of operators for accounts, keys and the ledger. The control socket of a running gateway and commands that open the store
 * themselves use this table, so both have the same arguments and results.
 *
 * Arguments and results are JSON: money is a string in dollars with 9 decimals, times are ISO 8601 in UTC.
 */
import { formatMoney, type KeySummary } from '#contract'
import { ALERT_KINDS } from '../../common/alerts-config.ts'
import { StoreError } from '../../store/error.ts'
import { MAX_GRACE_MS, type Store, type VerifyReport } from '../../store/store.ts'
import { giveFirstCredit } from '../after-writing.ts'
import type { RecentTrails } from '../api-parts.ts'
import { budgetsOfAccount } from '../budget-views.ts'
import type { PlanNames } from '../declared-plans.ts'
import { findExchange, notRemembered } from '../find-exchange.ts'
import { namesOf, showAccount, showAlert, showKeyAsKept } from '../show.ts'
import type { AccountView, AlertView, BudgetView, KeyView as KeyNow, PastExchangeView, ShadowView } from '../views.ts'
import { type Arguments, readArguments, VerbError } from './arguments.ts'
import { BUDGET_VERBS, type BudgetVerbResults, PAGE_SIZE, type PlanBudgets, readsOf } from './budget-verbs.ts'
import { accountNamed, keyWith } from './named.ts'
import { PEOPLE_VERBS, type PeopleVerbResults, refusePlan } from './people-verbs.ts'

/** The most alerts in one answer. */
const MOST_ALERTS = 50

export type { AccountView }
export { VerbError }

/** A key for commands: with the name of its account, without parts that depend on the time. */
export interface KeyView extends Omit<KeyNow, 'state'> {
  readonly account: string
  /** Its own budgets. `key.budget` has their remainders. */
  readonly budgets: readonly { readonly every: string; readonly amount: string }[]
}

/** A key with its secret, which is shown only once. */
export interface IssuedKeyView {
  readonly key: KeyView
  readonly token: string
}

export interface VerifyView {
  readonly accounts: number
  readonly events: number
  readonly open_holds: number
  readonly violations: VerifyReport['violations']
}

/** The results of the verbs. */
export interface VerbResults extends PeopleVerbResults, BudgetVerbResults {
  'account.create': { readonly account: AccountView }
  'account.credit': { readonly granted: boolean; readonly reference: string; readonly account: AccountView }
  'account.show': {
    readonly account: AccountView
    readonly keys: readonly KeyView[]
    readonly budgets: readonly BudgetView[]
    /** Whether `account.budget` has more of them. */
    readonly moreBudgets: boolean
  }
  'account.list': { readonly accounts: readonly AccountView[] }
  'account.freeze': { readonly account: AccountView }
  'account.unfreeze': { readonly account: AccountView }
  'account.plan': { readonly account: AccountView }
  'key.create': IssuedKeyView
  'key.list': { readonly keys: readonly KeyView[] }
  'key.update': { readonly key: KeyView }
  'key.rotate': IssuedKeyView
  'key.revoke': { readonly key: KeyView }
  'ledger.verify': VerifyView
  'alerts.list': { readonly alerts: readonly AlertView[] }
  'exchange.show': PastExchangeView
  'shadow.show': ShadowView
  'model.list': ModelNames
}

/** The models that a key may list: those of the catalog and of raw routes, with their aliases. */
export interface ModelNames {
  readonly models: readonly string[]
  readonly aliases: Readonly<Record<string, string>>
}

/** The parts of a running gateway that verbs need beside the store. */
export interface RunningParts extends PlanBudgets {
  readonly past?: RecentTrails
  models?(): ModelNames
  /** The plans of gateway.yaml; also for a command that opens the store itself. */
  plans?(): PlanNames | null
}

export type VerbName = keyof VerbResults

type Verbs = {
  readonly [Name in VerbName]: (
    store: Store,
    args: Arguments,
    running: RunningParts,
  ) => Promise<VerbResults[Name]> | VerbResults[Name]
}

/**
 * Verbs that a gateway with a database refuses: reading a whole ledger takes seconds, during which all streams would stop. The command reads
 * the database itself.
 */
export const REFUSED_WITH_DATABASE: Readonly<Partial<Record<VerbName, string>>> = {
  'ledger.verify':
    'the gateway does not verify its database while it serves; run "tollgate ledger verify" where the database is, ' +
    'which reads it beside the gateway',
}

// Each verb reads all arguments before it changes the store: a mistake in the last argument must not leave a part of the change.
const VERBS: Verbs = {
  async 'account.create'(store, args, { plans }) {
    const name = args.name('name')
    const plan = args.optional('plan', args.name)
    const credit = args.optional('credit', args.money)
    const actor = args.optional('actor', args.name) ?? 'unknown'
    args.end()
    refusePlan('account.create', plans?.() ?? null, plan)
    const account = await store.createAccount(plan === undefined ? { name } : { name, plan })
    if (credit !== undefined) {
      // The account is new, so its reference is unique.
      await giveFirstCredit(store, { account: account.id, amount: credit, reference: `create:${account.id}`, actor })
    }
    return { account: showAccount(await accountNamed(store, account.id)) }
  },

  async 'account.credit'(store, args) {
    const account = args.name('account')
    const amount = args.signedMoney('amount')
    const reference = args.name('reference')
    const actor = args.optional('actor', args.name) ?? 'unknown'
    const note = args.optional('note', args.name)
    args.end()
    if (amount < 0n && note === undefined)
      throw new VerbError('account.credit: "note" is missing; to take credit, give the reason')
    const grant = { account: (await accountNamed(store, account)).id, amount, reference, actor }
    const result = await store.credit(note === undefined ? grant : { ...grant, note })
    return { granted: result.granted, reference, account: showAccount(result.balance) }
  },

  async 'account.show'(store, args, running) {
    const account = args.name('account')
    args.end()
    const balance = await accountNamed(store, account)
    const keys = await store.listKeys(balance.id)
    const { items, next } = await budgetsOfAccount(balance, readsOf(store, running), { limit: PAGE_SIZE })
    const keyViews = keys.map(key => keyView(key, balance.name))
    return { account: showAccount(balance), keys: keyViews, budgets: items, moreBudgets: next !== null }
  },

  async 'account.list'(store, args) {
    args.end()
    return { accounts: (await store.listAccounts()).map(showAccount) }
  },

  async 'account.plan'(store, args, { plans }) {
    const account = args.name('account')
    const plan = args.name('plan')
    args.end()
    refusePlan('account.plan', plans?.() ?? null, plan)
    const { id } = await store.setPlan((await accountNamed(store, account)).id, plan)
    return { account: showAccount(await accountNamed(store, id)) }
  },

  'account.freeze': (store, args) => freeze(store, args, true),
  'account.unfreeze': (store, args) => freeze(store, args, false),

  async 'key.create'(store, args) {
    const account = args.name('account')
    const name = args.name('name')
    const models = args.optional('models', args.names) ?? null
    const expiresAt = args.optional('expires_at', args.time) ?? null
    const spendingCap = args.optional('spending_cap', args.money) ?? null
    args.end()
    const owner = await accountNamed(store, account)
    const issued = await store.createKey({ account: owner.id, name, models, expiresAt, spendingCap })
    return { key: await keyOf(store, issued.key.id), token: issued.token }
  },

  async 'key.list'(store, args) {
    const account = args.optional('account', args.name)
    args.end()
    const owner = account === undefined ? undefined : await accountNamed(store, account)
    const names = new Map((await store.listAccounts()).map(({ id, name }) => [id, name]))
    const keys = await store.listKeys(owner?.id)
    return { keys: keys.map(key => keyView(key, names.get(key.accountId) ?? key.accountId)) }
  },

  async 'key.update'(store, args) {
    const id = args.name('key')
    const name = args.optional('name', args.name)
    const models = args.nullable('models', args.names)
    const expiresAt = args.nullable('expires_at', args.time)
    const spendingCap = args.nullable('spending_cap', args.money)
    args.end()
    if (name === undefined && models === undefined && expiresAt === undefined && spendingCap === undefined) {
      throw new VerbError('key.update: needs "name", "models", "expires_at" or "spending_cap"')
    }
    await store.changeKey({ id, name, models, expiresAt, spendingCap })
    return { key: await keyOf(store, id) }
  },

  async 'key.rotate'(store, args) {
    const id = args.name('key')
    const graceMs = args.milliseconds('grace_ms', MAX_GRACE_MS)
    const expiresAt = args.optional('expires_at', args.time)
    args.end()
    const issued = await store.rotateKey(id, graceMs, expiresAt)
    return { key: await keyOf(store, issued.key.id), token: issued.token }
  },

  async 'key.revoke'(store, args) {
    const id = args.name('key')
    args.end()
    await store.revokeKey(id)
    return { key: await keyOf(store, id) }
  },

  async 'ledger.verify'(store, args) {
    args.end()
    return verifyView(await store.verify())
  },

  async 'alerts.list'(store, args) {
    const kind = args.optional('kind', args.name)
    args.end()
    if (kind !== undefined && !ALERT_KINDS.some(known => known === kind))
      throw new VerbError(`alerts.list: "kind" must be one of ${ALERT_KINDS.join(', ')}, not "${kind}"`)
    const { items } = await store.alerts.list({ kind, limit: MOST_ALERTS })
    return { alerts: items.map(showAlert) }
  },

  async 'exchange.show'(store, args, { past }) {
    const id = args.name('exchange')
    args.end()
    const exchange = await findExchange(store, past, id)
    if (!exchange) throw new StoreError(notRemembered(id, past?.most ?? null))
    return exchange
  },

  'shadow.show'(_store, args, { past }) {
    args.end()
    if (!past) throw new VerbError('no gateway runs, and verdicts of steps in shadow mode are only in its memory')
    return past.shadow()
  },

  'model.list'(_store, args, { models }) {
    args.end()
    if (!models) throw new VerbError('no gateway runs, whose configuration has the models')
    return models()
  },

  ...BUDGET_VERBS,
  ...PEOPLE_VERBS,
}

/** Whether a text is a verb of the table. */
export function isVerb(name: string): name is VerbName {
  return Object.hasOwn(VERBS, name)
}

/**
 * Runs a verb with JSON arguments. Throws a `VerbError` for a wrong argument, and a `StoreError` of the store (no such account, a
 * name in use).
 *
 * @param running the parts of a running gateway
 */
export async function runVerb<Name extends VerbName>(
  store: Store,
  verb: Name,
  args: Readonly<Record<string, unknown>>,
  running: RunningParts = {},
): Promise<VerbResults[Name]> {
  if (!isVerb(verb)) throw new VerbError(`"${verb}" is not a verb; there are: ${Object.keys(VERBS).join(', ')}`)
  return VERBS[verb](store, readArguments(verb, args), running)
}

async function freeze(store: Store, args: Arguments, frozen: boolean): Promise<{ account: AccountView }> {
  const account = args.name('account')
  args.end()
  const { id } = await store.freeze((await accountNamed(store, account)).id, frozen)
  return { account: showAccount(await accountNamed(store, id)) }
}

async function keyOf(store: Store, id: string): Promise<KeyView> {
  const key = await keyWith(store, id)
  return keyView(key, (await namesOf(store, [key.accountId]))(key.accountId))
}

function keyView(key: KeySummary, account: string): KeyView {
  const shown = showKeyAsKept(key)
  const budgets = (key.budgets ?? []).map(({ every, amount }) => ({ every, amount: formatMoney(amount) }))
  // The oldest secret first, as in earlier versions of the commands.
  return { ...shown, account, secrets: shown.secrets.toReversed(), budgets }
}

/** A report of `verify` as JSON. */
export function verifyView(report: VerifyReport): VerifyView {
  const { accounts, events, openHolds, violations } = report
  return { accounts, events, open_holds: openHolds, violations }
}
