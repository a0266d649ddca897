/** Several endpoints on one gateway: a prefix of the path determines the policy, and a base URL the endpoint. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'

let gateway: InProcess

beforeAll(async () => {
  gateway = await startInProcess({
    steps: FIVE_STEPS,
    yaml: {
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/try/v1/chat/completions', policy: 'try', public: true, unmetered: true },
      ],
    },
    policies: {
      try: [
        { use: 'rate-limit', with: { per: 'address', requests: '2 per day' } },
        { use: 'schema' },
        { use: 'route' },
      ],
    },
  })
})
afterAll(() => gateway.stop())

const ask = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hello' }] }),
  })

test('each endpoint has its own policy', async () => {
  expect((await ask('/v1/chat/completions')).status).toBe(401)
  expect((await ask('/v1/chat/completions', { authorization: `Bearer ${gateway.key}` })).status).toBe(200)
  const statuses = []
  for (let count = 0; count < 3; count++) statuses.push((await ask('/try/v1/chat/completions')).status)
  expect(statuses).toEqual([200, 200, 429])
})

test('each endpoint has the catalog, for clients that list the models', async () => {
  const list = await fetch(`${gateway.url}/try/v1/models`, { headers: { authorization: `Bearer ${gateway.key}` } })
  expect(await list.json()).toMatchObject({ object: 'list', data: [{ id: 'm' }] })
  const one = await fetch(`${gateway.url}/try/v1/models/m`, { headers: { authorization: `Bearer ${gateway.key}` } })
  expect(await one.json()).toMatchObject({ id: 'm' })
})

test('an unknown endpoint suggests a path', async () => {
  const answer = await ask('/other/v1/chat/completions')
  expect(answer.status).toBe(404)
  expect(await answer.json()).toMatchObject({ error: { code: 'unknown_url' } })
})
