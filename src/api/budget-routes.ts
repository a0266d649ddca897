/** Budgets with their remainders. People set those of their keys; only operators set those of an account. */
import {
  type AccountBalance,
  EVERY,
  type Every,
  formatMoney,
  type KeySummary,
  MARK_PATTERN,
  type Model,
  mistakeInBudget,
  parseMoney,
  refuse,
} from '#contract'
import type { PageQuery } from '../store/money/reports.ts'
import type { BudgetChange } from '../store/store.ts'
import { type BudgetReads, budgetsOfAccount, budgetsOfKeys, ownBudget } from './budget-views.ts'
import { modelsOfAccount } from './declared-plans.ts'
import { ID, line, MONEY } from './inputs.ts'
import { accountOf } from './operator-routes.ts'
import { PAGE } from './report-routes.ts'
import { type ApiRoute, type Call, route } from './route.ts'
import { type Fits, type Schema, shape } from './schema.ts'
import type { BudgetView, PageView } from './views.ts'

const PERIOD: Schema<Every> = {
  type: 'string',
  enum: EVERY,
  description: 'The period: hour, day, week, month or life.',
}

const BUDGET = shape({
  amount: { ...MONEY, description: 'The limit of spent and held amounts in a period: "100".' },
  'zone?': line('The time zone in which days begin, such as Europe/Berlin. Default: UTC.', 64),
  'at?': {
    type: 'array',
    items: { type: 'string', pattern: MARK_PATTERN },
    maxItems: 10,
    uniqueItems: true,
    description: 'The parts of the amount that cause an alert. Default: ["80%", "100%"].',
  } as Schema<readonly string[]>,
  'then?': line('refuse, or the id of the model for requests that exceed the budget. Default: refuse.', 200),
})

const ONE = shape({ id: ID, every: PERIOD })
const OF_ACCOUNT = shape({ id: ID, key: ID, every: PERIOD })

/** An account or a key with budgets of its own. */
type Owner =
  | { readonly of: 'account'; readonly account: AccountBalance }
  | { readonly of: 'key'; readonly account: AccountBalance; readonly key: KeySummary }
type BudgetCall = Call<{ readonly every: Every }, object, Fits<typeof BUDGET>>

/** For the people of an account. */
export const BUDGET_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/budgets',
    summary: 'The budgets of the account and of its keys, with the remainder of each.',
    audience: 'person',
    answers: 'BudgetPage',
    query: shape(PAGE),
    handle: async call => ({ body: await budgetPage(call, personsAccount(call), call.query) }),
  }),
  route({
    method: 'PUT',
    path: '/api/keys/{id}/budgets/{every}',
    summary: 'Sets the budget of a key for periods of one length.',
    audience: 'person',
    params: ONE,
    body: BUDGET,
    answers: 'BudgetView',
    errors: ['not_found'],
    handle: async call =>
      put(
        call,
        await keyOf(call, personsAccount(call), call.params.id),
        await modelsOfAccount(call.parts, personsAccount(call)),
      ),
  }),
  route({
    method: 'DELETE',
    path: '/api/keys/{id}/budgets/{every}',
    summary: 'Removes a budget of a key.',
    audience: 'person',
    params: ONE,
    answers: null,
    errors: ['not_found'],
    handle: async call => remove(call, await keyOf(call, personsAccount(call), call.params.id)),
  }),
]

/** For operators: budgets of all accounts and keys. */
export const OPERATOR_BUDGET_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/operator/accounts/{id}/budgets',
    summary: "An account's budgets with those of its keys, and the remainder of each.",
    audience: 'operator',
    params: shape({ id: ID }),
    answers: 'BudgetPage',
    errors: ['not_found'],
    query: shape(PAGE),
    handle: async call => ({ body: await budgetPage(call, call.params.id, call.query) }),
  }),
  route({
    method: 'PUT',
    path: '/api/operator/accounts/{id}/budgets/{every}',
    summary: 'Sets the budget of an account for periods of one length.',
    audience: 'operator',
    params: ONE,
    body: BUDGET,
    answers: 'BudgetView',
    errors: ['not_found'],
    handle: async call => put(call, await accountOwner(call, call.params.id), enabledModels(call)),
  }),
  route({
    method: 'DELETE',
    path: '/api/operator/accounts/{id}/budgets/{every}',
    summary: 'Removes a budget of an account.',
    audience: 'operator',
    params: ONE,
    answers: null,
    errors: ['not_found'],
    handle: async call => remove(call, await accountOwner(call, call.params.id)),
  }),
  route({
    method: 'PUT',
    path: '/api/operator/accounts/{id}/keys/{key}/budgets/{every}',
    summary: "Sets the budget of an account's key for periods of one length.",
    audience: 'operator',
    params: OF_ACCOUNT,
    body: BUDGET,
    answers: 'BudgetView',
    errors: ['not_found'],
    handle: async call => put(call, await keyOf(call, call.params.id, call.params.key), enabledModels(call)),
  }),
  route({
    method: 'DELETE',
    path: '/api/operator/accounts/{id}/keys/{key}/budgets/{every}',
    summary: 'Removes a budget of a key of an account.',
    audience: 'operator',
    params: OF_ACCOUNT,
    answers: null,
    errors: ['not_found'],
    handle: async call => remove(call, await keyOf(call, call.params.id, call.params.key)),
  }),
]

