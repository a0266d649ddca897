/** Routes about a person's own account: balance, ledger, receipts, usage, and models with prices. */
import { formatMoney, refuse } from '#contract'
import type { Entry, Page } from '../store/money/reports.ts'
import type { Store } from '../store/store.ts'
import { type Column, csvHeader, csvLines, toCsv } from './csv.ts'
import { modelsOfAccount } from './declared-plans.ts'
import { createFiles, type Files } from './downloads.ts'
import { ID, ids, line, TAG_FILTER } from './inputs.ts'
import { type ApiRoute, type Call, route } from './route.ts'
import { type Fits, type Properties, shape } from './schema.ts'
import {
  actorForMembers,
  showAccount,
  showAll,
  showEntry,
  showMaybe,
  showModel,
  showReceipt,
  showTime,
  showUsed,
} from './show.ts'
import type { Guard } from './sign-in.ts'
import { checkSize, findUsage, RANGE, type Range, readRange, type SummedRow, USAGE_RANGE, usageView } from './usage.ts'
import type { EntryView, PageView, ReceiptView } from './views.ts'

/** The query of lists in pages. */
export const PAGE = {
  'limit?': { type: 'integer', minimum: 1, maximum: 100, default: 50, description: 'The maximum number of items.' },
  'after?': line('`next` of the previous page.', 2000),
} as const satisfies Properties

/** The query of a list of entries. */
export const ENTRIES_QUERY = shape({
  'kind?': {
    type: 'string',
    enum: ['credit', 'charge'],
    description: 'Only credit, added or taken, or only charges with their corrections.',
  },
  ...PAGE,
})

/** The query of a list of receipts. */
export const RECEIPTS_QUERY = shape({
  'key?': { ...ID, description: 'Only receipts of this key.' },
  'model?': line("Only this model's.", 200),
  'outcome?': {
    type: 'string',
    enum: ['answered', 'refused', 'failed', 'client_left', 'cut'],
    description: 'Only receipts with this outcome.',
  },
  'tag?': {
    ...line('Only receipts with this tag: NAME=VALUE.', 241),
    pattern: TAG_FILTER,
  },
  ...PAGE,
})

const BY = {
  type: 'string',
  enum: ['none', 'key', 'model', 'both'],
  description: 'The dimensions with rows of their own.',
} as const

/** The query of an account's usage. */
export const USAGE_QUERY = shape({
  ...USAGE_RANGE,
  'by?': { ...BY, default: 'none' },
})

/** All of them read the caller's own account only. */
export const REPORT_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/account',
    summary: 'The account with its balance.',
    audience: 'person',
    answers: 'AccountView',
    handle: async call => {
      const account = await call.parts.store.findAccount(ownAccount(call))
      if (!account) throw refuse('not_found')
      return { body: showAccount(account) }
    },
  }),
  route({
    method: 'GET',
    path: '/api/entries',
    summary: "The account's ledger, the newest first.",
    audience: 'person',
    query: ENTRIES_QUERY,
    answers: 'EntryPage',
    handle: async call => ({ body: await entryPage(call.parts.store, ownAccount(call), call.query) }),
  }),
  route({
    method: 'GET',
    path: '/api/entries.csv',
    summary: "The account's ledger as a file for spreadsheets.",
    audience: 'person',
    query: shape(RANGE),
    answers: 'csv',
    errors: ['too_many_attempts'],
    handle: async call => {
      const range = readRange(call.query, call.parts.clock.now())
      const { store } = call.parts
      const accountId = ownAccount(call)
      if ((await store.reports.countEvents(accountId, { ...range, most: MAX_EVENTS + 1 })) > MAX_EVENTS) {
        throw refuse('invalid_value', {
          param: 'from',
          message: `This range has more than ${MAX_EVENTS} requests and credits. Choose a shorter one.`,
        })
      }
      return filesOf(call).send(call.ctx, {
        owner: call.caller.person!.id,
        filename: filename('ledger', range),
        pieces: entryLines(store, accountId, range),
      })
    },
  }),
  route({
    method: 'GET',
    path: '/api/receipts',
    summary: 'Receipts of requests, the newest first.',
    audience: 'person',
    query: RECEIPTS_QUERY,
    answers: 'ReceiptPage',
    handle: async call => ({ body: await receiptPage(call.parts.store, ownAccount(call), call.query) }),
  }),
  route({
    method: 'GET',
    path: '/api/receipts/{id}',
    summary: 'One receipt, by the x-request-id of its answer.',
    audience: 'person',
    params: ids(),
    answers: 'ReceiptView',
    errors: ['not_found'],
    handle: async call => {
      const receipt = await call.parts.store.findReceipt(call.params.id)
      if (receipt?.accountId !== ownAccount(call)) throw refuse('not_found')
      return { body: showReceipt(receipt) }
    },
  }),
  route({
    method: 'GET',
    path: '/api/usage',
    summary: 'Usage over time.',
    audience: 'person',
    query: USAGE_QUERY,
    answers: 'UsageView',
    handle: async call => ({
      body: await usageView(call.parts.store, ownAccount(call), call.query, call.parts.clock.now()),
    }),
  }),
  route({
    method: 'GET',
    path: '/api/usage.csv',
    summary: 'Usage over time, as a file for spreadsheets.',
    audience: 'person',
    query: shape({ ...USAGE_RANGE, 'by?': { ...BY, default: 'both' } }),
    answers: 'csv',
    handle: async call => {
      const { store, clock } = call.parts
      const { range, step, rows } = await findUsage(store, ownAccount(call), call.query, clock.now())
      const csv = toCsv(usageColumns(await keyNames(store, rows)), rows)
      checkSize(csv, step, call.query.by)
      return { csv, filename: filename('usage', range) }
    },
  }),
  route({
    method: 'GET',
    path: '/api/models',
    summary: 'The models of the account: prices by unit with their price lists, sizes, and ends.',
    audience: 'person',
    answers: 'ModelPage',
    async handle(call) {
      const { parts } = call
      const models = await modelsOfAccount(parts, ownAccount(call))
      return { body: showAll(models.map(model => showModel(model, parts.aliases(model.id)))) }
    },
  }),
]

