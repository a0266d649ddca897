/** Requests of the whole gateway to OpenAI-compatible providers: the address, the authentication and the body. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider, whole } from '../../../helpers/fake-provider.ts'
import { startInProcess } from '../../../helpers/in-process.ts'

let provider: FakeProvider

beforeAll(async () => {
  provider = await startFakeProvider({ script: whole() })
})
afterAll(() => provider.close())

const ENV = { HOUSE_KEY: 'house-key-0123456789', ENTRA: 'eyJhbGci.eyJhdWQi.c2lnbmVk' }
const ASK = { seed: 7, messages: [{ role: 'developer', content: 'a', name: 'ann' }] }

interface ReceivedRequest {
  readonly path: string
  readonly who: Readonly<Record<string, string>>
  readonly names: readonly string[]
  readonly dropped: string | null
}

test.each<[name: string, base: string, settings: object, received: ReceivedRequest]>([
  [
    'azure, classic',
    '',
    { dialect: 'azure', api_version: '2024-10-21', api_key: '${HOUSE_KEY}' },
    {
      path: '/openai/deployments/tiny/chat/completions?api-version=2024-10-21',
      who: { 'api-key': 'house-key-0123456789' },
      names: ['model', 'messages', 'seed', 'max_completion_tokens'],
      dropped: null,
    },
  ],
  [
    'azure, v1, with a token of Entra',
    '/openai/v1',
    { dialect: 'azure', auth: 'bearer', api_key: '${ENTRA}' },
    {
      path: '/openai/v1/chat/completions',
      who: { authorization: 'Bearer eyJhbGci.eyJhdWQi.c2lnbmVk' },
      names: ['model', 'messages', 'seed', 'max_completion_tokens'],
      dropped: null,
    },
  ],
  [
    'azure, Foundry',
    '/models',
    { dialect: 'azure', api_version: '2024-05-01-preview', api_key: '${HOUSE_KEY}' },
    {
      path: '/models/chat/completions?api-version=2024-05-01-preview',
      who: { 'api-key': 'house-key-0123456789' },
      names: ['model', 'messages', 'seed', 'max_tokens'],
      dropped: null,
    },
  ],
  [
    'mistral',
    '/v1',
    { dialect: 'mistral', api_key: '${HOUSE_KEY}' },
    {
      path: '/v1/chat/completions',
      who: { authorization: 'Bearer house-key-0123456789' },
      names: ['model', 'messages', 'max_tokens', 'random_seed'],
      dropped: 'messages.name',
    },
  ],
  [
    'openai, with a profile',
    '/v1',
    { dialect: 'openai', profile: 'perplexity', api_key: '${HOUSE_KEY}' },
    {
      path: '/v1/chat/completions',
      who: { authorization: 'Bearer house-key-0123456789' },
      names: ['model', 'messages', 'max_tokens'],
      dropped: 'seed, messages.name',
    },
  ],
])('%s', async (_name, base, settings, received) => {
  const index = provider.requests.length
  await using gateway = await startInProcess({
    env: ENV,
    yaml: { providers: { near: { base_url: provider.url + base, ...settings } } },
    model: { targets: [{ provider: 'near', model: 'tiny' }] },
  })
  const answer = await gateway.chat(ASK)
  expect(answer.status).toBe(200)
  const { path, headers, body } = await provider.waitForRequest(index)
  const who = Object.fromEntries(
    ['api-key', 'authorization'].flatMap(name => (headers[name] ? [[name, headers[name]]] : [])),
  )
  const names = Object.keys(body ?? {})
  expect({ path, who, names, dropped: answer.headers.get('x-tollgate-dropped') }).toEqual(received)
})

const FOUNDRY = { dialect: 'azure', api_version: '2024-05-01-preview' }

test.each<[name: string, settings: object, own: Record<string, string>]>([
  ['with a key', { ...FOUNDRY, api_key: '${HOUSE_KEY}' }, { 'extra-parameters': 'drop' }],
  ['without one', FOUNDRY, { 'extra-parameters': 'drop' }],
  ['of the credential', { dialect: 'anthropic', api_key: '${HOUSE_KEY}' }, { 'anthropic-version': '2099-01-01' }],
])('a header of the configuration has priority over that of the dialect: %s', async (_name, settings, own) => {
  const index = provider.requests.length
  const near = { base_url: `${provider.url}/models`, headers: own, ...settings }
  await using gateway = await startInProcess({
    env: ENV,
    yaml: { providers: { near } },
    model: { targets: [{ provider: 'near', model: 'tiny' }] },
  })
  await (await gateway.chat()).text()
  expect((await provider.waitForRequest(index)).headers).toMatchObject(own)
})
