/** The source still has the text that each planted fault changes. The runs that plant faults are slow and rare, so this test runs often. */
import { expect, test } from 'vitest'
import { read } from '../helpers/repository.ts'
import { apply } from '../simulation/plant.ts'
import { PLANTED, PLANTED_IN_POSTGRES } from '../simulation/planted.ts'
import { PLANTS } from './list.ts'

const CHANGES = [...PLANTED, ...PLANTED_IN_POSTGRES, ...PLANTS].flatMap(({ changes }) => changes)

test.each(CHANGES)('$file: $old', change => {
  const source = read(change.file)
  expect(apply(source, change)).not.toBe(source)
})
