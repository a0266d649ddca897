/** Raw routes to providers with several credentials, and to AWS, where each request is signed. */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { signRequest } from '../../src/providers/dialects/bedrock/index.ts'
import {
  errorAnswer,
  errorBody,
  type FakeProvider,
  type ProviderRequest,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { temporaryDirectory } from '../helpers/gateway.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { expectRefusal } from './refusal.ts'

const KEYS = ['sk-first-canary-0001', 'sk-second-canary-0002'] as const
const AWS = { accessKeyId: 'AKIATESTTESTTESTTEST', secretAccessKey: 'canary/of/forty/letters/for+tests/only12' }
const REGION = 'eu-central-1'

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: request => answer(request) })
  const directory = await temporaryDirectory()
  const secret = async (name: string, value: string) => {
    await writeFile(join(directory, name), value, { mode: 0o600 })
    return `\${file:${join(directory, name)}}`
  }
  const raw = { kind: 'raw', policy: 'test', price: 'free' }
  gateway = await startInProcess({
    steps: [{ use: 'api-key' }],
    yaml: {
      providers: {
        several: {
          dialect: 'openai',
          base_url: provider.baseUrl,
          api_keys: [await secret('first', KEYS[0]), await secret('second', KEYS[1])],
        },
        amazon: {
          dialect: 'bedrock',
          base_url: provider.url,
          aws: {
            access_key_id: await secret('id', AWS.accessKeyId),
            secret_access_key: await secret('secret', AWS.secretAccessKey),
            region: REGION,
          },
        },
      },
      models: {},
      routes: [
        { ...raw, path: '/v1/embeddings', provider: 'several' },
        { ...raw, path: '/bedrock/{id}', provider: 'amazon', upstream_path: '/', methods: ['GET', 'POST'] },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const refusedKeys = new Set<string>()
const forbidden = new Set<string>()

function answer({ headers }: ProviderRequest) {
  if (forbidden.has(headers['authorization'] ?? ''))
    return errorAnswer(403, errorBody(403, 'This key may not read the file.'))
  if (refusedKeys.has(headers['authorization'] ?? '')) return errorAnswer(401)
  return {
    name: 'fine',
    run: async (call: Parameters<ReturnType<typeof errorAnswer>['run']>[0]) => {
      call.head(200, { 'content-type': 'application/json' })
      await call.end('{}')
    },
  }
}

function post(
  path: string,
  body: string | Buffer,
  headers: Record<string, string> = {},
  method = 'POST',
): Promise<Response> {
  return fetch(`${gateway.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${gateway.key}`, ...headers },
    ...(method === 'GET' ? {} : { body }),
  })
}

test('a 403 concerns the request: the credential stays', async () => {
  const before = gateway.log.length
  forbidden.add(`Bearer ${KEYS[0]}`).add(`Bearer ${KEYS[1]}`)
  const statuses: number[] = []
  for (let index = 0; index < 4; index++) statuses.push((await post('/v1/embeddings', '{}')).status)
  forbidden.clear()
  expect(statuses).toEqual([502, 502, 502, 502])
  expect(gateway.log.slice(before).filter(line => line['msg'] === 'the provider refuses this credential')).toEqual([])
})

test('a refused credential is skipped, and the others take turns', async () => {
  refusedKeys.add(`Bearer ${KEYS[0]}`)
  const statuses: number[] = []
  for (let index = 0; index < 6; index++) {
    const response = await post('/v1/embeddings', '{}', { 'content-type': 'application/json' })
    statuses.push(response.status)
    if (response.status !== 200) await expectRefusal(response, 'upstream_auth')
    else await response.text()
  }
  expect(statuses.filter(status => status !== 200)).toEqual([502])
  const refused = gateway.log.filter(line => line['msg'] === 'the provider refuses this credential')
  expect(refused).toEqual([expect.objectContaining({ provider: 'several', credential: 1, left: 1 })])
  expect(JSON.stringify(gateway.log)).not.toContain('canary')
})

describe('AWS', () => {
  test.each<[string, string, string | Buffer, Record<string, string>]>([
    ['JSON', '/bedrock/model/amazon.titan:0/invoke', '{"inputText":"ä"}', { 'content-type': 'application/json' }],
    [
      'a body with more content headers',
      '/bedrock/model/amazon.titan%3A0/invoke?b=2&a=%20',
      '{}',
      { 'content-type': 'application/json; charset=utf-8' },
    ],
    ['bytes', '/bedrock/model/x/invoke', Buffer.from([0, 255, 13, 10]), { 'content-type': 'image/png' }],
    ['another method', '/bedrock/async-invoke/x', '', {}],
    ['bytes without a type', '/bedrock/model/x/invoke', Buffer.from([0, 255]), {}],
  ])('%s: the signature covers the sent request', async (_title, path, body, headers) => {
    const index = provider.requests.length
    const method = body === '' ? 'GET' : 'POST'
    const response = await post(path, body, headers, method)
    expect(response.status).toBe(200)
    const request = await provider.waitForRequest(index)
    expect(request.method).toBe(method)
    expect(request.raw.equals(Buffer.from(body))).toBe(true)
    expect(request.headers['content-type']).toBe(headers['content-type'] ?? 'application/json')
    const [sentPath, query = ''] = request.path.split('?')
    expect(request.path).toBe(path.replace('/bedrock', ''))
    const { authorization } = request.headers
    const names = /SignedHeaders=([^,]+)/.exec(authorization!)![1]!.split(';')
    expect(names).toEqual(expect.arrayContaining(['content-type', 'host', 'x-amz-date']))
    // Like AWS: computed from the bytes on the wire.
    const time = request.headers['x-amz-date']!.replace(
      /^(....)(..)(..)T(..)(..)(..)Z$/,
      (_all, ...[year, month, day, hour, minute, second]) => `${year}-${month}-${day}T${hour}:${minute}:${second}Z`,
    )
    const again = signRequest({
      method: request.method,
      path: sentPath!,
      query,
      headers: Object.fromEntries(names.map(name => [name, request.headers[name]!])),
      body: request.raw,
      region: REGION,
      service: 'bedrock',
      credentials: AWS,
      nowMs: Date.parse(time),
    })
    expect(authorization).toBe(again['authorization'])
  })
})
