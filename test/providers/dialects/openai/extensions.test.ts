/** What the gateway adds to answers, where a client sends it back to somebody who does not know it. */
import { describe, expect, test } from 'vitest'
import { createDialect, type DialectName } from '../../../../src/providers/dialects/index.ts'
import type { AzurePlace } from '../../../../src/providers/dialects/openai/index.ts'
import { chatOf, NOW, target } from './support.ts'

const call = (more: object = {}) => ({
  id: 'D681PevKs',
  type: 'function',
  function: { name: 'f', arguments: '{}' },
  ...more,
})
const EXTRA = { extra_content: { google: { thought_signature: 'x' } } }
const user = { role: 'user', content: 'a' }
const assistant = (more: object = {}, calls = call()) => ({
  role: 'assistant',
  content: 'b',
  ...more,
  tool_calls: [calls],
})
const result = { role: 'tool', content: 'c', tool_call_id: 'D681PevKs' }
const OWN = {
  reasoning_content: 'Hm',
  reasoning_details: [{ type: 'reasoning.text', text: 'Hm' }],
  images: [{ type: 'image_url', image_url: { url: 'data:,' } }],
  ...EXTRA,
}
const AFTER = [user, assistant(OWN, call(EXTRA)), result]
const BARE = [user, assistant(), result]

interface Who {
  readonly name: DialectName
  readonly host?: string
  readonly place?: AzurePlace
}

function encoded({ name, host, place }: Who, text: string) {
  const { dialect } = createDialect(name, () => NOW, undefined, place, host)
  const { body, dropped } = dialect.encodeRequest(chatOf(text), target())
  return { text: body.toString(), dropped }
}

const azure = (api: AzurePlace['api'], apiVersion: string | null = null): Who => ({
  name: 'azure',
  place: { api, apiVersion, auth: 'api-key' },
})
const STRICT: readonly Who[] = [
  { name: 'openai', host: 'api.openai.com' },
  { name: 'openai', host: 'eu.api.openai.com' },
  azure('v1'),
  azure('foundry', '2024-05-01-preview'),
  ...['2024-02-01', '2024-10-21', '2025-01-01-preview'].map(version => azure('classic', version)),
  { name: 'groq' },
  { name: 'mistral' },
]
const KEEPING: readonly Who[] = [
  { name: 'openai' },
  { name: 'openai', host: 'vllm.example.com' },
  { name: 'openai', host: 'api.openai.com.example.com' },
  { name: 'openai', host: 'openrouter.ai' },
]

test.each(STRICT)('$name $host $place.api $place.apiVersion is sent none of it, and nothing is said', who => {
  const { text, dropped } = encoded(who, JSON.stringify({ model: 'm', messages: AFTER }))
  expect(JSON.parse(text).messages).toEqual(BARE)
  expect(dropped).toEqual([])
})

test.each(KEEPING)('$name $host is sent the bytes as they are', who => {
  const messages = JSON.stringify(AFTER).replace('"Hm"', '"\\u0048m"')
  expect(encoded(who, `{"model":"m","messages":${messages}}`).text).toContain(messages)
})

describe('at api.openai.com', () => {
  const who: Who = { name: 'openai', host: 'api.openai.com' }

  test.each<[name: string, member: string]>([
    ['none of it', '"messages":[ {"role":"user","content":"\\u00e9 _content images"}]'],
    [
      'the names in a text and a schema',
      '"messages":[ {"role":"user","content":"\\"images\\" {\\"extra_content\\"}"}]',
    ],
    ['a field of a user, who is to be told', '"messages":[ {"role":"user","content":"a","images":[]}]'],
    [
      'the names in a tool',
      '"messages":[ ],"tools":[ {"type":"function","function":{"name":"f","parameters":{"properties":{"images":{},"reasoning_content":{}}}}}]',
    ],
  ])('%s: the bytes stay', (_name, member) => {
    expect(encoded(who, `{"temperature":1.0e0,"model":"m",${member}}`)).toEqual({
      text: `{"temperature":1.0e0,"model":"some-mini",${member},"max_completion_tokens":100}`,
      dropped: [],
    })
  })

  test('only the messages are written anew, and only once with marks in them', () => {
    const marked = { ...user, content: [{ type: 'text', text: 'a', cache_control: { type: 'ephemeral' } }] }
    const [, ...rest] = AFTER
    const { text } = encoded(who, `{"temperature":1.0e0,"model":"m","messages":${JSON.stringify([marked, ...rest])}}`)
    expect(text).toBe(
      `{"temperature":1.0e0,"model":"some-mini","messages":${JSON.stringify(BARE)},"max_completion_tokens":100}`,
    )
  })
})
