/** The page for each address, and the allowed addresses after signing in. */
import { expect, test } from 'vitest'
import { match, placeAfter } from '../../src/dashboard/lib/paths.ts'

const ROUTES = ['/', '/keys', '/receipts', '/receipts/:id', '/operator/accounts/:id'].map(path => ({
  path,
  page: path,
}))

test.each([
  ['/nowhere', null, null],
  ['/keys/k', null, null],
  ['/receipts/', null, null],
  ['/receipts/%E0%A4%A', null, null],
  ['/Keys', null, null],
  ['/', '/', {}],
  ['/keys', '/keys', {}],
  ['/receipts/exc_1', '/receipts/:id', { id: 'exc_1' }],
  ['/receipts/a%2Fb', '/receipts/:id', { id: 'a/b' }],
  ['/operator/accounts/acc_1', '/operator/accounts/:id', { id: 'acc_1' }],
])('%s', (path, page, params) => {
  const found = match(ROUTES, path)
  expect(found?.route.page ?? null).toBe(page)
  expect(found?.params ?? null).toEqual(params)
})

test.each([
  [null, '/'],
  ['', '/'],
  ['keys', '/'],
  ['https://elsewhere.example/', '/'],
  ['//elsewhere.example/keys', '/'],
  ['/\\elsewhere.example/keys', '/'],
  ['/\t/elsewhere.example', '/'],
  ['javascript:alert(1)', '/'],
  ['/keys', '/keys'],
  ['/receipts?model=m&outcome=cut', '/receipts?model=m&outcome=cut'],
  ['/a/../keys', '/keys'],
])('after signing in, %o leads to %s', (wanted, expected) => {
  expect(placeAfter(wanted)).toBe(expected)
})