async function budgetPage(
  { parts }: Pick<Call, 'parts'>,
  account: string,
  page: PageQuery,
): Promise<PageView<BudgetView>> {
  return budgetsOfAccount(await accountOf(parts.store, account), readsOf(parts), page)
}

function readsOf({ store, clock, budgetRules }: Call['parts']): BudgetReads {
  return { store, rules: budgetRules(), now: clock.now() }
}

/** @param models those that `then` may name */
async function put(call: BudgetCall, owner: Owner, models: readonly Model[]) {
  const { parts, params, body, note } = call
  const { every } = params
  const { of, account } = owner
  // The model may stay if the budget has it already, because an operator may have chosen it.
  const before = budgetAt(owner, every)?.then
  const isModel = (id: string) => id === before || models.some(each => each.id === id)
  const budget = budgetOf(body, isModel)
  const { amount, at, ...words } = body
  note({ every, ...words, amount: formatMoney(budget.amount), ...(at && { at: at.join(' ') }) })
  await parts.store.setBudget({ of, name: idOf(owner), every, budget })
  const reads = readsOf(parts)
  const keys = owner.of === 'key' ? [(await parts.store.findKey(owner.key.id))!] : []
  const views = await budgetsOfKeys(await accountOf(parts.store, account.id), keys, reads)
  const view = views.find(each => each.place === of && each.every === every)
  // Another request has removed it.
  if (view === undefined) throw refuse('not_found')
  return { body: view }
}

/** An operator may choose a model that is not public. */
const enabledModels = ({ parts }: Pick<Call, 'parts'>) => parts.models().filter(({ enabled }) => enabled)
const idOf = (owner: Owner): string => (owner.of === 'key' ? owner.key.id : owner.account.id)
const budgetAt = (owner: Owner, every: Every) => ownBudget(owner.of === 'key' ? owner.key : owner.account, every)

async function remove({ parts, params, note }: Call<{ readonly every: Every }>, owner: Owner) {
  const { every } = params
  note({ every })
  if (budgetAt(owner, every) === undefined) throw refuse('not_found')
  await parts.store.setBudget({ of: owner.of, name: idOf(owner), every, budget: null })
  return { status: 204 as const }
}

/** Checks the rules that a schema cannot express. */
function budgetOf(body: Fits<typeof BUDGET>, isModel: (id: string) => boolean): NonNullable<BudgetChange['budget']> {
  const { zone, at, then } = body
  const amount = parseMoney(body.amount)
  if (amount === 0n) throw wrong('amount', 'it must be more than 0.')
  const mistake = mistakeInBudget(body)
  if (mistake !== null) throw wrong(mistake.field, `it ${mistake.rule}.`)
  if (then !== undefined && then !== 'refuse' && !isModel(then)) {
    throw wrong('then', 'it must be refuse or the id of a model; GET /api/models lists them.')
  }
  return { amount, ...(zone && { zone }), ...(at && { at }), ...(then && { then }) }
}

const wrong = (param: string, rule: string) =>
  refuse('invalid_value', { message: `Invalid value for '${param}': ${rule}`, param })

function personsAccount({ caller }: Pick<Call, 'caller'>): string {
  if (!caller.person) throw refuse('not_signed_in')
  return caller.person.accountId
}

async function accountOwner({ parts }: Pick<Call, 'parts'>, id: string): Promise<Owner> {
  return { of: 'account', account: await accountOf(parts.store, id) }
}

/** Refuses a key of another account like a missing one. Also refuses a revoked key, because a budget has no effect on it. */
async function keyOf({ parts }: Pick<Call, 'parts'>, account: string, id: string): Promise<Owner> {
  const key = await parts.store.findKey(id)
  if (key?.accountId !== account || key.revokedAt !== null) throw refuse('not_found')
  return { of: 'key', account: await accountOf(parts.store, account), key }
}
