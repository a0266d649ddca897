/** The ways to Azure. */
import { describe, expect, test } from 'vitest'
import { createDialect } from '../../../../src/providers/dialects/index.ts'
import type { AzurePlace } from '../../../../src/providers/dialects/openai/index.ts'
import { chatOf, chunksSeen, NOW, target } from './support.ts'

const place = (fields: Partial<AzurePlace>): AzurePlace => ({
  api: 'classic',
  apiVersion: '2024-10-21',
  auth: 'api-key',
  ...fields,
})
const STREAM = '{"model":"m","stream":true,"messages":[{"role":"developer","content":"a"}]}'

function encoded(fields: Partial<AzurePlace>, { model = 'house-4o', text = STREAM } = {}) {
  const { dialect } = createDialect('azure', () => NOW, undefined, place(fields))
  const { body, ...rest } = dialect.encodeRequest(chatOf(text), target({ model }))
  return { ...rest, body: JSON.parse(body.toString()) }
}

describe('the address', () => {
  test.each<[name: string, fields: Partial<AzurePlace>, path: string]>([
    ['classic', {}, '/openai/deployments/house-4o/chat/completions?api-version=2024-10-21'],
    ['v1', { api: 'v1', apiVersion: null }, '/chat/completions'],
    ['v1 with a version', { api: 'v1', apiVersion: 'preview' }, '/chat/completions?api-version=preview'],
    [
      'Foundry',
      { api: 'foundry', apiVersion: '2024-05-01-preview' },
      '/chat/completions?api-version=2024-05-01-preview',
    ],
  ])('%s', (_name, fields, path) => {
    expect(encoded(fields)).toMatchObject({ path, dropped: [], body: { model: 'house-4o' } })
  })

  test('a deployment stays one part of the path, and no query', () => {
    expect(encoded({}, { model: '../a?b=c d' }).path).toBe(
      '/openai/deployments/..%2Fa%3Fb%3Dc%20d/chat/completions?api-version=2024-10-21',
    )
  })

  test('Foundry is told to pass on what it does not know', () => {
    expect(encoded({ api: 'foundry' }).headers).toEqual({
      'extra-parameters': 'pass-through',
      accept: 'text/event-stream',
    })
    expect(encoded({}).headers).toEqual({ accept: 'text/event-stream' })
  })
})

describe('what a version does not know yet', () => {
  const NEW = { cap: 'max_completion_tokens', role: 'developer', usage: true }
  test.each<[version: string, seen: object]>([
    ['2024-02-01', { cap: 'max_tokens', role: 'system', usage: false }],
    ['2024-08-01-preview', { cap: 'max_tokens', role: 'system', usage: false }],
    ['2024-09-01-preview', { ...NEW, role: 'system' }],
    ['2024-10-21', { ...NEW, role: 'system' }],
    ['2024-12-01', NEW],
    ['2024-12-01-preview', NEW],
    ['2025-04-01-preview', NEW],
    ['latest', NEW],
  ])('%s', (apiVersion, seen) => {
    const { body } = encoded({ apiVersion })
    expect({
      cap: Object.keys(body).find(name => name.startsWith('max_')),
      role: body.messages[0].role,
      usage: body.stream_options?.include_usage === true,
    }).toEqual(seen)
    expect(body[Object.keys(body).find(name => name.startsWith('max_'))!]).toBe(100)
  })

  test("OpenAI's own API there takes all", () => {
    expect(encoded({ api: 'v1', apiVersion: null }).body).toMatchObject({
      max_completion_tokens: 100,
      messages: [{ role: 'developer' }],
      stream_options: { include_usage: true },
    })
  })

  test('Foundry knows the older name of the cap', () => {
    const { body } = encoded({ api: 'foundry', apiVersion: '2024-05-01-preview' })
    expect(body).toMatchObject({ max_tokens: 100, stream_options: { include_usage: true } })
    expect(body).not.toHaveProperty('max_completion_tokens')
  })
})

test.each<[auth: AzurePlace['auth'], headers: object]>([
  ['api-key', { 'api-key': 'k' }],
  ['bearer', { authorization: 'Bearer k' }],
])('auth: %s', (auth, headers) => {
  const { authorize } = createDialect('azure', () => NOW, undefined, place({ auth }))
  const unsigned = { host: 'a.example', path: '/', query: '', headers: {}, body: Buffer.alloc(0) }
  expect(authorize('k', unsigned, NOW)).toEqual(headers)
  const keys = { accessKeyId: 'a', secretAccessKey: 'b', region: 'eu-central-1' }
  expect(() => authorize(keys, unsigned, NOW)).toThrow('only Bedrock')
})

test('a stream begins with filter results, which nobody is shown, and ends with some: no text is made up, and none is lost', () => {
  const chunk = (choices: object[], more: object = {}) =>
    JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'gpt-4o', choices, ...more })
  const seen = chunksSeen([
    JSON.stringify({
      choices: [],
      created: 0,
      id: '',
      model: '',
      object: '',
      prompt_filter_results: [{ prompt_index: 0 }],
    }),
    chunk([{ index: 0, delta: { role: 'assistant', content: '' }, content_filter_results: {}, finish_reason: null }]),
    chunk([{ index: 0, delta: { content: 'Fine' }, content_filter_results: { hate: { filtered: false } } }]),
    chunk([{ index: 0, delta: {}, finish_reason: 'content_filter' }]),
    chunk([{ index: 0, finish_reason: null, content_filter_offsets: { check_offset: 4 } }]),
  ])
  expect(seen.map(({ model }) => model)).toEqual(Array(4).fill('chat-small'))
  expect(seen.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? '')).join('')).toBe('Fine')
  expect(seen.flatMap(({ choices }) => choices.map(each => each.finish_reason)).filter(Boolean)).toEqual([
    'content_filter',
  ])
})

test.each<[name: string, status: number, body: object, failure: object]>([
  [
    'a filtered prompt',
    400,
    {
      error: {
        message: 'The prompt was filtered. See https://go.example.com/x',
        type: null,
        param: 'prompt',
        code: 'content_filter',
        innererror: { code: 'ResponsibleAIPolicyViolation', content_filter_result: { hate: { filtered: true } } },
      },
    },
    { code: 'content_filter', message: 'The prompt was filtered. See [address]', param: 'prompt' },
  ],
  ['a bad key', 401, { error: { code: '401', message: 'Access denied' } }, { code: 'upstream_auth' }],
  ['a bad token', 401, { statusCode: 401, message: 'Unauthorized' }, { code: 'upstream_auth' }],
  [
    'no such deployment',
    404,
    { error: { code: 'DeploymentNotFound', message: 'It does not exist.' } },
    { code: 'model_not_found', message: 'It does not exist.' },
  ],
])('%s', (_name, status, body, failure) => {
  const { dialect } = createDialect('azure', () => NOW, undefined, place({}))
  expect(dialect.decodeError(status, {}, Buffer.from(JSON.stringify(body)))).toMatchObject(failure)
})
