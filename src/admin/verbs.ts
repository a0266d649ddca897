/**
 * What an operator can do to accounts, keys and the ledger: one table of verbs, used by the control socket of a running
 * gateway and by a command that opens the store itself, so that both take the same arguments and answer the same.
 *
 * Arguments and results are JSON: money is a string in dollars with 9 decimals, times are ISO 8601 in UTC.
 */
import { type Account, type AccountBalance, formatMoney, type Key, type KeySummary } from '#contract'
import { LONGEST_GRACE_MS, type Store, StoreError, type VerifyReport } from '../store/store.ts'
import { type Arguments, readArguments, VerbError } from './arguments.ts'
import { PEOPLE_VERBS, type PeopleVerbResults } from './people-verbs.ts'

export { VerbError }

/** An account as operators see it; `available` is `posted - held`. */
export interface AccountView {
  readonly id: string
  readonly name: string
  readonly plan: string
  readonly frozen: boolean
  readonly created_at: string
  readonly posted: string
  readonly held: string
  readonly available: string
}

/** A key as operators see it: never a secret, only the last four characters of each live one. */
export interface KeyView {
  readonly id: string
  readonly account_id: string
  readonly account: string
  readonly name: string
  readonly models: readonly string[] | null
  readonly created_at: string
  readonly expires_at: string | null
  readonly revoked_at: string | null
  readonly secrets?: readonly { readonly last4: string; readonly expires_at: string | null }[]
}

/** A key with its secret: the only time the secret is seen. */
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

/** What each verb answers with. */
export interface VerbResults extends PeopleVerbResults {
  'account.create': { readonly account: AccountView }
  'account.credit': { readonly granted: boolean; readonly reference: string; readonly account: AccountView }
  'account.show': { readonly account: AccountView; readonly keys: readonly KeyView[] }
  'account.list': { readonly accounts: readonly AccountView[] }
  'account.freeze': { readonly account: AccountView }
  'account.unfreeze': { readonly account: AccountView }
  'account.plan': { readonly account: AccountView }
  'key.create': IssuedKeyView
  'key.list': { readonly keys: readonly KeyView[] }
  'key.rotate': IssuedKeyView
  'key.revoke': { readonly key: KeyView }
  'ledger.verify': VerifyView
}

export type VerbName = keyof VerbResults

type Verbs = {
  readonly [Name in VerbName]: (store: Store, args: Arguments) => Promise<VerbResults[Name]> | VerbResults[Name]
}

/**
 * What a gateway with a database does not do for others: reading a whole ledger takes seconds, in which no stream would
 * go on. The command reads the database itself.
 */
export const REFUSED_WITH_DATABASE: Readonly<Partial<Record<VerbName, string>>> = {
  'ledger.verify':
    'the gateway does not verify its database while it serves; run "tollgate ledger verify" where the database is, ' +
    'which reads it beside the gateway',
}

