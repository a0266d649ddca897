/** Requests to OpenAI-compatible providers: rules for all of them, and inputs that cases cannot hold. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { PROFILE_NAMES } from '../../../../src/providers/dialects/dialect-names.ts'
import { createDialect } from '../../../../src/providers/dialects/index.ts'
import { CHAT_PARAMETERS } from '../../../../src/providers/dialects/json-bytes.ts'
import type { AzurePlace } from '../../../../src/providers/dialects/openai/index.ts'
import { nineOf } from '../../../../src/providers/dialects/openai/messages.ts'
import { type CompatibleName, PROFILES, QUIRKS } from '../../../../src/providers/dialects/openai/quirks.ts'
import { countsOf } from '../../../helpers/counts.ts'
import { chatOf, NOW, sent, target } from './support.ts'

const counts = countsOf('corpus')

const COMPATIBLE = Object.keys(QUIRKS) as CompatibleName[]
const HI = '"messages":[{"role":"user","content":"hi"}]'

describe.each(COMPATIBLE)('%s', provider => {
  test('a request without differences is sent byte for byte', () => {
    const text =
      '\n{ "temperature" : 1.0e0 ,\t"model": "m", "max_tokens":1, "messages": [ {"role":"user","content":"\\u00e9\\/é"} ] }\n'
    const { text: upstream } = sent(provider, text, { capField: 'max_tokens' })
    expect(upstream).toBe(text.replace('"m"', '"some-mini"').replace('_tokens":1', '_tokens":100'))
  })

  test('if only the messages differ, only they are rewritten', () => {
    const text =
      '{"temperature":1.0e0,"model":"m","max_tokens":1,"messages":[{"role":"developer","content":"\\u00e9"},{"role":"user","content":"a"}]}'
    const { text: upstream } = sent(provider, text, { capField: 'max_tokens' })
    expect(upstream).toMatch(
      /^\{"temperature":1\.0e0,"model":"some-mini","max_tokens":100,"messages":\[\{"role":"(system|developer)"/,
    )
  })

  test('has its own name and gets a bearer token', () => {
    const { dialect, authorize } = createDialect(provider, () => NOW)
    expect(dialect.name).toBe(provider)
    const { path, headers, body } = dialect.encodeRequest(chatOf(`{"model":"m",${HI}}`), target())
    const unsigned = { host: 'a.example', path, query: '', headers, body }
    expect(authorize('k', unsigned, NOW)).toEqual({ authorization: 'Bearer k' })
  })
})

test.each<[auth: AzurePlace['auth'], headers: object]>([
  ['api-key', { 'api-key': 'k' }],
  ['bearer', { authorization: 'Bearer k' }],
])('Azure, auth: %s', (auth, headers) => {
  const { authorize } = createDialect('azure', () => NOW, undefined, { api: 'v1', apiVersion: null, auth })
  const unsigned = { host: 'a.example', path: '/', query: '', headers: {}, body: Buffer.alloc(0) }
  expect(authorize('k', unsigned, NOW)).toEqual(headers)
  const keys = { accessKeyId: 'a', secretAccessKey: 'b', region: 'eu-central-1' }
  expect(() => authorize(keys, unsigned, NOW)).toThrow('bedrock-invoke only')
})

const TOOL = '"tools":[{"type":"function","function":{"name":"f"}}]'
const ASKED = '{"role":"user","content":"a"}'
const FILE = '{"type":"file","file":{"file_data":"data:application/pdf;base64,YQ=="}}'

test.each<[provider: CompatibleName, place: string, members: string]>([
  ...(['mistral', 'deepseek', 'perplexity', 'together', 'zai'] as const).flatMap(
    (provider): [CompatibleName, string, string][] => [
      [provider, 'functions', '"functions":[{"name":"a"}]'],
      [provider, 'modalities', '"modalities":["text","audio"]'],
      [provider, 'messages[1].role', `"messages":[${ASKED},{"role":"function","name":"f","content":"a"}]`],
      [
        provider,
        'messages[1].function_call',
        `"messages":[${ASKED},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}}]`,
      ],
    ],
  ),
  ...(['deepseek', 'groq', 'together', 'zai'] as const).flatMap((provider): [CompatibleName, string, string][] => [
    [provider, 'web_search_options', '"web_search_options":{}'],
    [provider, 'messages[0].content[0].type', `"messages":[{"role":"user","content":[${FILE}]}]`],
  ]),
  ...(['deepseek', 'groq', 'zai'] as const).map((provider): [CompatibleName, string, string] => [
    provider,
    'n',
    '"n":2',
  ]),
  [
    'deepseek',
    'messages[0].content[0].type',
    '"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}}]}]',
  ],
  [
    'groq',
    'messages[1].content[0].type',
    `"messages":[${ASKED},{"role":"assistant","content":[{"type":"image_url"}]}]`,
  ],
  [
    'together',
    'messages[0].content[0].input_audio.format',
    '"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"YQ==","format":"mp3"}}]}]',
  ],
  ['zai', 'stop', '"stop":["a","b"]'],
  ['zai', 'tool_choice', `"tool_choice":"required",${TOOL}`],
  ['zai', 'tool_choice', `"tool_choice":{"type":"function","function":{"name":"f"}},${TOOL}`],
  [
    'deepseek',
    'response_format.json_schema.schema.type',
    '"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"array"}}}',
  ],
  ['perplexity', 'messages[1]', `"messages":[${ASKED},{"role":"assistant","content":"b"}]`],
])('%s refuses %s, which it does not support', (provider, param, members) => {
  const text = members.startsWith('"messages"') ? `{"model":"m",${members}}` : `{"model":"m",${HI},${members}}`
  expect(() => sent(provider, text)).toThrow(expect.objectContaining({ code: 'unsupported_parameter', param }))
})

test.each(['api.openai.com', 'eu.api.openai.com'])('%s fetches no files', host => {
  const { dialect } = createDialect('openai', () => NOW, undefined, undefined, host)
  const encode = (data: string) => () =>
    dialect.encodeRequest(chatOf(`{"model":"m","messages":[{"role":"user","content":[${data}]}]}`), target())
  const file = (data: string) => `{"type":"file","file":{"filename":"a.pdf","file_data":"${data}"}}`
  const param = 'messages[0].content[0].file.file_data'
  expect(encode(file('https://example.com/a.pdf'))).toThrow(
    expect.objectContaining({ code: 'unsupported_parameter', param }),
  )
  expect(encode(file('data:application/pdf;base64,YQ=='))().body.toString()).toContain(
    file('data:application/pdf;base64,YQ=='),
  )
  expect(encode('{"type":"file","file":{"file_id":"f"}}')().body.toString()).toContain('{"file_id":"f"}')
})

test('the configuration accepts the profiles', () => {
  expect([...PROFILE_NAMES].toSorted()).toEqual(Object.keys(PROFILES).toSorted())
})

describe('Mistral', () => {
  test('gets only the parameters that it supports', () => {
    const fields = Object.fromEntries(Array.from(CHAT_PARAMETERS, name => [name, 'x']))
    const body = { ...fields, model: 'm', messages: [], functions: [], modalities: ['text'], unheard_of: 1 }
    const { text } = sent('mistral', JSON.stringify(body))
    expect(Object.keys(JSON.parse(text)).filter(name => !QUIRKS.mistral.takes?.has(name))).toEqual([])
  })

  test('gets unique call ids of nine letters and digits', () => {
    const seen = new Map<string, string>()
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), id => {
        const nine = nineOf(id)
        expect(nine).toMatch(/^[a-zA-Z0-9]{9}$/)
        expect(nineOf(nine)).toBe(nine)
        expect(seen.get(nine) ?? id).toBe(id)
        seen.set(nine, id)
      }),
      { numRuns: counts(125, 20_000) },
    )
  })
})

test('inherited names change nothing', () => {
  const messages = '[{"role":"__proto__","content":"a"},{"role":"user","__proto__":{"x":1},"content":"b"}]'
  for (const provider of ['deepseek', 'groq', 'zai'] as const) {
    expect(sent(provider, `{"model":"m","messages":${messages}}`).text).toContain(`"messages":${messages}`)
  }
  expect(({} as { x?: number }).x).toBeUndefined()
})
