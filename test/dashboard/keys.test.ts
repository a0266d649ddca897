/** The page's checks and hints of keys, passwords and credit. */
import { expect, test } from 'vitest'
import type { KeyView, UsageRowView } from '../../src/api/views.ts'
import { capOf, changeOf, endingSoon, expiryOf, inOrder } from '../../src/dashboard/lib/keys.ts'
import { emailError, passwordError, passwordHint } from '../../src/dashboard/lib/password.ts'
import { curlSnippet, nodeSnippet, pythonSnippet } from '../../src/dashboard/lib/snippets.ts'
import { lookBack, spentIn, supplyOf } from '../../src/dashboard/lib/spending.ts'

const NOW = Date.parse('2026-11-21T12:00:00.000Z')
const DAY = 86_400_000

test.each([
  ['date', '', 'Choose the last day'],
  ['date', '21.11.2026', 'Choose the last day'],
  ['date', '2026-11-19', 'This day is in the past'],
])('an invalid expiry: %s %s', (choice, day, words) => {
  expect(expiryOf({ choice, day }, NOW)).toEqual({ error: expect.stringContaining(words) })
})

test('a chosen expiry', () => {
  expect(expiryOf({ choice: 'never', day: '' }, NOW)).toEqual({ at: null })
  expect(expiryOf({ choice: '30', day: '' }, NOW)).toEqual({ at: '2026-12-21T12:00:00.000Z' })
  // The whole day counts, wherever the reader is.
  const end = expiryOf({ choice: 'date', day: '2027-01-31' }, NOW)
  expect(end).toEqual({ at: new Date(2027, 0, 31, 23, 59, 59).toISOString() })
})

const KEY = { name: 'ci', models: ['a', 'b'], spending_cap: '2.000000000' }
const SAME = {
  name: 'ci',
  expires_at: { choice: 'keep', day: '' },
  models: { some: true, ids: ['b', 'a'] },
  spending_cap: '2',
}

test.each([
  ['nothing', {}, {}],
  ['the name', { name: ' nightly ' }, { name: 'nightly' }],
  ['the models', { models: { some: true, ids: ['a'] } }, { models: ['a'] }],
  ['every model', { models: { some: false, ids: ['a', 'b'] } }, { models: null }],
  ['the expiry', { expires_at: { choice: '30', day: '' } }, { expires_at: '2026-12-21T12:00:00.000Z' }],
  ['no expiry', { expires_at: { choice: 'never', day: '' } }, { expires_at: null }],
  ['the cap', { spending_cap: '25.5' }, { spending_cap: '25.500000000' }],
  ['no cap', { spending_cap: '' }, { spending_cap: null }],
])('a key is changed: %s', (_, draft, body) => {
  expect(changeOf(KEY, { ...SAME, ...draft }, NOW)).toEqual({ body })
})

test('a key is not changed while a field is invalid', () => {
  const draft = {
    name: ' ',
    expires_at: { choice: 'date', day: '' },
    models: { some: true, ids: [] },
    spending_cap: 'ten',
  }
  const words = expect.any(String)
  expect(changeOf(KEY, draft, NOW)).toEqual({
    wrong: { name: words, expires_at: words, models: words, spending_cap: words },
  })
})

test.each([
  ['ten', { error: expect.stringContaining('in dollars') }],
  ['0', { error: expect.stringContaining('more than $0') }],
  ['0.00', { error: expect.stringContaining('more than $0') }],
  ['', { cap: null }],
  ['  ', { cap: null }],
  ['2.50', { cap: '2.500000000' }],
])('a typed cap: %o', (typed, expected) => {
  expect(capOf(typed)).toEqual(expected)
})

const key = (name: string, given: Partial<KeyView>): KeyView => ({
  id: name,
  account_id: 'acc',
  name,
  models: null,
  created_at: '2026-01-01T00:00:00.000Z',
  expires_at: null,
  revoked_at: null,
  last_used_at: null,
  spending_cap: null,
  spent: '0.000000000',
  purpose: null,
  state: 'live',
  secrets: [],
  ...given,
})
const inDays = (days: number): string => new Date(NOW + days * DAY).toISOString()

