/** Raw routes and their providers: limits of credentials, the health of targets, and the effect of a reload on both. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ProviderView } from '../../src/api/views.ts'
import { edit } from '../helpers/edit-configuration.ts'
import {
  type Behaviour,
  errorAnswer,
  errorBody,
  type FakeProvider,
  type ProviderRequest,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { until } from '../helpers/until.ts'

const KEYS = ['sk-first-canary-0001', 'sk-second-canary-0002'] as const
const FINE: Behaviour = {
  name: 'fine',
  async run(call) {
    call.head(200, { 'content-type': 'application/json' })
    await call.end('{}')
  },
}

let provider: FakeProvider
let other: FakeProvider
let gateway: InProcess

beforeEach(async () => {
  provider = await startFakeProvider({ script: FINE })
  other = await startFakeProvider({ script: FINE })
  const raw = { kind: 'raw', policy: 'test', price: 'free' }
  gateway = await startInProcess({
    steps: [{ use: 'api-key' }],
    env: { FIRST: KEYS[0], SECOND: KEYS[1] },
    yaml: {
      admin: '127.0.0.1:0',
      providers: {
        p: { dialect: 'openai', base_url: provider.baseUrl, api_keys: ['${FIRST}', '${SECOND}'] },
        q: { dialect: 'openai', base_url: other.baseUrl, api_key: '${FIRST}' },
      },
      models: {},
      routes: [
        { ...raw, path: '/v1/embeddings', provider: 'p' },
        { ...raw, path: '/v1/images', provider: 'q' },
      ],
    },
  })
})
afterEach(async () => {
  await gateway.stop()
  await provider.close()
  await other.close()
})

async function ask(path = '/v1/embeddings'): Promise<number> {
  const headers = { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' }
  const answer = await fetch(gateway.url + path, { method: 'POST', headers, body: '{}' })
  await answer.text()
  return answer.status
}

async function askTimes(times: number): Promise<number[]> {
  const statuses: number[] = []
  while (statuses.length < times) statuses.push(await ask())
  return statuses
}

/** The provider `p`, as operators see it. */
async function seen(): Promise<ProviderView> {
  const { secret } = await gateway.running.store.people.createToken({ name: 't', expiresAt: null, createdBy: 'test' })
  const headers = { authorization: `Bearer ${secret}` }
  const answer = await fetch(`${gateway.running.adminUrl}/api/operator/providers`, { headers })
  const { items } = (await answer.json()) as { items: ProviderView[] }
  return items.find(({ name }) => name === 'p')!
}

/** This behaviour under the first credential, and a proper answer under the other. */
const underFirst = (behaviour: Behaviour) =>
  provider.script(({ headers }: ProviderRequest) =>
    headers['authorization'] === `Bearer ${KEYS[0]}` ? behaviour : FINE,
  )

test.each([
  ['limited', errorAnswer(429, errorBody(429, 'Slow down.'), { 'retry-after': '60' }), 0],
  ['out of quota', errorAnswer(402, errorBody(402, 'Pay first.')), 1],
])('a credential that is %s is skipped, and the target stays healthy', async (_name, behaviour, refused) => {
  underFirst(behaviour)
  expect((await askTimes(6)).filter(status => status !== 200)).toHaveLength(1)
  expect(await seen()).toMatchObject({
    credentials: { total: 2, good: 1, refused },
    targets: [{ target: 'p', models: [], state: 'well', attempts: 5, failed: 0, inflight: 0 }],
  })
})

test('operators see a failing provider as an ejected target', async () => {
  provider.script(errorAnswer(500))
  await askTimes(5)
  expect((await seen()).targets).toMatchObject([{ target: 'p', state: 'ejected' }])
  const line = await gateway.waitForLog(each => String(each['msg']).startsWith('a target is failing'))
  expect(line).toMatchObject({ target: 'p', for_ms: 15_000 })
})

test.each([403, 404, 405, 409])('%i concerns the request: the provider stays healthy', async status => {
  provider.script(errorAnswer(status))
  await askTimes(5)
  expect(await seen()).toMatchObject({
    credentials: { good: 2, refused: 0 },
    targets: [{ state: 'well', failed: 0, failures_in_a_row: 0 }],
  })
})

test('a reload that removes a provider ends its connections and forgets its health', async () => {
  provider.script([errorAnswer(500), FINE])
  await ask('/v1/images')
  await ask()
  await ask()
  expect([provider.openConnections, other.openConnections]).toEqual([1, 1])
  expect((await seen()).targets).toMatchObject([{ failed: 1 }])
  let removed: unknown
  edit(gateway, yaml => {
    removed = [yaml.providers['p'], yaml.routes.shift()]
    delete yaml.providers['p']
  })
  expect(await gateway.running.reload()).toBe('changed')
  await until(() => expect(provider.openConnections).toBe(0))
  // It has been idle for longer, so no socket timeout has ended the other one.
  expect(other.openConnections).toBe(1)
  edit(gateway, yaml => {
    const [before, route] = removed as [Record<string, unknown>, Record<string, unknown>]
    yaml.providers['p'] = before
    yaml.routes.unshift(route)
  })
  expect(await gateway.running.reload()).toBe('changed')
  expect((await seen()).targets).toMatchObject([{ failed: 0, attempts: 0 }])
  expect(await ask('/v1/images')).toBe(200)
  expect(other.connections).toBe(1)
})
