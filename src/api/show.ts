/**
 * Converts objects of the store to views (views.ts): money as text, times in ISO 8601. Each property is named, so that none is shown by
 * accident.
 */
import {
  type AccountBalance,
  costFields,
  formatMoney,
  type KeySummary,
  type Model,
  type Price,
  priceFields,
  type Receipt,
  requestedModel,
  usageFields,
} from '#contract'
import { alertText } from '../alerts/alert-text.ts'
import { webhookId } from '../alerts/webhook-request.ts'
import type { BudgetLeft } from '../budgets/left.ts'
import type { Delivery, ListedAlert } from '../store/alerts/alert-rows.ts'
import type { Entry, UsageRow } from '../store/money/reports.ts'
import { ACCOUNT_PREFIX } from '../store/people/accounts.ts'
import { type Link, type OperatorToken, PERSON_PREFIX, type Person, TOKEN_PREFIX } from '../store/people/people.ts'
import type { Store } from '../store/store.ts'
import type {
  AccountView,
  AlertView,
  BudgetView,
  DeliveryView,
  EntryView,
  KeyView,
  LinkView,
  ModelView,
  PageView,
  PersonView,
  PriceView,
  ReceiptView,
  TokenView,
  UsageRowView,
} from './views.ts'

/** An account with its money. */
export function showAccount(account: AccountBalance): AccountView {
  return {
    id: account.id,
    name: account.name,
    plan: account.plan,
    frozen: account.frozen,
    created_at: showTime(account.createdAt),
    posted: formatMoney(account.posted),
    held: formatMoney(account.held),
    available: formatMoney(account.posted - account.held),
  }
}

/** A person, without the password; `account` is the name of the account. */
export function showPerson(person: Person, account: string): PersonView {
  return {
    id: person.id,
    email: person.email,
    role: person.role,
    account_id: person.accountId,
    account,
    created_at: showTime(person.createdAt),
  }
}

/** A key without its secret; whether it is live depends on the time. */
export function showKey(key: KeySummary, nowMs: number): KeyView {
  return { ...showKeyAsKept(key), state: stateOf(key, nowMs) }
}

/** The key without parts that depend on the time. */
export function showKeyAsKept(key: KeySummary): Omit<KeyView, 'state'> {
  return {
    id: key.id,
    account_id: key.accountId,
    name: key.name,
    models: key.models,
    created_at: showTime(key.createdAt),
    expires_at: showMaybe(key.expiresAt, showTime),
    revoked_at: showMaybe(key.revokedAt, showTime),
    last_used_at: showMaybe(key.lastUsedAt, showTime),
    spending_cap: showMaybe(key.spendingCap, formatMoney),
    spent: formatMoney(key.spent),
    purpose: key.purpose,
    secrets: key.secrets
      .map(({ last4, expiresAt }) => ({ last4, expires_at: showMaybe(expiresAt, showTime) }))
      .reverse(),
  }
}

function stateOf({ revokedAt, expiresAt }: KeySummary, nowMs: number): KeyView['state'] {
  if (revokedAt !== null) return 'revoked'
  return expiresAt !== null && expiresAt <= nowMs ? 'expired' : 'live'
}

/** The keys of an account: first those that work, then the newest others. */
export function showKeys(keys: readonly KeySummary[], nowMs: number): readonly KeyView[] {
  const shown = keys.map(key => showKey(key, nowMs))
  // Ids are in the order of time.
  const ended = shown.filter(({ state }) => state !== 'live').reverse()
  return [...shown.filter(({ state }) => state === 'live'), ...ended]
}

/** A budget with its rest. */
export function showBudget(budget: BudgetLeft): BudgetView {
  const { place, name, per, key, value, every, zone, start, end, marks, then } = budget
  return {
    place,
    name,
    per,
    key_id: key?.id ?? null,
    key: key?.name ?? null,
    value,
    every,
    zone,
    amount: formatMoney(budget.amount),
    spent: formatMoney(budget.spent),
    held: formatMoney(budget.held),
    left: formatMoney(budget.left),
    start: every === 'life' ? null : showTime(start),
    resets_at: showMaybe(end, showTime),
    at: marks?.map(mark => `${mark}%`) ?? null,
    then,
  }
}

/** The source of credit, for the people of the account: without the name of the operator. */
export function actorForMembers(actor: string | null): string | null {
  return actor === null || actor === 'registration' ? actor : 'operator'
}

/** A line of the ledger, for the people of the account. */
export function showEntry(entry: Entry): EntryView {
  return { ...showWholeEntry(entry), actor: actorForMembers(entry.actor) }
}

/** A line of the ledger with the operator, for operators. */
export function showEntryToOperators(entry: Entry, names: Names): EntryView {
  return { ...showWholeEntry(entry), actor: showMaybe(entry.actor, names) }
}

function showWholeEntry(entry: Entry): EntryView {
  return {
    id: entry.id,
    kind: entry.kind,
    at: showTime(entry.at),
    amount: formatMoney(entry.amount),
    balance: showMaybe(entry.balance, formatMoney),
    actor: entry.actor,
    note: entry.note,
    reference: entry.reference,
    key_id: entry.keyId,
    model: entry.model,
    outcome: entry.outcome,
  }
}

