/** Reports of a person's own account: those of others are refused, and every figure matches the ledger. */
import { describe, expect, test } from 'vitest'
import { formatMoney, type Outcome, parseMoney } from '#contract'
import type { By } from '../../src/api/usage.ts'
import type { AccountView, EntryView, ModelView, PageView, ReceiptView, UsageView } from '../../src/api/views.ts'
import { countsOf, onlyFull } from '../helpers/counts.ts'
import { testWith } from '../helpers/missing.ts'
import { seeded } from '../helpers/seeded.ts'
import { aHold, aSettle } from '../store/requests.ts'
import { readCsv } from './read-csv.ts'
import { type Reply, type Rig, type SignedIn, startRig } from './rig.ts'

const counts = countsOf('ledger')

const HOUR = 3_600_000
const DAY = 24 * HOUR

describe('access', () => {
  test('no one sees the ledger, the receipts or the usage of another account', async () => {
    await using rig = await startRig()
    const [alice, eve] = [await rig.member('alice@example.com'), await rig.member('eve@example.com')]
    const key = await aKey(rig, alice, 'theirs')
    await exchange(rig, { accountId: alice.accountId, keyId: key, id: 'req_alice' })
    expect((await alice.get('/api/receipts/req_alice')).status).toBe(200)

    const answers = [
      await eve.get('/api/receipts/req_alice'),
      await eve.get('/api/receipts'),
      await eve.get(`/api/receipts?key=${key}`),
      await eve.get('/api/entries?kind=charge'),
      await eve.get('/api/usage?by=both'),
      await eve.get('/api/usage.csv'),
      await eve.get('/api/entries.csv'),
    ]
    expect(answers[0]!.text).toBe((await eve.get('/api/receipts/req_none')).text)
    for (const { text } of answers) {
      expect(text).not.toContain(alice.accountId)
      expect(text).not.toContain(key)
      expect(text).not.toContain('req_alice')
    }
    expect((answers[4] as Reply<UsageView>).body.total.requests).toBe(0)
    // A cursor of another person's list returns a page of the own list.
    const { body } = await alice.get<PageView<EntryView>>('/api/entries?limit=1')
    const stolen = await eve.get<PageView<EntryView>>(`/api/entries?after=${encodeURIComponent(body.next!)}`)
    expect(JSON.stringify(stolen.body)).not.toContain('alice')
  })

  test.each([
    ['entries?limit=0', 'limit'],
    ['entries?limit=101', 'limit'],
    ['entries?limit=ten', 'limit'],
    ['entries?kind=gift', 'kind'],
    ['entries?account_id=acc_1', 'account_id'],
    ['entries?from=2026-01-01T00:00:00Z', 'from'],
    ['receipts?outcome=lost', 'outcome'],
    ['receipts?tag=team', 'tag'],
    ['receipts?tag=Team=a', 'tag'],
    ['receipts?key=%27%20OR%201=1', 'key'],
    ['receipts?limit=1&limit=2', 'limit'],
    ['usage?step=minute', 'step'],
    ['usage?by=account', 'by'],
    ['usage?from=yesterday', 'from'],
    ['usage?from=2026-02-30T00:00:00Z', 'from'],
    ['usage?from=2027-01-02T00:00:00Z&to=2027-01-01T00:00:00Z', 'from'],
    ['usage?from=2027-01-01T00:00:00Z&to=2027-01-01T00:00:00Z', 'from'],
    ['usage?from=2025-01-01T00:00:00Z&to=2026-06-01T00:00:00Z', 'from'],
    ['usage?to=1969-01-01T00:00:00Z&from=1900-01-01T00:00:00Z', 'from'],
    ['usage?step=hour&from=2026-11-01T00:00:00Z&to=2027-01-01T00:00:00Z', 'step'],
    ['usage.csv?by=all', 'by'],
    ['entries.csv?kind=credit', 'kind'],
    ['entries.csv?from=2026-12-01T00:00:00Z&to=2026-11-01T00:00:00Z', 'from'],
    ['models?public=false', 'public'],
  ])('/api/%s is refused, naming %s', async (path, param) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const answer = await alice.get<{ error: { param: string; code: string } }>(`/api/${path}`)
    expect([answer.status, answer.body.error.param]).toEqual([400, param])
  })

  test.each(['nonsense', '%00', 'e30', 'W10', `${'A'.repeat(400)}`, 'WyJ4IiwiMSJd'])(
    'a cursor %s that the API did not issue is refused',
    async cursor => {
      await using rig = await startRig()
      const alice = await rig.member('alice@example.com')
      for (const list of ['entries', 'receipts']) {
        expect((await alice.get(`/api/${list}?after=${cursor}`)).status).toBe(400)
      }
    },
  )
})