// Each verb reads all its arguments before it touches the store: a mistake in the last one must not leave half a change.
const VERBS: Verbs = {
  ...PEOPLE_VERBS,

  async 'account.create'(store, args) {
    const name = args.name('name')
    const plan = args.optional('plan', args.name)
    const credit = args.optional('credit', args.money)
    const actor = args.optional('actor', args.name) ?? 'unknown'
    args.end()
    const account = await store.createAccount(plan === undefined ? { name } : { name, plan })
    if (credit !== undefined) {
      // The account is new, so its first credit can have only this reference.
      await store.credit({ account: account.id, amount: credit, reference: `create:${account.id}`, actor })
    }
    return { account: accountView(balanceOf(store, account.id)) }
  },

  async 'account.credit'(store, args) {
    const account = args.name('account')
    const amount = args.money('amount')
    const reference = args.name('reference')
    const actor = args.optional('actor', args.name) ?? 'unknown'
    const note = args.optional('note', args.name)
    args.end()
    const grant = { account: balanceOf(store, account).id, amount, reference, actor }
    const result = await store.credit(note === undefined ? grant : { ...grant, note })
    return { granted: result.granted, reference, account: accountView(result.balance) }
  },

  'account.show'(store, args) {
    const account = args.name('account')
    args.end()
    const balance = balanceOf(store, account)
    return { account: accountView(balance), keys: store.listKeys(balance.id).map(key => keyView(key, balance.name)) }
  },

  'account.list'(store, args) {
    args.end()
    return { accounts: store.listAccounts().map(accountView) }
  },

  async 'account.plan'(store, args) {
    const account = args.name('account')
    const plan = args.name('plan')
    args.end()
    const { id } = await store.setPlan(balanceOf(store, account).id, plan)
    return { account: accountView(balanceOf(store, id)) }
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
    const owner = balanceOf(store, account)
    const issued = await store.createKey({ account: owner.id, name, models, expiresAt, spendingCap })
    return { key: keyView(issued.key, owner.name), token: issued.token }
  },

  'key.list'(store, args) {
    const account = args.optional('account', args.name)
    args.end()
    const owner = account === undefined ? undefined : balanceOf(store, account)
    const names = new Map(store.listAccounts().map(({ id, name }) => [id, name]))
    const keys = store.listKeys(owner?.id)
    return { keys: keys.map(key => keyView(key, names.get(key.accountId) ?? key.accountId)) }
  },

  async 'key.rotate'(store, args) {
    const id = args.name('key')
    const graceMs = args.milliseconds('grace_ms', LONGEST_GRACE_MS)
    const expiresAt = args.optional('expires_at', args.time)
    args.end()
    const issued = await store.rotateKey(id, graceMs, expiresAt)
    return { key: keyView(issued.key, ownerName(store, issued.key)), token: issued.token }
  },

  async 'key.revoke'(store, args) {
    const id = args.name('key')
    args.end()
    const key = await store.revokeKey(id)
    return { key: keyView(key, ownerName(store, key)) }
  },

  'ledger.verify'(store, args) {
    args.end()
    return verifyView(store.verify())
  },
}

/** Whether a text is a verb of the table. */
export function isVerb(name: string): name is VerbName {
  return Object.hasOwn(VERBS, name)
}

/**
 * Does one verb. Arguments come as JSON: a `VerbError` says which one is wrong and why; a `StoreError` is the store's
 * own sentence (no such account, a name that is taken).
 */
export async function runVerb<Name extends VerbName>(
  store: Store,
  verb: Name,
  args: Readonly<Record<string, unknown>>,
): Promise<VerbResults[Name]> {
  if (!isVerb(verb)) throw new VerbError(`"${verb}" is not a verb; there are: ${Object.keys(VERBS).join(', ')}`)
  return VERBS[verb](store, readArguments(verb, args))
}

async function freeze(store: Store, args: Arguments, frozen: boolean): Promise<{ account: AccountView }> {
  const account = args.name('account')
  args.end()
  const { id } = await store.freeze(balanceOf(store, account).id, frozen)
  return { account: accountView(balanceOf(store, id)) }
}

function balanceOf(store: Store, idOrName: string): AccountBalance {
  const account = store.findAccount(idOrName)
  if (!account) throw new StoreError(`there is no account "${idOrName}" (an account is named by its id or its name)`)
  return account
}

function ownerName(store: Store, key: Key): string {
  return store.findAccount(key.accountId)?.name ?? key.accountId
}

function accountView(account: Account & Pick<AccountBalance, 'posted' | 'held'>): AccountView {
  return {
    id: account.id,
    name: account.name,
    plan: account.plan,
    frozen: account.frozen,
    created_at: timeView(account.createdAt),
    posted: formatMoney(account.posted),
    held: formatMoney(account.held),
    available: formatMoney(account.posted - account.held),
  }
}

function keyView(key: Key | KeySummary, account: string): KeyView {
  const view: KeyView = {
    id: key.id,
    account_id: key.accountId,
    account,
    name: key.name,
    models: key.models,
    created_at: timeView(key.createdAt),
    expires_at: key.expiresAt === null ? null : timeView(key.expiresAt),
    revoked_at: key.revokedAt === null ? null : timeView(key.revokedAt),
  }
  if (!('secrets' in key)) return view
  const secrets = key.secrets.map(({ last4, expiresAt }) => ({
    last4,
    expires_at: expiresAt === null ? null : timeView(expiresAt),
  }))
  return { ...view, secrets }
}

/** A report of `verify` as JSON. */
export function verifyView(report: VerifyReport): VerifyView {
  const { accounts, events, openHolds, violations } = report
  return { accounts, events, open_holds: openHolds, violations }
}

function timeView(ms: number): string {
  return new Date(ms).toISOString()
}
