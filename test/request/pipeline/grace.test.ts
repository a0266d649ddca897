/** The clocks of those who wait for steps. */
import { expect, test } from 'vitest'
import { graceClock, type Patient } from '../../../src/request/pipeline/grace.ts'
import { until } from '../../helpers/until.ts'

test('an idle clock is forgotten', async () => {
  const clock = graceClock(8)
  const patient: Patient = { graceLink: null, graceSince: 0, giveUp() {} }
  clock.add(patient)
  expect(graceClock(8)).toBe(clock)
  clock.delete(patient)
  await until(() => expect(graceClock(8)).not.toBe(clock))
})
