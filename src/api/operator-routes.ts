/** The operators' routes: accounts and their credit, plans, requests in progress, providers, the configuration. */
import { type AccountBalance, formatMoney, type NanoUsd, parseMoney, refuse } from '#contract'
import { ACCOUNT_PREFIX } from '../store/people/accounts.ts'
import type { Store } from '../store/store.ts'
import { afterWriting, giveFirstCredit } from './after-writing.ts'
import { checkPlan } from './declared-plans.ts'
import { findExchange, notRemembered } from './find-exchange.ts'
import { ids, line, MONEY, NAME, SIGNED_MONEY } from './inputs.ts'
import { showModelToOperators } from './model-costs.ts'
import { ENTRIES_QUERY, PAGE, RECEIPTS_QUERY, receiptPage, USAGE_QUERY } from './report-routes.ts'
import { type ApiRoute, route } from './route.ts'
import { type Fits, shape } from './schema.ts'
import {
  namesOf,
  showAccount,
  showAll,
  showEntryToOperators,
  showKey,
  showKeys,
  showPerson,
  showReceipt,
  showTime,
} from './show.ts'
import { parseSignedMoney } from './signed-money.ts'
import { USAGE_RANGE, usageView } from './usage.ts'
import type { AccountDetailView, CreditView, EntryView, FoundReceiptView, PageView, SummaryView } from './views.ts'

const NEW_ACCOUNT = shape({
  name: { ...NAME, description: 'A unique name.' },
  'plan?': line('The plan, for conditions and limits. Default: `default`.'),
  'credit?': { ...MONEY, description: 'Its first credit in dollars: "25.00".' },
  'reference?': line('The reference of the first credit. Default: made from the id.', 200),
})

const NO_NOTE = 'To take credit, `note` must say why.'

