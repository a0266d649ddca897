/** `tollgate account budget` and `tollgate key budget`, on a real database. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { makePlace, type Place } from './helpers.ts'

let place: Place

beforeEach(() => {
  place = makePlace()
})
afterEach(() => place.remove())

test.each<[options: string, sentence: string]>([
  ['--amount 5', '--amount needs --every: hour, day, week, month, life'],
  ['--every day', '--every needs --amount or --remove'],
  ['--remove', '--remove needs --every, the period of the budget'],
  ['--every day --zone UTC', '--zone needs --amount, the limit of the budget'],
  ['--every day --then m', '--then needs --amount'],
  ['--every day --amount 5 --remove', "option '--remove' cannot be used with option '--amount <dollars>'"],
  ['--every year --amount 5', "argument 'year' is invalid. Allowed choices are hour, day, week, month, life."],
  ['--every day --amount 0', 'It must be more than $0.'],
  ['--every day --amount 5 --zone Mars', 'It must be a time zone such as Europe/Berlin or UTC, not "Mars".'],
  ['--every day --amount 5 --at 80', 'It must be a percentage from 1% to 100%, not "80".'],
])('%s: %s', async (options, sentence) => {
  await place.json('account.create', 'acme')
  const { code, out, err } = await place.tollgate(['account', 'budget', 'acme', ...options.split(' ')])
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toContain(sentence)
  expect((await place.json('account.budget', 'acme')).budgets).toEqual([])
})

test('a budget is set, listed, changed and removed, and appears in lists of accounts and keys', async () => {
  await place.json('account.create', 'acme')
  const { key } = await place.json('key.create', '--account', 'acme', '--name', 'app')
  await place.json('key.create', '--account', 'acme', '--name', 'job')
  const run = async (...args: string[]) => (await place.tollgate(args)).out
  expect(await run('key', 'list')).not.toContain('BUDGETS')
  expect(await run('account', 'budget', 'acme')).toBe(
    'No budgets. Set one: tollgate account budget acme --every month --amount 100\n',
  )
  const life = ['--every', 'life', '--amount', '99.000000001', '--zone', 'Europe/Berlin', '--at', '50%,80%']
  const set = await run('account', 'budget', 'acme', ...life)
  expect(set).toMatch(/^BUDGET +OF +AMOUNT +SPENT +HELD +LEFT +RESETS +THEN\n/)
  expect(set).toMatch(/\naccount life +account +\$99\.000000001 +\$0 +\$0 +\$99\.000000001 +never +refuse\n$/)
  const month = ['--every', 'month', '--amount', '5', '--zone', 'Asia/Tokyo']
  const ofKey = await run('key', 'budget', key.id, ...month)
  expect(ofKey).toMatch(new RegExp(`key month +key app \\(${key.id}\\) .* \\d{4}-\\d\\d-01 00:00 Asia/Tokyo +refuse`))
  expect(await run('account', 'show', 'acme')).toMatch(/\naccount life .*\nkey month .*\n\nKEY +NAME/s)
  const rows = (await run('key', 'list')).split('\n')
  expect(rows[0]).toContain(' BUDGETS ')
  expect(rows.find(line => line.includes(' app '))).toContain(' $5 month ')
  expect(rows.find(line => line.includes(' job '))).toContain(' none ')

  const odd = await place.tollgate(['account', 'budget', 'acme', '--after', 'x'])
  expect(odd).toMatchObject({ code: 1, out: '' })
  expect(odd.err).toContain('Use `next` of a page unchanged')
  const { budgets } = await place.json('account.budget', 'acme', '--every', 'life', '--amount', '7')
  expect(budgets[0]).toMatchObject({
    amount: '7.000000000',
    zone: 'Europe/Berlin',
    at: ['50%', '80%'],
    resets_at: null,
  })
  const wrong = await place.tollgate(['account', 'budget', 'acme', '--every', 'day', '--remove'])
  expect(wrong).toMatchObject({ code: 1, out: '' })
  expect(wrong.err).toContain('the account acme has no budget for "day"; it has: life')
  expect((await place.json('account.budget', 'acme', '--every', 'life', '--remove')).budgets).toHaveLength(1)
  expect((await place.json('key.budget', key.id, '--every', 'month', '--remove')).budgets).toEqual([])
})
