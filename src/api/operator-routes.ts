/** What operators see and do: accounts and their credit, plans, requests in progress, providers, the configuration. */
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
  name: { ...NAME, description: 'How people call it; no other account has this name.' },
  'plan?': line('What policies may ask for; `default`, when it is left out.'),
  'credit?': { ...MONEY, description: 'Its first credit in dollars: "25.00".' },
  'reference?': line('Of the first credit; made from the id, when it is left out.', 200),
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
      'plan?': line('Only those with this plan.', 200),
      'frozen?': { type: 'boolean', description: 'Only those that are frozen, or only those that are not.' },
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
    summary: 'Makes an account.',
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
    summary: 'Gives an account another plan, or freezes it: its keys are refused until it is not frozen any more.',
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
      // What stops requests goes first.
      if (frozen !== undefined) await store.freeze(id, frozen)
      if (plan !== undefined) {
        const setPlan = () => store.setPlan(id, plan)
        const done = `The account is ${frozen ? 'frozen' : 'not frozen'} now. Its plan may still be the old one: look.`
        await (frozen === undefined ? setPlan() : afterWriting(done, setPlan))
      }
      return { body: showAccount(await accountOf(store, id)) }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/accounts/{id}/credit',
    summary:
      'Gives credit, or takes credit that is available. The same reference again changes nothing and says so: a payment webhook may repeat itself.',
    audience: 'operator',
    params: ids(),
    body: shape({
      amount: SIGNED_MONEY,
      reference: line("The payment's own id: one reference is credited once.", 200),
      'note?': line('For people; the owner of the account reads it. Needed when credit is taken: it says why.', 200),
    }),
    answers: 'CreditView',
    errors: ['not_found', 'conflict'],
    async handle({ parts: { store }, params, body, caller, note: tell }) {
      const { id } = await accountOf(store, params.id)
      const amount = parseSignedMoney(body.amount)
      if (amount === 0n) throw refuse('invalid_value', { param: 'amount', message: '`amount` must not be 0.' })
      const { reference, note } = body
      if (amount < 0n && note === undefined)
        throw refuse('missing_required_parameter', { param: 'note', message: NO_NOTE })
      tell({ amount: formatMoney(amount), reference })
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
    summary: 'What an account used over time.',
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
    summary: 'Revokes a key of an account, for good and at once.',
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
    summary: 'The plans that gateway.yaml declares, and those that accounts have.',
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
    summary: 'What all accounts together used over time.',
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
    summary: "Anybody's receipt, by the x-request-id of its answer.",
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
    summary: 'One request that is over, whole: of the last 10,000, or what its receipt says.',
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
    summary: 'What steps in shadow would have refused since the start of the gateway, and whom.',
    audience: 'operator',
    answers: 'ShadowView',
    handle: ({ parts }) => ({ body: parts.past.shadow() }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/providers',
    summary: 'Providers, and how well their targets are.',
    audience: 'operator',
    answers: 'ProviderPage',
    handle: async ({ parts }) => ({ body: showAll(await parts.providers()) }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/models',
    summary: 'All models, with the cost of each target and the margin; also those that are not public or not enabled.',
    audience: 'operator',
    answers: 'OperatorModelPage',
    handle: ({ parts }) => ({
      body: showAll(parts.models().map(model => showModelToOperators(model, parts.aliases(model.id)))),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/operator/configuration',
    summary: 'The configuration as it runs, and what is wrong with the files as they are now.',
    audience: 'operator',
    answers: 'ConfigurationView',
    handle: async ({ parts }) => ({ body: await parts.configuration() }),
  }),
]

/** By id only: a name could be anybody's. */
export async function accountOf(store: Store, id: string): Promise<AccountBalance> {
  const account = id.startsWith(ACCOUNT_PREFIX) ? await store.findAccount(id) : undefined
  if (!account) throw refuse('not_found', { message: 'There is no account by this id.' })
  return account
}

/** With who gave what; the account's own people are not told which operator it was. */
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

/** The first credit of a new account; none is 0. */
function readCredit({ credit, reference }: Fits<typeof NEW_ACCOUNT>): NanoUsd {
  const amount = credit === undefined ? 0n : parseMoney(credit)
  if (amount > 0n || reference === undefined) return amount
  throw refuse('invalid_value', { param: 'reference', message: '`reference` is for a first credit; there is none.' })
}
