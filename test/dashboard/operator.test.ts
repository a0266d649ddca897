/** The computations of the operator pages: amounts, references, listings, texts for health, addresses. */
import { describe, expect, test } from 'vitest'
import type { ProblemView, ProviderView, TargetHealthView } from '../../src/api/views.ts'
import { parseMoney } from '../../src/contract/quantities.ts'
import { search } from '../../src/dashboard/lib/api.ts'
import { requestIn } from '../../src/dashboard/lib/request.ts'
import {
  availableAfter,
  creditCommand,
  isTaken,
  readAmount,
  readChange,
  suggestReference,
} from '../../src/dashboard/pages/operator/credit.ts'
import {
  credentialWords,
  failureWords,
  providerWords,
  STATES,
  sentence,
} from '../../src/dashboard/pages/operator/health.ts'
import { adminAddress, listingsOf, placeOf } from '../../src/dashboard/pages/operator/listing.ts'
import { accountsQuery, filtersOf, isFiltered } from '../../src/dashboard/pages/operator/queries.ts'

describe('an amount of credit', () => {
  test.each([
    ['', /amount of dollars/],
    ['   ', /amount of dollars/],
    ['0', /above zero/],
    ['$0.000000000', /above zero/],
    ['-5', /above zero/],
    ['12,50', /amount of dollars/],
    ['1.0000000001', /amount of dollars/],
    ['1234567890', /at most 999,999,999/],
    ['1e3', /amount of dollars/],
    ['12.', /amount of dollars/],
    ['.5', /amount of dollars/],
    ['€5', /amount of dollars/],
    ['5 dollars', /amount of dollars/],
    ['٣', /amount of dollars/],
  ])('%j is refused', (typed, sentence) => {
    const answer = readAmount(typed)
    expect(answer).toHaveProperty('problem')
    expect((answer as { problem: string }).problem).toMatch(sentence)
  })

  test.each([
    ['25', '25.000000000'],
    [' $12.50 ', '12.500000000'],
    ['$ 3', '3.000000000'],
    ['1,250.50', '1250.500000000'],
    ['007', '7.000000000'],
    ['0.000000001', '0.000000001'],
    ['999999999.999999999', '999999999.999999999'],
  ])('%j is %s, exactly, and the gateway reads the same', (typed, amount) => {
    expect(readAmount(typed)).toEqual({ amount })
    expect(parseMoney(amount)).toBe(BigInt(amount.replace('.', '')))
  })
})

describe('a change of credit', () => {
  test.each([
    ['25', '25.000000000', '35.000000000'],
    ['-5', '-5.000000000', '5.000000000'],
    [' \u2212 $1,000.50 ', '-1000.500000000', '-990.500000000'],
    ['$-10', '-10.000000000', '0.000000000'],
  ])('%j is %s, and leaves %s of 10', (typed, amount, after) => {
    expect(readChange(typed)).toEqual({ amount })
    expect(isTaken(typed)).toBe(amount.startsWith('-'))
    expect(availableAfter({ available: '10.000000000' }, typed)).toBe(after)
  })

  test.each(['', '-', '--5', '-0', '-1e3', '-1234567890'])('%j is refused', typed => {
    expect(readChange(typed)).toHaveProperty('problem')
    expect(isTaken(typed)).toBe(false)
    expect(availableAfter({ available: '10.000000000' }, typed)).toBeNull()
  })
})

describe('a suggested reference', () => {
  const day = new Date('2026-03-04T23:59:59.999Z')

  test('names the day and ends in random letters', () => {
    expect(suggestReference(day, new Uint8Array([0, 1, 2, 3, 4, 5]))).toBe('manual-2026-03-04-abcdef')
    expect(suggestReference(day, new Uint8Array([5, 4, 3, 2, 1, 0]))).toBe('manual-2026-03-04-fedcba')
  })

  test('has no letters that look like others, for any bytes', () => {
    const all = suggestReference(
      day,
      Uint8Array.from({ length: 256 }, (_, index) => index),
    )
    expect(all.slice('manual-2026-03-04-'.length)).toMatch(/^[a-hjkmnp-z2-9]{256}$/)
  })
})