test('the account view has the balance', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  await rig.store.ledger.hold(
    aHold({ accountId: alice.accountId, exchange: 'req_open', amount: parseMoney('2.000000001') }),
  )
  const { body } = await alice.get<AccountView>('/api/account')
  expect(body).toMatchObject({
    name: 'alice@example.com',
    posted: '10.000000000',
    held: '2.000000001',
    available: '7.999999999',
    created_at: '2027-01-15T08:00:00.000Z',
  })
})

test('models are the public ones, with prices and aliases', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const { body } = await alice.get<PageView<ModelView>>('/api/models')
  expect(body.items.map(({ id, aliases, price }) => [id, aliases, price?.output ?? null])).toEqual([
    ['m', ['m-latest'], '2.000000000'],
    ['free', [], null],
  ])
})

describe('lists', () => {
  test('the pages of entries are the ledger, each entry once, the newest first, and they add up to the balance', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    await history(rig, [alice], { exchanges: 40, seed: 1 })
    await rig.store.credit({
      account: alice.accountId,
      amount: parseMoney('5'),
      reference: 'pay_1',
      actor: 'op@example.com',
      note: 'thanks',
    })
    const all = await everything<EntryView>(alice, '/api/entries', 7)
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length)
    expect(all.map(({ at }) => at)).toEqual(
      all
        .map(({ at }) => at)
        .sort()
        .reverse(),
    )
    const { body } = await alice.get<AccountView>('/api/account')
    expect(formatMoney(all.reduce((sum, { amount }) => sum + nano(amount), 0n))).toBe(body.posted)
    expect(all[0]).toMatchObject({
      kind: 'credit',
      amount: '5.000000000',
      reference: 'pay_1',
      actor: 'operator',
      note: 'thanks',
      model: null,
    })
    // On any page, the balance of an entry is the sum of all entries up to it.
    let balance = 0n
    for (const entry of all.toReversed()) {
      balance += nano(entry.amount)
      expect(entry.balance).toBe(formatMoney(balance))
    }
    for (const kind of ['credit', 'charge']) {
      const some = await everything<EntryView>(alice, `/api/entries?kind=${kind}`, 7)
      expect(some).toEqual(all.filter(entry => entry.kind === kind))
      expect(some.length).toBeGreaterThan(1)
    }
  })

  test('receipts can be filtered by key, model and outcome', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const done = await history(rig, [alice], { exchanges: 60, seed: 2 })
    const all = await everything<ReceiptView>(alice, '/api/receipts', 9)
    expect(all.map(({ id }) => id).sort()).toEqual(done.map(({ id }) => id).sort())
    const { key_id, model } = all[0]!
    for (const [query, fits] of [
      [`key=${key_id}`, (each: ReceiptView) => each.key_id === key_id],
      [`model=${encodeURIComponent(model)}`, (each: ReceiptView) => each.model === model],
      ['outcome=failed', (each: ReceiptView) => each.outcome === 'failed'],
      [`key=${key_id}&outcome=answered`, (each: ReceiptView) => each.key_id === key_id && each.outcome === 'answered'],
    ] as const) {
      expect(await everything<ReceiptView>(alice, `/api/receipts?${query}`, 9), query).toEqual(all.filter(fits))
      expect(all.filter(fits).length, query).toBeGreaterThan(0)
      expect(all.filter(fits).length, query).toBeLessThan(all.length)
    }
    for (const each of all.slice(0, 5)) expect((await alice.get(`/api/receipts/${each.id}`)).body).toEqual(each)
  })
})

