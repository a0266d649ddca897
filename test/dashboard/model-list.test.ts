/** The list of models: filters and orders. */
import { expect, test } from 'vitest'
import { parseMoney, plainPrice } from '#contract'
import { showModelToOperators } from '../../src/api/model-costs.ts'
import { showModel } from '../../src/api/show.ts'
import { filterModels, groupsOf, type ListQuery, rowsOf } from '../../src/dashboard/lib/model-list.ts'
import { aModel } from '../api/rig.ts'

const price = (input: string, output: string) => plainPrice({ input: parseMoney(input), output: parseMoney(output) })
const target = (cost: ReturnType<typeof price> | null) => ({ targets: [{ id: 'p/m', cost } as never] })
const MODELS = [
  aModel('maker/big', { wildcard: 'maker/*', price: price('10', '20'), context: 1000, ...target(price('10', '20')) }),
  aModel('maker/small', { wildcard: 'maker/*', price: price('9', '30'), context: 3000, ...target(price('8', '29')) }),
  aModel('own', { description: 'For SMALL questions.', ownedBy: 'acme', price: null, ...target(null) }),
  aModel('loss', { price: price('1', '2'), context: 2000, ...target(price('1', '4')) }),
]
const aliases = (id: string): string[] => (id === 'own' ? ['other name'] : [])
const MEMBER = rowsOf(MODELS.map(model => showModel(model, aliases(model.id))))
const OPERATOR = rowsOf(MODELS.map(model => showModelToOperators(model, aliases(model.id))))

test.each<[name: string, wanted: Partial<ListQuery>, ids: string[]]>([
  ['all, as listed', {}, ['maker/big', 'maker/small', 'own', 'loss']],
  ['a word of the id or the description', { search: 'small' }, ['maker/small', 'own']],
  ['all of several words', { search: 'SMALL maker' }, ['maker/small']],
  ['another name', { search: 'other' }, ['own']],
  ['the owner', { search: 'acme' }, ['own']],
  ['nothing', { search: 'neither' }, []],
  ['a wildcard', { group: 'maker/*' }, ['maker/big', 'maker/small']],
  ['the others', { group: 'others' }, ['own', 'loss']],
  ['by name', { sort: 'name' }, ['loss', 'maker/big', 'maker/small', 'own']],
  ['by input price', { sort: 'input' }, ['own', 'loss', 'maker/small', 'maker/big']],
  ['by output price', { sort: 'output' }, ['own', 'loss', 'maker/big', 'maker/small']],
  ['by context', { sort: 'context' }, ['own', 'maker/small', 'loss', 'maker/big']],
  ['by margin', { sort: 'margin' }, ['loss', 'maker/big', 'maker/small', 'own']],
  ['an unknown order', { sort: 'toString' }, ['maker/big', 'maker/small', 'own', 'loss']],
])('%s', (_, wanted, ids) => {
  const all = { search: '', group: '', sort: '', ...wanted }
  expect(filterModels(OPERATOR, all).map(({ id }) => id)).toEqual(ids)
  // Members have no margins to sort by.
  expect(filterModels(MEMBER, all).map(({ id }) => id)).toEqual(
    wanted.sort === 'margin' ? MODELS.map(({ id }) => id) : ids,
  )
})

test('a model without a price has the smallest margin', () => {
  const gift = showModelToOperators(aModel('gift', { price: null, ...target(price('1', '0')) }), [])
  const rows = [...OPERATOR, ...rowsOf([gift])]
  expect(filterModels(rows, { search: '', group: '', sort: 'margin' })[0]!.id).toBe('gift')
})

test('groups are the wildcards, if there are any', () => {
  expect(groupsOf(MEMBER)).toEqual([
    ['maker/*', 2],
    ['others', 2],
  ])
  expect(groupsOf(MEMBER.slice(2))).toEqual([])
})
