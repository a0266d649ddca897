/** What a plugin of one's own keeps in services outlives a reload and a change of its file. */
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startGateway, temporaryDirectory } from '../helpers/gateway.ts'

/** Counts in `kv` and takes one of a bucket's ten; a slot is held by each request that never ends. */
const plugin = (version: number) => `import { definePlugin } from 'tollgate/plugin'
export default definePlugin({
  name: 'counts',
  uses: ['kv', 'buckets', 'slots'],
  needsBody: false,
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create: (_settings, { kv, buckets, slots }, { policy, id }) => async (ctx, next) => {
    const name = policy + '/' + id
    const count = Number((await kv.get(name)) ?? 0) + 1
    kv.set(name, String(count), 60_000)
    const grant = await buckets.take(name, { capacity: 10, refillPerMs: 0 }, 1)
    const slot = await slots.enter(name, 10)
    ctx.set('x-counts', ['version ${version}', count, grant.remaining, slot.inside].join(', '))
    await next()
  },
})
`

test('texts, buckets and slots', async () => {
  const dir = await temporaryDirectory()
  await mkdir(join(dir, 'policies'))
  await writeFile(join(dir, 'policies/counts.ts'), plugin(1))
  const yaml = {
    version: 1,
    listen: '127.0.0.1:0',
    store: 'memory',
    providers: { p: { dialect: 'demo' } },
    models: { m: { targets: [{ provider: 'p', model: 'm' }], price: 'free', context: '8Ki', max_output: '1Ki' } },
    routes: [{ path: '/v1/chat/completions', policy: 'main', public: true }],
  }
  const steps = 'steps:\n  - use: ./counts.ts\n  - use: schema\n  - use: route\n'
  const gateway = await startGateway({ dir, yaml, policies: { main: steps } })
  const counted = async () => {
    const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hello' }] })
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body })
    await answer.text()
    return answer.headers.get('x-counts')
  }
  expect(await counted()).toBe('version 1, 1, 9, 1')
  expect(await counted()).toBe('version 1, 2, 8, 2')
  await writeFile(join(dir, 'policies/counts.ts'), plugin(2))
  process.kill(gateway.pid, 'SIGHUP')
  await gateway.waitForLog(line => line['msg'] === 'the configuration has changed')
  expect(await counted()).toBe('version 2, 3, 7, 3')
})
