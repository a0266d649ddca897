/**
 * Names that every object inherits: `constructor` as a type, a role or a finish reason is handled like any unknown word. Requests
 * and answers with such names are handled or refused, and never throw another error.
 */
import { expect, test } from 'vitest'
import { type ChatRequest, type InboundDialect, isRefusal } from '#contract'
import { messagesInbound } from '../../../src/providers/dialects/inbound/messages/index.ts'
import { responsesInbound } from '../../../src/providers/dialects/inbound/responses/index.ts'
import { createDialect, type DialectName } from '../../../src/providers/dialects/index.ts'
import { VOICES } from '../../helpers/voices/index.ts'
import { chatOf, target, view } from './anthropic/helpers.ts'

const WORDS = ['constructor', '__proto__', 'toString', 'hasOwnProperty']
const MODELS: Readonly<Record<string, string>> = { bedrock: 'us.anthropic.claude-opus-5', anthropic: 'claude-opus-5' }
const HI = { role: 'user', content: 'Hi' }

/** JSON of a request part in which `W` is the word. */
const REQUESTS: Readonly<Record<string, object>> = {
  part: { messages: [{ role: 'user', content: [{ type: 'W', W: {} }] }] },
  'part of a result': {
    messages: [
      HI,
      { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'W', arguments: '{"W":1}' } }] },
      { role: 'tool', tool_call_id: 'a', content: [{ type: 'W', W: {} }] },
    ],
  },
  role: { messages: [HI, { role: 'W', content: 'a' }] },
  call: {
    messages: [
      HI,
      { role: 'assistant', tool_calls: [{ id: 'W', type: 'W', function: { name: 'W', arguments: '{}' }, W: {} }] },
      HI,
    ],
  },
  picture: { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:W;base64,AAAA' } }] }] },
  sound: {
    messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'W' } }] }],
  },
  file: { messages: [{ role: 'user', content: [{ type: 'file', file: { file_data: 'data:W;base64,AAAA' } }] }] },
  tool: { tools: [{ type: 'W', W: { name: 'a' } }] },
  schema: {
    tools: [
      {
        type: 'function',
        function: {
          name: 'W',
          parameters: { type: 'W', format: 'W', properties: { W: { $ref: '#/W' } }, required: ['W'] },
        },
      },
    ],
  },
  answer: {
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'W', schema: { properties: { W: { $ref: '#/W' } } } },
    },
  },
  format: { response_format: { type: 'W' } },
  choice: { tools: [{ type: 'function', function: { name: 'a' } }], tool_choice: 'W' },
  effort: { reasoning_effort: 'W' },
  tier: { service_tier: 'W', user: 'W', stop: 'W', verbosity: 'W' },
}

const dialectOf = (name: string) => createDialect(name as DialectName, () => 0).dialect
const rows = (names: readonly string[]) => names.flatMap(name => WORDS.map(word => [name, word] as const))

test.each(rows(Object.keys(VOICES)))('%s: requests with %s', (name, word) => {
  for (const [what, fields] of Object.entries(REQUESTS)) {
    const request = JSON.parse(JSON.stringify(fields).replaceAll('W', word)) as Partial<ChatRequest>
    expect(() => sentOrRefused(name, request), what).not.toThrow()
  }
})

function sentOrRefused(name: string, fields: Partial<ChatRequest>): void {
  try {
    const { body } = dialectOf(name).encodeRequest(chatOf(fields), target(MODELS[name] ?? 'a-model'))
    expect(body.toString()).not.toContain('native code')
  } catch (error) {
    if (!isRefusal(error)) throw error
    expect(error.status).toBe(400)
  }
}

test.each(rows(Object.keys(VOICES)))('%s: answers with %s', (name, word) => {
  const voice = VOICES[name]!
  const asked = { body: {}, json: {} } as never
  for (const say of [{}, { calls: ['look'] }]) {
    for (let nth = 0, isMore = true; isMore; nth++) {
      let texts = 0
      const spoil = (json: string) =>
        json.replace(/(?<=:)"[^"\\]*"/g, text => (texts++ === nth ? JSON.stringify(word) : text))
      const whole = dialectOf(name).decodeAnswer(voice.whole({ ...say, spoil }, asked), view())
      const most = texts
      texts = 0
      const decoder = dialectOf(name).decodeStream(view())
      const items = voice.stream({ ...say, spoil }, asked).flatMap(({ bytes }) => [...decoder.push(bytes)])
      expect(JSON.stringify([whole, items, decoder.end()])).not.toContain('native code')
      isMore = nth < Math.max(most, texts)
    }
  }
})

test.each(rows(Object.keys(VOICES)))('%s: errors with %s', (name, word) => {
  expect(errorWith(name, word)).toEqual(errorWith(name, 'unheard'))
})

function errorWith(name: string, type: string): string {
  const body = JSON.stringify({
    type,
    __type: type,
    code: type,
    error: { type, code: type, status: type, message: 'A' },
  })
  const failure = dialectOf(name).decodeError(429, { 'x-amzn-errortype': type }, Buffer.from(body))
  return JSON.stringify(failure).replaceAll(type, 'W')
}

const VIEW = { exchange: 'ex_7', createdAt: 1_790_000_000 }

/** A body in which `W` is the word. */
const BODIES: readonly (readonly [format: InboundDialect, body: object])[] = [
  ...[
    { messages: [{ role: 'user', content: [{ type: 'W', W: {} }] }] },
    { messages: [{ role: 'W', content: 'a' }] },
    { messages: [HI], tools: [{ type: 'W', name: 'a' }] },
    { messages: [HI], tool_choice: { type: 'W' } },
    { messages: [HI], thinking: { type: 'W' } },
    { messages: [HI], W: 1 },
    { messages: [{ role: 'user', content: [{ type: 'image', source: { type: 'W', media_type: 'W', data: 'A' } }] }] },
    {
      messages: [
        { role: 'user', content: [{ type: 'document', source: { type: 'base64', media_type: 'W', data: 'AAAA' } }] },
      ],
    },
  ].map(body => [messagesInbound, { max_tokens: 10, ...body }] as const),
  ...[
    { input: [{ type: 'W', W: {} }] },
    { input: [{ role: 'W', content: 'a' }] },
    { input: [{ role: 'user', content: [{ type: 'W' }] }] },
    { input: [{ role: 'user', content: [{ type: 'input_file', file_data: 'data:W;base64,AAAA' }] }] },
    { input: 'a', tools: [{ type: 'W', name: 'a' }] },
    { input: 'a', tool_choice: { type: 'W' } },
    { input: 'a', text: { format: { type: 'W' } } },
    { input: 'a', include: ['W'], W: 1 },
  ].map(body => [responsesInbound, body] as const),
]

test.each(WORDS)('bodies of other formats with %s', word => {
  for (const [format, given] of BODIES) {
    const text = JSON.stringify({ model: 'm', ...given }).replaceAll('W', word)
    expect(readOrRefused(format, text), text).not.toContain('native code')
  }
})

function readOrRefused(format: InboundDialect, text: string): string {
  try {
    return JSON.stringify(format.decodeRequest(JSON.parse(text), VIEW))
  } catch (error) {
    if (!isRefusal(error)) throw error
    expect(error.status).toBe(400)
    return error.message
  }
}
