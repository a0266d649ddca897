/** The operators' views of a running gateway, on the admin listener, and the dashboard listener. */
import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ConfigurationView, ExchangeView, PageView, ProviderView } from '../../src/api/views.ts'
import type { Generation } from '../../src/request/generation.ts'
import { playgroundRoute } from '../../src/runtime/operator-views.ts'
import { errorAnswer, exact, type FakeProvider, gated, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'

let provider: FakeProvider
let gateway: InProcess
let ask: <Body>(path: string) => Promise<Body>

beforeAll(async () => {
  provider = await startFakeProvider({ script: exact({ tokens: 3 }) })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    env: { PROVIDER_KEY: 'sk-0123456789-secret' },
    yaml: {
      admin: '127.0.0.1:0',
      dashboard: '127.0.0.1:0',
      providers: {
        p: { dialect: 'openai', base_url: provider.baseUrl, api_keys: ['${PROVIDER_KEY}', '${PROVIDER_KEY}-2'] },
        spare: { dialect: 'demo', pace: '1ms' },
      },
      models: {
        m: {
          targets: [
            { provider: 'p', model: 'upstream-model', priority: 1 },
            { provider: 'spare', model: 'demo-small', priority: 2 },
          ],
          price: PRICE,
          context: 8192,
          max_output: 1000,
        },
      },
    },
    steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits', id: 'money' }, { use: 'route' }],
  })
  const { secret } = await gateway.running.store.people.createToken({ name: 't', expiresAt: null, createdBy: 'test' })
  ask = async path => {
    const answer = await fetch(`${gateway.running.adminUrl}/api/operator/${path}`, {
      headers: { authorization: `Bearer ${secret}` },
    })
    expect(answer.status).toBe(200)
    return (await answer.json()) as never
  }
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

describe('exchanges in progress', () => {
  test('a stream is listed with its account, state and progress until it ends', async () => {
    expect((await ask<PageView<ExchangeView>>('exchanges')).items).toEqual([])
    provider.script(gated({ tokens: 3 }))
    const answering = gateway.chat({ stream: true })
    await provider.waitForRequest()
    const { items } = await ask<PageView<ExchangeView>>('exchanges')
    expect(items).toEqual([
      {
        id: expect.stringMatching(/^req_/),
        started_at: expect.stringMatching(/^20\d\d-/),
        route: '/v1/chat/completions',
        policy: 'test',
        account_id: gateway.accountId,
        account: 'test',
        key_id: expect.stringMatching(/^key_/),
        model: 'm',
        stream: true,
        target: 'p/upstream-model',
        attempts: 1,
        tokens: 0,
        address: '127.0.0.1',
        replica: null,
      },
    ])
    provider.release()
    const answer = await answering
    await answer.text()
    await gateway.exchangeLine(items[0]!.id)
    expect((await ask<PageView<ExchangeView>>('exchanges')).items).toEqual([])
  })
})

describe('providers', () => {
  test('a failing target is ejected, with the end of the ejection; no credential is shown', async () => {
    provider.script(errorAnswer(500))
    for (let request = 0; request < 5; request++) await (await gateway.chat()).text()
    const { items } = await ask<PageView<ProviderView>>('providers')
    const [p, spare] = items
    expect(p).toMatchObject({
      name: 'p',
      dialect: 'openai',
      base_url: provider.baseUrl,
      credentials: { total: 2, good: 2, refused: 0 },
    })
    expect(p!.targets).toMatchObject([{ target: 'p/upstream-model', models: ['m'], state: 'ejected', inflight: 0 }])
    expect(Date.parse(p!.targets[0]!.until!)).toBeGreaterThan(Date.now())
    expect(spare).toMatchObject({
      name: 'spare',
      dialect: 'demo',
      base_url: null,
      credentials: { total: 0, good: 0, refused: 0 },
    })
    expect(spare!.targets).toMatchObject([{ target: 'spare/demo-small', state: 'well', until: null }])
    expect(JSON.stringify(items)).not.toContain('sk-0123456789')
  })
})

describe('the configuration', () => {
  test('the running files, later changes, and their problems', async () => {
    const { file } = gateway.running.configuration
    const before = await ask<ConfigurationView>('configuration')
    expect(before.files.map(({ path, changed }) => [path, changed])).toEqual([
      ['gateway.yaml', false],
      ['policies/test.yaml', false],
      [expect.stringMatching(/catalog\.yaml$/), false],
    ])
    expect(before.problems).toEqual([])
    expect(before.routes[0]).toEqual({
      path: '/v1/chat/completions',
      kind: 'chat',
      policy: 'test',
      steps: [
        { id: 'api-key', use: 'api-key', mode: 'enforce', when: null },
        { id: 'schema', use: 'schema', mode: 'enforce', when: null },
        { id: 'money', use: 'credits', mode: 'enforce', when: null },
        { id: 'route', use: 'route', mode: 'enforce', when: null },
      ],
    })
    const text = await readFile(file, 'utf8')
    writeFileSync(file, `${text}\ndrian: 1m\n`)
    const after = await ask<ConfigurationView>('configuration')
    expect(after.files[0]).toEqual({ path: 'gateway.yaml', text, changed: true })
    expect(after.problems).toEqual([
      {
        file: 'gateway.yaml',
        line: text.split('\n').length + 1,
        column: 1,
        message: 'unknown key "drian"',
        suggestion: 'did you mean "drain"?',
      },
    ])
    writeFileSync(file, text)
    expect(JSON.stringify(after)).not.toContain('sk-0123456789')
  })
})

describe('the dashboard listener', () => {
  test('accepts 127.0.0.1 and localhost, and shows the base URL of clients', async () => {
    const { dashboardUrl } = gateway.running
    const { port } = new URL(dashboardUrl!)
    const about = (host: string) => fetch(`http://${host}:${port}/api/about`).then(answer => answer.status)
    expect(await about('127.0.0.1')).toBe(200)
    expect(await about('localhost')).toBe(200)
    const { base_url } = (await (await fetch(`${dashboardUrl}/api/about`)).json()) as { base_url: string }
    expect(base_url).toBe(`${gateway.url}/v1`)
  })
})

describe('the route of the playground', () => {
  const route = (configuration: object) => playgroundRoute({ configuration } as unknown as Generation, 8080)
  const steps = (...gives: string[]) => ({ steps: [{ plugin: { gives } }] })
  const listen = { host: '127.0.0.1', port: 8080 }
  const chat = { path: '/v1/chat/completions', kind: 'chat', steps: steps('key', 'account') }

  test.each([
    ['no route accepts a key', { listen, routes: [{ ...chat, steps: steps('chat') }] }, null],
    ['only a raw route', { listen, routes: [{ ...chat, kind: 'raw' }] }, null],
    ['the first chat route', { listen, routes: [{ ...chat, steps: steps() }, chat] }, ['127.0.0.1', '127.0.0.1:8080']],
    ['all interfaces', { listen: { ...listen, host: '0.0.0.0' }, routes: [chat] }, ['127.0.0.1', '127.0.0.1:8080']],
    ['all interfaces of IPv6', { listen: { ...listen, host: '::' }, routes: [chat] }, ['::1', '[::1]:8080']],
    ['host names', { listen, hosts: ['api.example.com'], routes: [chat] }, ['127.0.0.1', 'api.example.com']],
  ])('%s', (_, configuration, expected) => {
    const found = route({ hosts: null, ...configuration })
    expect(found && [found.host, found.hostHeader]).toEqual(expected)
    if (found) expect(found).toMatchObject({ port: 8080, path: '/v1/chat/completions' })
  })
})