test('receipts can be filtered by a tag, and a file has all tags of an exchange', async () => {
  await using rig = await startRig()
  const alice = await rig.member('alice@example.com')
  const { accountId } = alice
  const all = [{ team: 'search', user: 'a=b' }, { team: '=ads' }, undefined]
  for (const [nth, tags] of all.entries()) {
    const hold = aHold({ accountId, exchange: `req_${nth}`, keyId: 'key_1', amount: 100n, tags })
    await rig.store.ledger.hold(hold)
    await rig.store.ledger.settle(aSettle({ exchange: `req_${nth}` }))
  }
  rig.clock.ms += 1
  const idsWith = async (tag: string) => {
    const { body } = await alice.get<PageView<ReceiptView>>(`/api/receipts?tag=${encodeURIComponent(tag)}`)
    return body.items.map(({ id }) => id)
  }
  expect(await idsWith('team=search')).toEqual(['req_0'])
  expect(await idsWith('user=a=b')).toEqual(['req_0'])
  expect(await idsWith('team==ads')).toEqual(['req_1'])
  expect(await idsWith('team=sear')).toEqual([])
  expect(await idsWith('constructor=a')).toEqual([])
  expect((await alice.get<ReceiptView>('/api/receipts/req_2')).body.tags).toEqual({})
  const [header, ...rows] = readCsv((await alice.get('/api/entries.csv')).text)
  const charges = rows.filter(row => row[header!.indexOf('kind')] === 'charge')
  expect(charges.map(row => row[header!.indexOf('tags')]).sort()).toEqual([
    '',
    '{"team":"=ads"}',
    '{"team":"search","user":"a=b"}',
  ])
})

describe('usage', () => {
  test('equals the settled exchanges for any grouping and range', async () => {
    await using rig = await startRig()
    const people = [await rig.member('alice@example.com'), await rig.member('bob@example.com')]
    const done = await history(rig, people, { exchanges: counts(150, 5000), seed: 3 })
    const operator = await rig.operator()
    const random = seeded(4)
    for (let round = 0; round < counts(20, 300); round++) {
      const who = people[round % 2]!
      const days = 1 + Math.floor(random() * 20)
      const to = rig.clock.ms - Math.floor(random() * 15 * DAY)
      const from = to - days * DAY + Math.floor(random() * HOUR)
      const step = random() < 0.5 ? 'hour' : 'day'
      const by = (['none', 'key', 'model', 'both'] as const)[round % 4]!
      const query = `from=${iso(from)}&to=${iso(to)}&step=${step}&by=${by}`
      const { body } = await who.get<UsageView>(`/api/usage?${query}`)
      const span = step === 'hour' ? HOUR : DAY
      const range = { from: Math.floor(from / span) * span, to: Math.ceil(to / span) * span }
      expect([body.step, body.from, body.to]).toEqual([step, iso(range.from), iso(range.to)])
      const own = done.filter(({ accountId, at }) => accountId === who.accountId && at >= range.from && at < range.to)
      expect(body.rows, query).toEqual(oracle(own, span, by))
      expect(body.total, query).toEqual(sumOf(own))

      // The same for the operator, over all accounts.
      expect((await operator.get(`/api/operator/accounts/${who.accountId}/usage?${query}`)).body).toEqual(body)
      const ofAll = by === 'model' ? by : 'none'
      const { body: all } = await operator.get<UsageView>(
        `/api/operator/usage?${query.replace(/by=.*/, `by=${ofAll}`)}`,
      )
      const inRange = done.filter(({ at }) => at >= range.from && at < range.to)
      expect(all.rows).toEqual(oracle(inRange, span, ofAll))
      expect(all.total).toEqual(sumOf(inRange))
    }
  })

  test.each([
    ['', 'day', 30 * DAY],
    [`from=${iso(1_800_000_000_000 - 3 * DAY)}`, 'hour', 3 * DAY],
    [`from=${iso(1_800_000_000_000 - 3 * DAY - 1)}`, 'day', 3 * DAY],
    [`from=${iso(1_800_000_000_000 - 3 * DAY)}&step=day`, 'day', 3 * DAY],
    [`from=${iso(1_800_000_000_000 - 31 * DAY)}&step=hour`, 'hour', 31 * DAY],
    [`from=${iso(1_800_000_000_000 - 400 * DAY)}`, 'day', 400 * DAY],
  ])('"%s" is grouped by the %s', async (query, step, length) => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const { body } = await alice.get<UsageView>(`/api/usage?${query}`)
    expect(body.step).toBe(step)
    expect(body.rows).toEqual([])
    expect(body.total).toEqual(sumOf([]))
    const spans = (Date.parse(body.to) - Date.parse(body.from)) / (step === 'hour' ? HOUR : DAY)
    expect(Number.isInteger(spans)).toBe(true)
    expect(Date.parse(body.to)).toBeGreaterThanOrEqual(rig.clock.ms)
    expect(Date.parse(body.to) - Date.parse(body.from)).toBeLessThanOrEqual(length + 2 * DAY)
  })

  test('a UTC offset is accepted', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    const query = `from=${encodeURIComponent('2027-01-10T02:00:00+02:00')}&to=2027-01-12T00:00:00Z&step=day`
    expect((await alice.get<UsageView>(`/api/usage?${query}`)).body.from).toBe('2027-01-10T00:00:00.000Z')
  })
})

