/**
 * The failure matrix: all faults of a provider, in every dialect, whole and streamed, with and without a second provider. A strict client
 * reads the answers.
 */
import { expect, test } from 'vitest'
import { FAULTS, startFakeProvider } from '../helpers/fake-provider.ts'
import { startInProcess } from '../helpers/in-process.ts'
import { parseSse, textOf } from '../helpers/sse.ts'
import { sampleCells } from './matrix-cells.ts'
import { checkErrorEvent } from './matrix-checks.ts'
import { testMatrix } from './matrix-suite.ts'
import { plainClient } from './plain-client.ts'

testMatrix(sampleCells(), plainClient)

test('after a heartbeat the status has been sent, so the error is an event; it still costs nothing', async () => {
  const silent = FAULTS.find(({ title }) => title === 'silence before the head')!
  await using provider = await startFakeProvider({ script: silent.make('stream') })
  await using gateway = await startInProcess({
    provider: provider.baseUrl,
    timeouts: { connect: '500ms', first_byte: '1s', idle: '1s' },
    yaml: { heartbeat: { first: '200ms', every: '1s' } },
  })
  const response = await gateway.chat({ stream: true })
  expect(response.status).toBe(200)
  const { comments, events, done, rest } = parseSse(await textOf(response))
  expect(comments).toContain('ping')
  expect(events).toHaveLength(1)
  checkErrorEvent(events[0]!.data, 'upstream_timeout')
  expect({ done, rest }).toEqual({ done: false, rest: '' })
  expect(gateway.receipt(response)).toMatchObject({ charged: 0n, outcome: 'failed' })
})
