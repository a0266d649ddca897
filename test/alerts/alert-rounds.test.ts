/** Rounds of a process with a failing part. */
import { expect, test } from 'vitest'
import type { Log } from '#contract'
import { startAlertRounds } from '../../src/alerts/alert-rounds.ts'
import { testStore } from '../store/helpers.ts'
import { anAlert, aWebhook, startReceiver } from './receiver.ts'

test('a failing check blocks neither webhooks nor figures, and is logged once', async () => {
  const store = await testStore()
  const receiver = await startReceiver()
  const config = { lowBalance: null, keepMs: 86_400_000, webhooks: [aWebhook(receiver.url)] }
  const log: string[] = []
  const write = (_: object, message: string) => void log.push(message)
  let check: (atMs: number) => void = () => {}
  const rounds = startAlertRounds({
    alerts: store.alerts,
    config: () => config,
    state: () => Promise.reject(new Error('a thread has ended')),
    replica: 'r',
    clock: store.clock,
    random: () => 0.5,
    log: { info: write, warn: write, error: write } as Log,
    watch: next => {
      check = next
      return () => {}
    },
    attempted: () => {},
  })
  check(0)
  // The webhook is known now, so it gets the next alert.
  await expect.poll(() => store.alerts.due([{ name: 'ops', events: [] }], store.clock.ms)).toEqual([])
  await store.alerts.put([{ ...anAlert(), at: (store.clock.ms += 1) }])
  let atMs = 0
  await expect
    .poll(() => {
      check((atMs += 10_000))
      return receiver.received.length
    })
    .toBe(1)
  await expect.poll(() => rounds.figures().kinds.get('provider_down')).toBe(1)
  expect(log).toEqual(['alerts cannot be written or read now'])
  await rounds.close()
})