describe('files for spreadsheets', () => {
  const HOSTILE = ['=HYPERLINK("http://x.example","y")', '+1+1', '-2+3', '@SUM(A1)', 'a,b;"c"', "=cmd|'/C calc'!A0"]

  test('usage is the same as in JSON, and no name is a formula', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    for (const [index, name] of HOSTILE.entries()) {
      const keyId = await aKey(rig, alice, name)
      await exchange(rig, { accountId: alice.accountId, keyId, id: `req_${index}`, model: name, amount: 7n })
    }
    rig.clock.ms += 1
    const answer = await alice.get('/api/usage.csv?step=day')
    expect(answer.headers['content-disposition']).toBe(
      'attachment; filename="tollgate-usage-2026-12-16-2027-01-15.csv"',
    )
    const [header, ...rows] = readCsv(answer.text)
    const table = rows.map(row => Object.fromEntries(header!.map((name, column) => [name, row[column]])))
    const { body } = await alice.get<UsageView>('/api/usage?step=day&by=both')
    const names = new Map(rig.store.reads.listKeys(alice.accountId).map(({ id, name }) => [id, name]))
    expect(table).toEqual(
      body.rows.map(({ charged, ...row }) => ({
        ...Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])),
        model: harmless(row.model!),
        key: harmless(names.get(row.key_id!)!),
        charged_usd: charged,
      })),
    )
    expect(table).toHaveLength(HOSTILE.length)
    expectNoFormula(rows)
    const summed = readCsv((await alice.get('/api/usage.csv?step=day&by=none')).text)
    expect(summed[1]!.slice(0, 4)).toEqual(['2027-01-15T00:00:00.000Z', '', '', ''])
    expect(summed[1]!.at(-1)).toBe(formatMoney(7n * BigInt(HOSTILE.length)))
  })

  test('the ledger has every entry of the range, to the nano-dollar, and no note is a formula', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    await history(rig, [alice], { exchanges: 30, seed: 5 })
    for (const [index, note] of HOSTILE.entries()) {
      const grant = {
        account: alice.accountId,
        amount: index % 2 === 0 ? 1n : -1n,
        reference: `${note} ${index}`,
        actor: 'op@example.com',
        note,
      }
      await rig.store.credit(grant)
    }
    const all = await everything<EntryView>(alice, '/api/entries', 50)
    expect(all.filter(({ kind, amount }) => kind === 'credit' && amount.startsWith('-')).length).toBeGreaterThan(2)
    const [newest, oldest] = [Date.parse(all[0]!.at), Date.parse(all.at(-1)!.at)]
    for (const [from, to] of [
      [oldest, newest + 1],
      [oldest + 1, newest],
      [oldest + 5 * DAY, newest - 5 * DAY],
    ] as const) {
      const answer = await alice.get(`/api/entries.csv?from=${iso(from)}&to=${iso(to)}`)
      const [header, ...rows] = readCsv(answer.text)
      const wanted = all.filter(({ at }) => Date.parse(at) >= from && Date.parse(at) < to)
      expect(wanted.length).toBeGreaterThan(5)
      const column = (name: string) => rows.map(row => row[header!.indexOf(name)])
      expect(column('id')).toEqual(wanted.map(({ id }) => harmless(id)))
      expect(column('amount_usd')).toEqual(wanted.map(({ amount }) => amount))
      expect(column('at')).toEqual(wanted.map(({ at }) => at))
      expect(new Set(column('actor'))).toEqual(new Set(wanted.map(({ actor }) => actor ?? '')))
      expect(answer.text).not.toContain('op@example.com')
      expect(column('note')).toEqual(wanted.map(({ note }) => harmless(note ?? '')))
      expectNoFormula(rows)
    }
    rig.clock.ms += 1
    const recent = await alice.get('/api/entries.csv')
    expect(recent.headers['content-disposition']).toMatch(/^attachment; filename="tollgate-ledger-[\d-]+\.csv"$/)
  })

  testWith(onlyFull('ledger'), 'a ledger that is too long for a file is refused', async () => {
    await using rig = await startRig()
    const alice = await rig.member('alice@example.com')
    for (let index = 0; index < 50_000; index++) {
      const grant = { account: alice.accountId, amount: 1n, reference: `r${index}`, actor: 'test' }
      if (index % 500 === 0) await rig.store.credit(grant)
      else void rig.store.credit(grant)
    }
    await rig.store.credit({ account: alice.accountId, amount: 1n, reference: 'last', actor: 'test' })
    rig.clock.ms += 1
    const answer = await alice.get('/api/entries.csv')
    expect(answer.status).toBe(400)
    expect(answer.text).toContain('more than 50000 requests and credits')
  })
})

