/** The end of a gateway, as people at the dashboard see it; what clients see is in gateway/shutdown.test.ts. */
import { afterAll, expect, test } from 'vitest'
import { type FakeProvider, gated, startFakeProvider } from './helpers/fake-provider.ts'
import { startInProcess } from './helpers/in-process.ts'

const STREAMS = 4

let provider: FakeProvider | null = null
afterAll(() => provider?.close())

test('playground answers that are under way at the end come whole', async () => {
  provider = await startFakeProvider({ script: gated({ tokens: 3 }) })
  const gateway = await startInProcess({
    provider: provider.baseUrl,
    yaml: { dashboard: '127.0.0.1:0', registration: { mode: 'open', credit: '$5' } },
  })
  const url = gateway.running.dashboardUrl!
  const post = (path: string, body: object, cookie = '') =>
    fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-tollgate-dashboard': '1', origin: url, cookie },
      body: JSON.stringify(body),
    })
  const registered = await post('/api/register', { email: 'ada@example.com', password: 'correct horse battery' })
  expect(registered.status).toBe(201)
  const cookie = registered.headers.getSetCookie()[0]!.split(';')[0]!
  const asked = { model: 'm', messages: [{ role: 'user', content: 'Hello' }] }
  const answers = Array.from({ length: STREAMS }, () => post('/api/playground', asked, cookie))
  await provider.waitForRequest(STREAMS - 1)
  gateway.running.drain()
  provider.release()
  for (const answer of await Promise.all(answers)) {
    expect(answer.status).toBe(200)
    expect((await answer.text()).trimEnd().endsWith('data: [DONE]')).toBe(true)
  }
  expect(await gateway.running.finished).toBe(0)
})