/** A page of an account's ledger. */
export async function entryPage(
  store: Store,
  accountId: string,
  query: Fits<typeof ENTRIES_QUERY>,
): Promise<PageView<EntryView>> {
  const { items, next } = await store.reports.entries(accountId, query)
  return { items: items.map(showEntry), next }
}

/** A page of an account's receipts. */
export async function receiptPage(
  store: Store,
  accountId: string,
  query: Fits<typeof RECEIPTS_QUERY>,
): Promise<PageView<ReceiptView>> {
  const { key, tag, ...rest } = query
  const [name, value] = [tag?.slice(0, tag.indexOf('=')), tag?.slice(tag.indexOf('=') + 1)]
  const { items, next } = await store.reports.receipts(accountId, {
    ...rest,
    ...(key === undefined ? {} : { keyId: key }),
    ...(name === undefined || value === undefined ? {} : { tag: { name, value } }),
  })
  return { items: items.map(showReceipt), next }
}

/** The account of the person. The server has checked that a person is signed in. */
export function ownAccount({ caller }: Pick<Call, 'caller'>): string {
  if (!caller.person) throw refuse('not_signed_in')
  return caller.person.accountId
}

/** The limit of a file that spreadsheets can open. Free requests have no line, but are read too. */
export const MAX_EVENTS = 50_000
const LINES_AT_ONCE = 500

/** The newest first, a page at a time. New entries are later than the range, so they move no page. */
async function* entryLines(store: Store, accountId: string, range: Range): AsyncGenerator<string> {
  yield csvHeader(entryColumns(new Map()))
  for (let after: string | null | undefined; after !== null; ) {
    const page: Page<Entry> = await store.reports.entries(accountId, { ...range, limit: LINES_AT_ONCE, after })
    yield csvLines(entryColumns(await keyNames(store, page.items)), page.items)
    after = page.next
  }
}

const filesAt = new WeakMap<Guard, Files>()

/** The downloads of a listener of the API. */
function filesOf({ guard, parts }: Pick<Call, 'guard' | 'parts'>): Files {
  const files = filesAt.get(guard) ?? createFiles(parts)
  filesAt.set(guard, files)
  return files
}

type KeyNames = ReadonlyMap<string, string>

/** The names of the keys in rows, also of keys that ended long ago. */
function keyNames(store: Store, rows: readonly { readonly keyId: string | null }[]): Promise<KeyNames> {
  const found = new Set(rows.map(({ keyId }) => keyId).filter(keyId => keyId !== null))
  return store.keyNames([...found])
}

const nameOf = (names: KeyNames, keyId: string | null) => (keyId === null ? null : (names.get(keyId) ?? null))

function entryColumns(names: KeyNames): Column<Entry>[] {
  return [
    { name: 'at', of: entry => showTime(entry.at) },
    { name: 'kind', of: entry => entry.kind },
    { name: 'amount_usd', of: entry => formatMoney(entry.amount) },
    { name: 'balance_usd', of: entry => showMaybe(entry.balance, formatMoney) },
    { name: 'id', of: entry => entry.id },
    { name: 'reference', of: entry => entry.reference },
    { name: 'note', of: entry => entry.note },
    { name: 'actor', of: entry => actorForMembers(entry.actor) },
    { name: 'key_id', of: entry => entry.keyId },
    { name: 'key', of: entry => nameOf(names, entry.keyId) },
    { name: 'model', of: entry => entry.model },
    { name: 'outcome', of: entry => entry.outcome },
    { name: 'tags', of: entry => (entry.tags === null ? null : JSON.stringify(entry.tags)) },
  ]
}

function usageColumns(names: KeyNames): Column<SummedRow>[] {
  const used = (name: keyof ReturnType<typeof showUsed>) => ({ name, of: (row: SummedRow) => showUsed(row)[name] })
  return [
    { name: 'at', of: row => showTime(row.at) },
    { name: 'key_id', of: row => row.keyId },
    { name: 'key', of: row => nameOf(names, row.keyId) },
    { name: 'model', of: row => row.model },
    used('requests'),
    used('failed'),
    used('prompt_tokens'),
    used('cached_tokens'),
    used('completion_tokens'),
    used('reasoning_tokens'),
    { name: 'charged_usd', of: row => formatMoney(row.charged) },
  ]
}

/** `tollgate-usage-2026-01-01-2026-01-31.csv`, with the first and the last day of the range. */
function filename(what: string, { from, to }: Range): string {
  const day = (ms: number) => showTime(ms).slice(0, 10)
  return `tollgate-${what}-${day(from)}-${day(to - 1)}.csv`
}
