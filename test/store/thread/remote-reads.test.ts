/** A reading thread that cannot start is restarted after growing pauses, however often it is used. */
import { expect, onTestFinished, test } from 'vitest'
import { digestKey } from '../../../src/store/people/token.ts'
import { createRemoteReads } from '../../../src/store/thread/remote-reads.ts'
import { faultyConnector } from '../faulty.ts'
import { SECRET, testClock, testStore } from '../helpers.ts'

test('a thread that dies at its start is restarted after a pause', async () => {
  const { path } = await testStore()
  const { connector, faults } = faultyConnector()
  const clock = testClock()
  const reads = await createRemoteReads({ place: path, connector, hmacKey: digestKey(SECRET) }, clock)
  onTestFinished(() => reads.close())
  faults.refuse = 100
  // The thread for lists is started by its first read.
  const ask = () => reads.store.listAccounts()
  let starts = 0
  for (const pauseMs of [100, 200, 400]) {
    for (let round = 0; round < 5; round++) await expect(ask()).rejects.toThrow('out of reach')
    expect(100 - faults.refuse).toBe(++starts)
    clock.ms += pauseMs
  }
  faults.refuse = 0
  expect(await ask()).toEqual([])
})
