/** Each broken gateway.yaml has one problem, at its place and with its words. */
import { afterAll, test } from 'vitest'
import { GATEWAY_ROWS } from './gateway-rows.ts'
import { expectOneProblem, openWorkshop } from './workshop.ts'

const workshop = openWorkshop()
afterAll(() => workshop.close())

test.each(GATEWAY_ROWS)('%s', async (_, [, gateway, says, more = {}]) => {
  await expectOneProblem(workshop, { ...more, gateway }, says)
})