describe('the command that grants credit', () => {
  test('names the listener, the account and a token from the environment', () => {
    const command = creditCommand('http://127.0.0.1:9', 'acct_1')
    expect(command).toContain('http://127.0.0.1:9/api/operator/accounts/acct_1/credit')
    expect(command).toContain('Bearer $TOLLGATE_OPERATOR_TOKEN')
    const body = /-d '(.*)'/.exec(command)?.[1] ?? ''
    expect(Object.keys(JSON.parse(body))).toEqual(['amount', 'reference', 'note'])
    expect(readAmount(JSON.parse(body).amount)).toHaveProperty('amount')
  })

  test('has placeholders for unknown values', () => {
    expect(creditCommand(null)).toContain('http://ADMIN_ADDRESS/api/operator/accounts/ACCOUNT_ID/credit')
  })
})

describe('the address of the admin listener', () => {
  test.each([
    ['version: 1\n', null],
    ['# admin: 127.0.0.1:8082\n', null],
    ['admin: ${ADMIN}\n', null],
    ['  admin: 127.0.0.1:1\n', null],
    ['administrator: 127.0.0.1:1\n', null],
    ['admin:\n  x: 1\n', null],
    ['version: 1\nadmin: 127.0.0.1:8082 # machines\n', 'http://127.0.0.1:8082'],
    ['admin: "[::1]:8082"\n', 'http://[::1]:8082'],
    ["admin: 'localhost:1'", 'http://localhost:1'],
  ])('of %j is %s', (text, address) => {
    expect(adminAddress([{ text }])).toBe(address)
  })

  test('is found in the second file', () => {
    expect(adminAddress([{ text: 'steps: []\n' }, { text: 'admin: 127.0.0.1:5\n' }])).toBe('http://127.0.0.1:5')
  })
})

describe('a listing', () => {
  const problem = (fields: Partial<ProblemView>): ProblemView => ({
    file: 'gateway.yaml',
    line: 1,
    column: 1,
    message: 'wrong',
    suggestion: null,
    ...fields,
  })
  const file = { path: 'gateway.yaml', text: 'version: 1\r\nlisten: x\n\nend: 1\n', changed: false }

  test('has no extra line for the final line break', () => {
    const [listing] = listingsOf([file], [])
    expect(listing?.lines.map(line => line.text)).toEqual(['version: 1', 'listen: x', '', 'end: 1'])
    expect(listing?.lines.map(line => line.number)).toEqual([1, 2, 3, 4])
  })

  test('of an empty text has one empty line', () => {
    expect(listingsOf([{ ...file, text: '' }], [])[0]?.lines).toHaveLength(1)
  })

  test('marks problems at their lines, two at one line too', () => {
    const problems = [problem({ line: 2 }), problem({ line: 2, column: 4 }), problem({ line: 4 })]
    const [listing] = listingsOf([file], problems)
    expect(listing?.lines.map(line => line.problems.length)).toEqual([0, 2, 0, 1])
    expect(listing?.beyond).toEqual([])
  })

  test.each([
    ['a line past the end', { line: 5 }, file],
    ['no line', { line: 0 }, file],
    ['a line past the end of the text that runs', { line: 9 }, { ...file, changed: true }],
  ])('loses no problem of %s', (_what, fields, of) => {
    const [listing] = listingsOf([of], [problem(fields)])
    expect(listing?.lines.flatMap(line => line.problems)).toEqual([])
    expect(listing?.beyond).toHaveLength(1)
  })

  test.each([
    ['./gateway.yaml', true],
    ['/etc/tollgate/gateway.yaml', true],
    ['policies/gateway.yaml.bak', false],
    ['other-gateway.yaml', false],
    ['policies/standard.yaml', false],
  ])('takes a problem of %s: %s', (path, isOwn) => {
    const [listing] = listingsOf([file], [problem({ file: path })])
    expect(listing?.lines[0]?.problems.length).toBe(isOwn ? 1 : 0)
  })

  test('writes places as editors expect them', () => {
    expect(placeOf(problem({ line: 12, column: 5 }))).toBe('gateway.yaml:12:5')
    expect(placeOf(problem({ line: 0, column: 0 }))).toBe('gateway.yaml')
  })
})