interface SettledExchange {
  readonly id: string
  readonly accountId: string
  readonly keyId: string
  readonly model: string
  readonly at: number
  readonly outcome: Outcome
  readonly amount: bigint
  readonly tokens: readonly [prompt: number, cached: number, completion: number, reasoning: number]
}

/** Exchanges of the last 20 days, in order of time, with two keys per person and three models. */
async function history(
  rig: Rig,
  people: readonly SignedIn[],
  { exchanges, seed }: { readonly exchanges: number; readonly seed: number },
): Promise<SettledExchange[]> {
  const random = seeded(seed)
  const pick = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)]!
  const keys = new Map<SignedIn, string[]>()
  for (const who of people) keys.set(who, [await aKey(rig, who, 'one'), await aKey(rig, who, 'two')])
  const times = Array.from({ length: exchanges }, () => rig.clock.ms + Math.floor(random() * 20 * DAY)).sort()
  const done: SettledExchange[] = []
  for (const [index, at] of times.entries()) {
    const who = pick(people)
    const cached = Math.floor(random() * 100)
    const reasoning = Math.floor(random() * 100)
    rig.clock.ms = at
    done.push(
      await exchange(rig, {
        id: `req_${index}`,
        accountId: who.accountId,
        keyId: pick(keys.get(who)!),
        model: pick(['m', 'maker/large', 'free']),
        outcome: pick<Outcome>(['answered', 'answered', 'answered', 'failed', 'client_left', 'cut', 'refused']),
        amount: BigInt(Math.floor(random() * 1e6)),
        tokens: [cached + Math.floor(random() * 100), cached, reasoning + Math.floor(random() * 100), reasoning],
      }),
    )
  }
  rig.clock.ms += 1
  // Their sessions have expired by now.
  for (const who of people) who.cookie = await rig.store.people.createSession(who.person.id)
  return done
}