test('only live keys that expire within two weeks get a warning, the first to expire first', () => {
  const keys = [
    key('never', {}),
    key('later', { expires_at: inDays(14) }),
    key('soon', { expires_at: inDays(13) }),
    key('sooner', { expires_at: inDays(1) }),
    key('revoked', { expires_at: inDays(1), state: 'revoked' }),
    key('over', { expires_at: inDays(-1), state: 'expired' }),
  ]
  expect(endingSoon(keys, NOW).map(({ name }) => name)).toEqual(['sooner', 'soon'])
})

test('live keys come first, then the newest', () => {
  const keys = [
    key('old', {}),
    key('revoked', { state: 'revoked', created_at: inDays(0) }),
    key('new', { created_at: inDays(-1) }),
  ]
  expect(inOrder(keys).map(({ name }) => name)).toEqual(['new', 'old', 'revoked'])
})

test.each([
  ['', 'Enter a password'],
  ['7777777', 'at least 8'],
  ['x'.repeat(129), 'at most 128'],
  // One character, two units of UTF-16.
  ['\u{1F511}'.repeat(7), 'this has 7'],
])('an invalid password: %o', (password, words) => {
  expect(passwordError(password)).toContain(words)
})

test('valid passwords and addresses', () => {
  expect(passwordError('8 signs!')).toBeUndefined()
  expect(passwordError('x'.repeat(128))).toBeUndefined()
  expect(passwordHint('seven77')).toBe('1 more needed.')
  expect(passwordHint('x'.repeat(16))).toContain('very good')
  expect(emailError(' rosa@example.com ')).toBeUndefined()
  for (const wrong of ['rosa', 'rosa@', '@example.com', 'ro sa@example.com', ''])
    expect(emailError(wrong)).toBeDefined()
})

test('a code sample quotes any model name', () => {
  const parts = { baseUrl: 'http://127.0.0.1:8080/v1', model: `it's "odd" $HOME`, key: 'tg_live_x' }
  expect(curlSnippet(parts)).toContain(`"model":"it'\\''s \\"odd\\" $HOME"`)
  expect(curlSnippet(parts)).toContain("-H 'authorization: Bearer tg_live_x'")
  expect(nodeSnippet(parts)).toContain(`model: "it's \\"odd\\" $HOME"`)
  expect(pythonSnippet(parts)).toContain(`model="it's \\"odd\\" $HOME"`)
  expect(curlSnippet({ ...parts, key: undefined })).toContain('YOUR_KEY')
})

const used = (at: string, charged: string): UsageRowView => ({
  at,
  key_id: null,
  model: null,
  requests: 1,
  failed: 0,
  prompt_tokens: 0,
  cached_tokens: 0,
  completion_tokens: 0,
  reasoning_tokens: 0,
  charged,
})

test('recent spending is counted in whole UTC days', () => {
  const rows = [
    used('2026-11-14T00:00:00.000Z', '100.000000000'),
    used('2026-11-15T00:00:00.000Z', '10.000000000'),
    used('2026-11-20T00:00:00.000Z', '1.000000000'),
    used('2026-11-21T00:00:00.000Z', '0.000000001'),
  ]
  expect(spentIn(1, rows, NOW)).toBe('0.000000001')
  expect(spentIn(2, rows, NOW)).toBe('1.000000001')
  expect(spentIn(7, rows, NOW)).toBe('11.000000001')
  expect(spentIn(30, [], NOW)).toBe('0.000000000')
  expect(lookBack(NOW)).toEqual({ from: '2026-10-23T00:00:00.000Z', to: '2026-11-22T00:00:00.000Z' })
})

test.each([
  ['0.000000000', '0.000000000', { state: 'none' }],
  ['-0.000000001', '7.000000000', { state: 'none' }],
  ['0.500000000', '7.000000000', { state: 'low', days: 0 }],
  ['2.999999999', '7.000000000', { state: 'low', days: 2 }],
  ['3.000000000', '7.000000000', { state: 'enough' }],
  ['0.000000001', '0.000000000', { state: 'enough' }],
])('%s left after a week of %s', (available, week, expected) => {
  expect(supplyOf(available, week)).toEqual(expected)
})