/** For operators, and for their machines with a token. */
export const OPERATOR_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/operator/summary',
    summary: 'The gateway at a glance.',
    audience: 'operator',
    answers: 'SummaryView',
    async handle({ parts }) {
      const { accounts, posted, held } = await parts.store.reports.totals()
      const { ready, reason = null } = parts.readiness()
      const { inflight, openHolds } = await parts.counts()
      const summary: SummaryView = {
        accounts,
        posted: formatMoney(posted),
        held: formatMoney(held),
        inflight,
        open_holds: openHolds,
        ready,
        reason,
        started_at: showTime(parts.startedAt),
        version: parts.version,
      }
      return { body: summary }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/accounts',
    summary: 'Accounts by name.',
    audience: 'operator',
    query: shape({
      'search?': line('A part of the name, or the beginning of an id.', 200),
      'plan?': line('Only accounts with this plan.', 200),
      'frozen?': { type: 'boolean', description: 'Only accounts that are frozen, or only those that are not.' },
      ...PAGE,
    }),
    answers: 'AccountPage',
    async handle({ parts, query }) {
      const { items, next } = await parts.store.reports.accounts(query)
      return { body: { items: items.map(showAccount), next } }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/accounts',
    summary: 'Creates an account.',
    audience: 'operator',
    body: NEW_ACCOUNT,
    answers: 'AccountView',
    status: 201,
    errors: ['conflict'],
    async handle({ parts: { store, plans }, body, caller, note }) {
      const { name, plan, reference } = body
      checkPlan(plans(), plan)
      const credit = readCredit(body)
      note({ credit: formatMoney(credit) })
      const { id } = await store.createAccount({ name, ...(plan === undefined ? {} : { plan }) })
      note({ id })
      if (credit > 0n) {
        const given = { account: id, amount: credit, reference: reference ?? `create:${id}`, actor: caller.actor }
        await giveFirstCredit(store, given)
      }
      return { status: 201, body: showAccount(await accountOf(store, id)) }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/accounts/{id}',
    summary: 'An account with its people and keys.',
    audience: 'operator',
    params: ids(),
    answers: 'AccountDetailView',
    errors: ['not_found'],
    async handle({ parts: { store, clock }, params }) {
      const account = await accountOf(store, params.id)
      const now = clock.now()
      const detail: AccountDetailView = {
        account: showAccount(account),
        people: (await store.people.list(account.id)).map(person => showPerson(person, account.name)),
        keys: showKeys(await store.listKeys(account.id), now),
      }
      return { body: detail }
    },
  }),
  route({
    method: 'PATCH',
    path: '/api/operator/accounts/{id}',
    summary: 'Changes the plan of an account, or freezes it: requests with its keys are refused until it is unfrozen.',
    audience: 'operator',
    params: ids(),
    body: {
      ...shape({
        'plan?': line('The new plan.'),
        'frozen?': { type: 'boolean', description: 'Whether its requests are refused.' },
      }),
      minProperties: 1,
    },
    answers: 'AccountView',
    errors: ['not_found', 'conflict'],
    async handle({ parts: { store, plans }, params, body: { plan, frozen }, note }) {
      checkPlan(plans(), plan)
      const { id } = await accountOf(store, params.id)
      note({ ...(plan === undefined ? {} : { plan }), ...(frozen === undefined ? {} : { frozen }) })
      // The freeze comes first: it stops requests.
      if (frozen !== undefined) await store.freeze(id, frozen)
      if (plan !== undefined) {
        const setPlan = () => store.setPlan(id, plan)
        const done = `The account is ${frozen ? 'frozen' : 'not frozen'} now. Check its plan: it may be unchanged.`
        await (frozen === undefined ? setPlan() : afterWriting(done, setPlan))
      }
      return { body: showAccount(await accountOf(store, id)) }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/accounts/{id}/credit',
    summary:
      'Adds credit, or takes available credit. The same reference again changes nothing and says so, because a payment webhook may be repeated.',
    audience: 'operator',
    params: ids(),
    body: shape({
      amount: SIGNED_MONEY,
      reference: line("The payment's own id: one reference is credited once.", 200),
      'note?': line('A note that the people of the account read. Required to take credit, with the reason.', 200),
    }),
    answers: 'CreditView',
    errors: ['not_found', 'conflict'],
    async handle({ parts: { store }, params, body, caller, note: noteInLog }) {
      const { id } = await accountOf(store, params.id)
      const amount = parseSignedMoney(body.amount)
      if (amount === 0n) throw refuse('invalid_value', { param: 'amount', message: '`amount` must not be 0.' })
      const { reference, note } = body
      if (amount < 0n && note === undefined)
        throw refuse('missing_required_parameter', { param: 'note', message: NO_NOTE })
      noteInLog({ amount: formatMoney(amount), reference })
      const grant = { account: id, amount, reference, actor: caller.actor }
      const { granted, balance } = await store.credit(note === undefined ? grant : { ...grant, note })
      const view: CreditView = { granted, reference, account: showAccount(balance) }
      return { body: view }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/accounts/{id}/entries',
    summary: "An account's ledger, the newest first.",
    audience: 'operator',
    params: ids(),
    query: ENTRIES_QUERY,
    answers: 'EntryPage',
    errors: ['not_found'],
    handle: async ({ parts: { store }, params, query }) => ({
      body: await operatorsEntryPage(store, (await accountOf(store, params.id)).id, query),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/accounts/{id}/receipts',
    summary: "An account's receipts, the newest first.",
    audience: 'operator',
    params: ids(),
    query: RECEIPTS_QUERY,
    answers: 'ReceiptPage',
    errors: ['not_found'],
    handle: async ({ parts: { store }, params, query }) => ({
      body: await receiptPage(store, (await accountOf(store, params.id)).id, query),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/accounts/{id}/usage',
    summary: 'The usage of an account over time.',
    audience: 'operator',
    params: ids(),
    query: USAGE_QUERY,
    answers: 'UsageView',
    errors: ['not_found'],
    handle: async ({ parts: { store, clock }, params, query }) => ({
      body: await usageView(store, (await accountOf(store, params.id)).id, query, clock.now()),
    }),
  }),
  route({
    method: 'POST',
    path: '/api/operator/accounts/{id}/keys/{key}/revoke',
    summary: 'Revokes a key of an account.',
    audience: 'operator',
    params: ids('id', 'key'),
    answers: 'KeyView',
    errors: ['not_found'],
    async handle({ parts: { store, clock }, params }) {
      const { id } = await accountOf(store, params.id)
      if ((await store.findKey(params.key))?.accountId !== id) throw refuse('not_found')
      await store.revokeKey(params.key)
      return { body: showKey((await store.findKey(params.key))!, clock.now()) }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/plans',
    summary: 'The plans of gateway.yaml, and those of accounts.',
    audience: 'operator',
    answers: 'PlanPage',
    async handle({ parts }) {
      const accounts = new Map((await parts.store.reports.plans()).map(each => [each.plan, each.accounts]))
      const declared = parts.plans()
      const names = new Set([...(declared?.keys() ?? []), ...accounts.keys()])
      const view = (plan: string) => ({
        plan,
        accounts: accounts.get(plan) ?? 0,
        declared: declared === null ? null : declared.has(plan),
      })
      return { body: showAll([...names].map(view)) }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/usage',
    summary: 'The usage of all accounts together over time.',
    audience: 'operator',
    query: shape({
      ...USAGE_RANGE,
      'by?': {
        type: 'string',
        enum: ['none', 'model'],
        default: 'none',
        description: 'Whether each model has rows of its own.',
      },
    }),
    answers: 'UsageView',
    handle: async ({ parts: { store, clock }, query }) => ({
      body: await usageView(store, undefined, query, clock.now()),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/receipts/{id}',
    summary: 'A receipt of any account, by the x-request-id of its answer.',
    audience: 'operator',
    params: ids(),
    answers: 'FoundReceiptView',
    errors: ['not_found'],
    async handle({ parts, params }) {
      const receipt = await parts.store.findReceipt(params.id)
      const account = receipt && (await parts.store.findAccount(receipt.accountId))
      if (!receipt || !account) throw refuse('not_found')
      const body: FoundReceiptView = { receipt: showReceipt(receipt), account: showAccount(account) }
      return { body }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/exchanges',
    summary: 'Requests in progress, the oldest first.',
    audience: 'operator',
    answers: 'ExchangePage',
    handle: async ({ parts }) => ({ body: showAll(await parts.exchanges()) }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/exchanges/{id}',
    summary: 'An ended request with all details: one of the last 10,000, else by its receipt.',
    audience: 'operator',
    params: ids(),
    answers: 'PastExchangeView',
    errors: ['not_found'],
    async handle({ parts: { store, past }, params }) {
      const exchange = await findExchange(store, past, params.id)
      if (!exchange) throw refuse('not_found', { message: notRemembered(params.id, past.most) })
      return { body: exchange }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/shadow',
    summary: 'The verdicts of steps in shadow mode since the start of the gateway, with the affected accounts.',
    audience: 'operator',
    answers: 'ShadowView',
    handle: ({ parts }) => ({ body: parts.past.shadow() }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/providers',
    summary: 'Providers, and the health of their targets.',
    audience: 'operator',
    answers: 'ProviderPage',
    handle: async ({ parts }) => ({ body: showAll(await parts.providers()) }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/models',
    summary: 'All models with the cost of each target and the margin, also those that are not public or not enabled.',
    audience: 'operator',
    answers: 'OperatorModelPage',
    handle: ({ parts }) => ({
      body: showAll(parts.models().map(model => showModelToOperators(model, parts.aliases(model.id)))),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/configuration',
    summary: 'The running configuration, and the problems of the current files.',
    audience: 'operator',
    answers: 'ConfigurationView',
    handle: async ({ parts }) => ({ body: await parts.configuration() }),
  }),
]

/** By id only: another account could get the name. */
export async function accountOf(store: Store, id: string): Promise<AccountBalance> {
  const account = id.startsWith(ACCOUNT_PREFIX) ? await store.findAccount(id) : undefined
  if (!account) throw refuse('not_found', { message: 'No account has this id.' })
  return account
}

/** With the operators who gave credit, whom the people of the account do not see. */
async function operatorsEntryPage(
  store: Store,
  accountId: string,
  query: Fits<typeof ENTRIES_QUERY>,
): Promise<PageView<EntryView>> {
  const { items, next } = await store.reports.entries(accountId, query)
  const names = await namesOf(
    store,
    items.map(({ actor }) => actor),
  )
  return { items: items.map(entry => showEntryToOperators(entry, names)), next }
}

/** The first credit of a new account; 0: none. */
function readCredit({ credit, reference }: Fits<typeof NEW_ACCOUNT>): NanoUsd {
  const amount = credit === undefined ? 0n : parseMoney(credit)
  if (amount > 0n || reference === undefined) return amount
  throw refuse('invalid_value', { param: 'reference', message: '`reference` needs `credit`.' })
}