async function exchange(
  rig: Rig,
  {
    id,
    accountId,
    keyId,
    model = 'm',
    outcome = 'answered',
    amount = 40n,
    tokens = [10, 4, 20, 5],
  }: Partial<SettledExchange> & Pick<SettledExchange, 'id' | 'accountId' | 'keyId'>,
): Promise<SettledExchange> {
  const [input, cached_input, output, reasoning] = tokens
  await rig.store.ledger.hold(aHold({ exchange: id, accountId, keyId, model, amount: amount + 100n }))
  await rig.store.ledger.settle(
    aSettle({ exchange: id, amount, outcome, usage: { input, cached_input, output, reasoning } }),
  )
  return { id, accountId, keyId, model, outcome, amount, tokens, at: rig.clock.ms }
}

async function aKey({ store }: Rig, { accountId }: SignedIn, name: string): Promise<string> {
  const { key } = await store.createKey({ account: accountId, name })
  return key.id
}

/** The items of all pages. */
async function everything<Item>(who: SignedIn, path: string, limit: number): Promise<Item[]> {
  const items: Item[] = []
  for (let after = ''; ; ) {
    const query = `${path.includes('?') ? '&' : '?'}limit=${limit}${after}`
    const { body } = await who.get<PageView<Item>>(path + query)
    items.push(...body.items)
    expect(body.items.length).toBeLessThanOrEqual(limit)
    if (body.next === null) return items
    after = `&after=${encodeURIComponent(body.next)}`
  }
}

/** Filters all exchanges for each row: slow, but independent of the implementation. */
function oracle(done: readonly SettledExchange[], span: number, by: By): object[] {
  const groups = new Map<string, SettledExchange[]>()
  for (const each of done) {
    const at = Math.floor(each.at / span) * span
    const keyId = by === 'key' || by === 'both' ? each.keyId : ''
    const model = by === 'model' || by === 'both' ? each.model : ''
    const name = [at, keyId, model].join('\n')
    groups.set(name, [...(groups.get(name) ?? []), each])
  }
  const names = [...groups.keys()].sort((a, b) => compare(a.split('\n'), b.split('\n')))
  return names.map(name => {
    const [at, keyId, model] = name.split('\n')
    return { at: iso(Number(at)), key_id: keyId || null, model: model || null, ...sumOf(groups.get(name)!) }
  })
}

function compare(a: readonly string[], b: readonly string[]): number {
  const index = a.findIndex((part, at) => part !== b[at])
  return index < 0 ? 0 : a[index]! < b[index]! ? -1 : 1
}

function sumOf(done: readonly SettledExchange[]): object {
  const sum = (column: number) => done.reduce((total, { tokens }) => total + tokens[column]!, 0)
  return {
    requests: done.length,
    failed: done.filter(({ outcome }) => outcome !== 'answered').length,
    prompt_tokens: sum(0),
    cached_tokens: sum(1),
    completion_tokens: sum(2),
    reasoning_tokens: sum(3),
    charged: formatMoney(done.reduce((total, { amount }) => total + amount, 0n)),
  }
}

function harmless(text: string): string {
  return /^[=+\-@]/.test(text) ? `'${text}` : text
}

function expectNoFormula(rows: readonly (readonly string[])[]): void {
  for (const cell of rows.flat()) expect(cell).toMatch(/^(?![=+\-@])|^-\d+\.\d{9}$/)
}

function nano(text: string): bigint {
  return text.startsWith('-') ? -parseMoney(text.slice(1)) : parseMoney(text)
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
