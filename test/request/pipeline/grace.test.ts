import { expect, test } from 'vitest'
import { type GraceEntry, graceClock } from '../../../src/request/pipeline/grace.ts'
import { until } from '../../helpers/until.ts'

test('an idle grace clock is dropped', async () => {
  const clock = graceClock(8)
  const entry: GraceEntry = { graceNode: null, graceSince: 0, giveUp() {} }
  clock.add(entry)
  expect(graceClock(8)).toBe(clock)
  clock.delete(entry)
  await until(() => expect(graceClock(8)).not.toBe(clock))
})