describe("a provider's health", () => {
  const target = (state: TargetHealthView['state']): TargetHealthView => ({
    target: 'p/m',
    models: ['m'],
    state,
    until: null,
    inflight: 0,
    failures_in_a_row: 0,
    attempts: 0,
    failed: 0,
    latency_ms: null,
  })
  const provider = (states: TargetHealthView['state'][], total = 1, good = total): ProviderView => ({
    name: 'p',
    dialect: 'openai',
    base_url: null,
    credentials: { total, good, refused: 0 },
    targets: states.map(target),
  })

  test.each<[string, ProviderView, string, string]>([
    ['no good credential', provider(['well'], 2, 0), 'No credential', 'bad'],
    ['all targets ejected', provider(['ejected', 'ejected']), 'Failing', 'bad'],
    ['one of two ejected', provider(['ejected', 'well']), 'Degraded', 'warn'],
    ['a limited one', provider(['limited']), 'Degraded', 'warn'],
    ['one on trial', provider(['half_open']), 'Degraded', 'warn'],
    ['a bad credential of two', provider(['well'], 2, 1), 'Degraded', 'warn'],
    ['all well', provider(['well', 'well']), 'Healthy', 'good'],
    ['no credential needed', provider(['well'], 0), 'Healthy', 'good'],
    ['no targets', provider([]), 'Healthy', 'good'],
  ])('with %s', (_what, of, label, tone) => {
    expect(providerWords(of)).toMatchObject({ label, tone })
  })

  test('every state has its own word and sentence', () => {
    expect(new Set(Object.values(STATES).map(state => state.label)).size).toBe(4)
    for (const { meaning } of Object.values(STATES)) expect(meaning).toMatch(/\.$/)
  })

  test.each([
    [{ attempts: 0, failed: 0 }, 'no attempts'],
    [{ attempts: 7, failed: 0 }, 'none of 7'],
    [{ attempts: 40, failed: 2 }, '2 of 40 (5%)'],
    [{ attempts: 1000, failed: 1 }, '1 of 1000 (1%)'],
    [{ attempts: 3, failed: 3 }, '3 of 3 (100%)'],
  ])('failures of %o are %j', (figures, words) => {
    expect(failureWords(figures)).toBe(words)
  })

  test.each([
    [{ total: 0, good: 0 }, 'none needed'],
    [{ total: 2, good: 2 }, '2 good'],
    [{ total: 2, good: 1 }, '1 of 2 good'],
  ])('credentials %o are %j', (figures, words) => {
    expect(credentialWords({ ...figures, refused: 0 })).toBe(words)
  })
})

test.each([
  ['the ledger cannot be written', 'The ledger cannot be written.'],
  ['It is late.', 'It is late.'],
])('the reason %j becomes %j', (reason, words) => {
  expect(sentence(reason)).toBe(words)
})

describe("the filters of the accounts' list", () => {
  const NONE = { search: '', plan: '', state: '' } as const

  test.each([
    ['', NONE],
    ['state=nonsense&other=1', NONE],
    ['search=a+%26+b&plan=free&state=frozen', { search: 'a & b', plan: 'free', state: 'frozen' }],
    ['state=active', { ...NONE, state: 'active' }],
  ])('of %j are %o', (address, filters) => {
    expect(filtersOf(new URLSearchParams(address))).toEqual(filters)
  })

  test.each([
    [NONE, '', false],
    [{ ...NONE, search: '   ' }, '', false],
    [{ ...NONE, search: ' a&b=c ' }, '?search=a%26b%3Dc', true],
    [{ ...NONE, plan: 'free' }, '?plan=free', true],
    [{ ...NONE, state: 'frozen' }, '?frozen=true', true],
    [{ ...NONE, state: 'active' }, '?frozen=false', true],
  ] as const)('%o are asked as %j', (filters, query, filtered) => {
    expect(search(accountsQuery(filters))).toBe(query)
    expect(isFiltered(filters)).toBe(filtered)
  })

  test.each([
    ['', null],
    ['acme', null],
    ['acc_01M7YS3B8C0000BZY23HQ212HA', null],
    ['my req_01M7', null],
    ['req_01M7/../x', null],
    ['REQ_01M7', null],
    ['req_', 'req_'],
    [' req_01M7YS3KDA000PSY97PWZHW8X9\n', 'req_01M7YS3KDA000PSY97PWZHW8X9'],
  ])('the request in %j is %j', (typed, id) => {
    expect(requestIn(typed)).toBe(id)
  })
})
