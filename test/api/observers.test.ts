/** Operators' tokens while the store cannot be read: recently used tokens still open the metrics. */
import { afterEach, expect, test, vi } from 'vitest'
import { TOKEN_KEPT_MS } from '../../src/api/observers.ts'
import { StoreUnavailable } from '../../src/store/store.ts'
import { type Rig, startRig } from './rig.ts'

afterEach(() => void vi.restoreAllMocks())

/** From now on the store cannot look up tokens. */
function breakLookup(rig: Rig): { find(): void } {
  const spy = vi.spyOn(rig.store.people, 'findToken')
  spy.mockRejectedValue(new StoreUnavailable('not_written', new Error('the database is away')))
  return { find: () => spy.mockRestore() }
}

const metrics = async (rig: Rig, token: string) => (await rig.machine(token).call('GET', '/metrics')).status

const start = () => startRig({ metrics: 'token', adminHost: '10.0.0.5' })

async function token(rig: Rig, expiresAt: number | null): Promise<string> {
  const { secret } = await rig.store.people.createToken({ name: 'a machine', expiresAt, createdBy: 'test' })
  return secret
}

test('a token that worked reads only the metrics; a token that was never used reads nothing', async () => {
  await using rig = await start()
  const [used, unused] = [await rig.token('used'), await rig.token('unused')]
  expect(await metrics(rig, used)).toBe(200)
  breakLookup(rig)
  expect([await metrics(rig, used), await metrics(rig, unused)]).toEqual([200, 503])
  for (const path of ['/api/operator/summary', '/api/operator/people']) {
    expect(await rig.machine(used).call('GET', path)).toMatchObject({
      status: 503,
      body: { error: { code: 'store_unavailable' } },
    })
  }
  expect(rig.log.filter(line => line['level'] === 'error')).toEqual([])
})

test.each<[what: string, lifetimeMs: number | null, pastMs: number, status: number]>([
  ['that has worked recently', null, TOKEN_KEPT_MS - 1, 200],
  ['that has worked too long ago', null, TOKEN_KEPT_MS, 503],
  ['that has expired meanwhile', 60_000, 60_000, 503],
])('a token %s', async (_, lifetimeMs, pastMs, status) => {
  await using rig = await start()
  const secret = await token(rig, lifetimeMs === null ? null : rig.clock.now() + lifetimeMs)
  expect(await metrics(rig, secret)).toBe(200)
  breakLookup(rig)
  rig.clock.ms += pastMs
  expect(await metrics(rig, secret)).toBe(status)
})

test('a token found to be revoked stays refused', async () => {
  await using rig = await start()
  const secret = await rig.token()
  expect(await metrics(rig, secret)).toBe(200)
  await rig.store.people.revokeToken(rig.store.reads.people.tokens()[0]!.id)
  expect(await metrics(rig, secret)).toBe(401)
  breakLookup(rig)
  expect(await metrics(rig, secret)).toBe(503)
})
