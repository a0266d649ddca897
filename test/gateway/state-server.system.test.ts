/** Gateways that share their state: limits across all of them, a server that is lost under load, and a start without one. */
import { expect, onTestFinished, test } from 'vitest'
import { startGateway, temporaryDirectory, writeConfiguration } from '../helpers/gateway.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { describeWith } from '../helpers/missing.ts'
import { startRedis, WITHOUT_REDIS } from '../helpers/redis.ts'

const FIRST = { version: 1, listen: '127.0.0.1:0' }
const YAML = {
  providers: { p: { dialect: 'demo' } },
  models: { m: { targets: [{ provider: 'p', model: 'm' }], price: 'free', context: '8Ki', max_output: '1Ki' } },
  routes: [{ path: '/v1/chat/completions', policy: 'main' }],
}

const steps = (more: readonly object[]) => [
  { use: 'api-key' },
  { use: 'schema' },
  ...more,
  { use: 'credits' },
  { use: 'route' },
]

async function started(state: string, more: readonly object[]): Promise<InProcess> {
  const gateway = await startInProcess({ steps: steps(more), yaml: { state, admin: '127.0.0.1:0' } })
  onTestFinished(async () => void (await gateway.stop()))
  return gateway
}

async function metric(gateway: InProcess, name: string): Promise<string | undefined> {
  const page = await fetch(`${gateway.running.adminUrl}/metrics`).then(answer => answer.text())
  return new RegExp(`^${name} (.*)$`, 'm').exec(page)?.[1]
}

describeWith(WITHOUT_REDIS, 'gateways with one state server', () => {
  test('have one limit per address together, and one cache', async () => {
    await using redis = await startRedis()
    const more = [
      { use: 'rate-limit', with: { per: 'address', requests: '5 per day', tokens: '1M per day' } },
      { use: 'concurrency', with: { per: 'address', limit: 9 } },
      { use: 'cache', with: { scope: 'everybody', temperature: 'any' } },
    ]
    const gateways = [await started(redis.url, more), await started(redis.url, more)]
    const said: [number, string | null][] = []
    for (let i = 0; i < 6; i++) {
      const answer = await gateways[i % 2]!.chat()
      await answer.text()
      said.push([answer.status, answer.headers.get('x-tollgate-cache')])
    }
    expect(said).toEqual([
      [200, 'miss'],
      [200, 'hit'],
      [200, 'hit'],
      [200, 'hit'],
      [200, 'hit'],
      [429, null],
    ])
    expect(await metric(gateways[0]!, 'tollgate_state_lost')).toBe('0')
  })

  test('two processes with two serving threads each share them too', async () => {
    await using redis = await startRedis()
    const yaml = { ...FIRST, ...YAML, threads: 2, store: 'sqlite:./store.db', state: redis.url }
    const route = { path: '/v1/chat/completions', policy: 'main', public: true }
    const main = {
      steps: [
        { use: 'schema' },
        { use: 'rate-limit', with: { per: 'address', requests: '8 per day' } },
        { use: 'cache', with: { scope: 'everybody', temperature: 'any' } },
        { use: 'route' },
      ],
    }
    const start = () => startGateway({ yaml: { ...yaml, routes: [route] }, policies: { main } })
    const gateways = await Promise.all([start(), start()])
    const said: string[] = []
    for (let i = 0; i < 12; i++) {
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })
      const headers = { 'content-type': 'application/json', connection: 'close' }
      const answer = await fetch(`${gateways[i % 2]!.url}/v1/chat/completions`, { method: 'POST', headers, body })
      await answer.text()
      said.push(`${answer.status} ${answer.headers.get('x-tollgate-cache')}`)
    }
    expect(said).toEqual(['200 miss', ...Array(7).fill('200 hit'), ...Array(4).fill('429 null')])
  })

  test.each(['kill', 'stop'] as const)('continue when it is lost: %s', async how => {
    await using redis = await startRedis()
    const gateway = await started(redis.url, [
      { use: 'rate-limit', with: { per: 'key', requests: '1M per minute', tokens: '1G per minute' } },
      { use: 'concurrency', with: { per: 'key', limit: 500 } },
    ])
    expect((await gateway.chat()).status).toBe(200)
    const answers = Array.from({ length: 40 }, async (_, i) => {
      await new Promise(resolve => setTimeout(resolve, 10 * i))
      const answer = await gateway.chat()
      await answer.text()
      return answer.status
    })
    await answers[5]
    await redis[how]()
    expect(new Set(await Promise.all(answers))).toEqual(new Set([200]))
    expect(await metric(gateway, 'tollgate_state_lost')).toBe('1')
    expect(Number(await metric(gateway, 'tollgate_state_failures_total'))).toBeGreaterThan(0)
    if (how === 'kill') await redis.restart()
    else redis.goOn()
    await expect.poll(() => metric(gateway, 'tollgate_state_lost')).toBe('0')
    expect((await gateway.chat()).status).toBe(200)
  })
})

test('a gateway does not start without its state server, and reports its place in the file', async () => {
  const dir = await temporaryDirectory()
  const yaml = { ...FIRST, store: 'memory', state: '${STATE}', ...YAML }
  const policies = { main: 'steps:\n  - use: api-key\n  - use: schema\n  - use: route\n' }
  await writeConfiguration(dir, { yaml, policies })
  const env = { STATE: 'redis://:hidden-word@127.0.0.1:2' }
  const failed = await startGateway({ dir, yaml, policies, env }).catch((error: Error) => error.message)
  expect(failed).toMatch(
    /gateway\.yaml:4:1: state: the server at 127\.0\.0\.1:2 cannot be reached: connect ECONNREFUSED 127\.0\.0\.1:2; start it/,
  )
  expect(failed).not.toContain('hidden-word')
})
