/** Each planted fault has its place in the source. The runs that plant them take long and are rare. */
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