/** A receipt. */
export function showReceipt(receipt: Receipt): ReceiptView {
  return {
    id: receipt.id,
    key_id: receipt.keyId,
    model: receipt.model,
    asked_model: requestedModel(receipt.trail),
    created_at: showTime(receipt.createdAt),
    settled_at: showMaybe(receipt.settledAt, showTime),
    corrected_at: showMaybe(receipt.correctedAt, showTime),
    outcome: receipt.outcome,
    code: receipt.code,
    held: formatMoney(receipt.held),
    charged: showMaybe(receipt.charged, formatMoney),
    overrun: showMaybe(receipt.overrun, formatMoney),
    source: receipt.source,
    price: showPrice(receipt.price),
    units: {},
    tier: null,
    ...usageFields(receipt.usage),
    ...costFields(receipt.cost),
    attempts: receipt.attempts.map(({ target, status, code, ms }) => ({ target, status, code, ms })),
    trail: receipt.trail,
    idempotency_key: receipt.idempotencyKey,
    tags: receipt.tags,
  }
}

/** A price, or the cost of a target. */
export function showPrice(price: Price): PriceView {
  return { rules: null, ...priceFields(price) }
}

/** The sums in a row of usage. */
export function showUsed(row: Omit<UsageRow, 'at' | 'keyId' | 'model'>): Omit<UsageRowView, 'at' | 'key_id' | 'model'> {
  return {
    requests: row.requests,
    failed: row.failed,
    prompt_tokens: row.promptTokens,
    cached_tokens: row.cachedTokens,
    completion_tokens: row.completionTokens,
    reasoning_tokens: row.reasoningTokens,
    charged: formatMoney(row.charged),
  }
}

/** A model of the catalog, without its targets. */
export function showModel(model: Model, aliases: readonly string[]): ModelView {
  return {
    id: model.id,
    description: model.description,
    aliases,
    owned_by: model.ownedBy,
    context: model.context,
    max_output: model.maxOutput,
    reasoning: model.reasoning,
    price: showMaybe(model.price, showPrice),
    wildcard: model.wildcard ?? null,
    deprecation: model.deprecation ?? null,
  }
}

/**
 * The name of an id for people: the name of an account, the address of a person, `token:NAME`. The id itself if it was removed, or if it is
 * another text (`cli:USER`).
 */
export type Names = (id: string) => string

/** Reads the names of ids in the store. */
export async function namesOf(store: NamedStore, ids: Iterable<string | null>): Promise<Names> {
  const wanted = [...new Set(ids)].filter(id => id !== null)
  const names = new Map(await Promise.all(wanted.map(async id => [id, await nameOf(store, id)] as const)))
  return id => names.get(id) ?? id
}

type NamedStore = Pick<Store, 'people' | 'findAccount'>

async function nameOf({ people, findAccount }: NamedStore, id: string): Promise<string | undefined> {
  if (id.startsWith(ACCOUNT_PREFIX)) return (await findAccount(id))?.name
  if (id.startsWith(PERSON_PREFIX)) return (await people.find(id))?.email
  const token = id.startsWith(TOKEN_PREFIX) ? await people.getToken(id) : undefined
  return token && `token:${token.name}`
}

/** Links with the names of their accounts and people. */
export async function showLinks(store: NamedStore, links: readonly Link[]): Promise<LinkView[]> {
  const names = await namesOf(
    store,
    links.flatMap(({ accountId, createdBy }) => [accountId, createdBy]),
  )
  return links.map(link => linkView(link, names))
}

export async function showLink(store: NamedStore, link: Link): Promise<LinkView> {
  return (await showLinks(store, [link]))[0]!
}

/** Tokens with the names of their creators. */
export async function showTokens(store: NamedStore, tokens: readonly OperatorToken[]): Promise<TokenView[]> {
  const names = await namesOf(
    store,
    tokens.map(({ createdBy }) => createdBy),
  )
  return tokens.map(token => tokenView(token, names))
}

export async function showToken(store: NamedStore, token: OperatorToken): Promise<TokenView> {
  return (await showTokens(store, [token]))[0]!
}

/** A link without its secret. */
function linkView(link: Link, names: Names): LinkView {
  return {
    id: link.id,
    kind: link.kind,
    role: link.role,
    account_id: link.accountId,
    account: showMaybe(link.accountId, names),
    email: link.email,
    plan: link.plan,
    credit: formatMoney(link.credit),
    created_at: showTime(link.createdAt),
    expires_at: showTime(link.expiresAt),
    created_by: names(link.createdBy),
  }
}

/** An operator's token without its secret. */
function tokenView(token: OperatorToken, names: Names): TokenView {
  return {
    id: token.id,
    name: token.name,
    last4: token.last4,
    created_at: showTime(token.createdAt),
    expires_at: showMaybe(token.expiresAt, showTime),
    created_by: names(token.createdBy),
  }
}

/** A list that is not paged. */
export function showAll<Item>(items: readonly Item[]): PageView<Item> {
  return { items, next: null }
}

/** ISO 8601, in UTC. */
export function showTime(ms: number): string {
  return new Date(ms).toISOString()
}

export function showMaybe<Value, Shown>(value: Value | null, show: (value: Value) => Shown): Shown | null {
  return value === null ? null : show(value)
}

/** An alert as lists show it. */
export function showAlert(alert: ListedAlert): AlertView {
  return {
    id: alert.id,
    webhook_id: webhookId(alert.id),
    kind: alert.kind,
    at: showTime(alert.at),
    account_id: alert.account,
    account: alert.accountName,
    text: alertText(alert),
    deliveries: alert.deliveries.map(showDelivery),
  }
}

function showDelivery({ receiver, attempts, nextAt, deliveredAt, givenUpAt, failure }: Delivery): DeliveryView {
  const at = showTime(deliveredAt ?? givenUpAt ?? nextAt)
  const state = deliveredAt !== null ? 'delivered' : givenUpAt !== null ? 'given_up' : 'waiting'
  return { receiver, attempts, state, at, failure }
}
