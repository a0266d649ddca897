/** Replicas that share a state server count the values of a tag together. */
import { expect, onTestFinished, test } from 'vitest'
import type { Account } from '#contract'
import { openRedisState } from '../../src/state/redis-state.ts'
import { describeWith } from '../../test/helpers/missing.ts'
import { startRedis, WITHOUT_REDIS } from '../../test/helpers/redis.ts'
import { createSteps } from '../../test/helpers/step.ts'
import tags from './index.ts'

const AT_MOST = 20

describeWith(WITHOUT_REDIS, 'replicas with one state server', () => {
  test('admit at_most values together, and each knows those of the others', async () => {
    await using redis = await startRedis()
    const replica = async () => {
      const log = { info() {}, warn() {}, error() {} }
      const state = await openRedisState({
        url: redis.url,
        clock: { now: () => performance.now() },
        log,
        leaseMs: 15_000,
      })
      onTestFinished(() => state.close())
      const given = { session: { from: 'header x-session', client: true, at_most: AT_MOST } }
      const run = createSteps([{ use: tags, with: { tags: given } }], { buckets: state.buckets, kv: state.kv })
      return async (session: string) => {
        const facts = { account: { id: 'acc_1' } as Account }
        const { exchange } = await run({ headers: [['x-session', session]], facts })
        return exchange.tags!['session']!
      }
    }
    const replicas = await Promise.all([replica(), replica(), replica()])
    const sessions = Array.from({ length: 3 * AT_MOST }, (_, nth) => `run-${nth}`)
    const first = await Promise.all(sessions.map((session, nth) => replicas[nth % 3]!(session)))
    const admitted = first.filter(value => value !== 'other')
    expect(admitted).toHaveLength(AT_MOST)
    for (const send of replicas) expect(await Promise.all(admitted.map(send))).toEqual(admitted)
    expect(await replicas[0]!('one more')).toBe('other')
  })
})
