/** The attributes of spans that contain prompts and answers. */
import { describe, expect, test } from 'vitest'
import type { ChatCompletion, ChatMessage, Delta } from '#contract'
import { createRedactor } from '../../../src/observe/redact.ts'
import {
  type Content,
  contentAttributes,
  MAX_ATTRIBUTE,
  MAX_TEXT,
  TRUNCATED,
} from '../../../src/observe/telemetry/content.ts'

const KNOWN = 'the-hidden-word-of-the-operator-0123456789'
const { text: redact } = createRedactor([KNOWN])

function attributes(changes: Partial<Content>) {
  const all = contentAttributes({ messages: [], isSystemApart: false, answer: null, isCut: false, ...changes }, redact)
  return Object.fromEntries(Object.entries(all).map(([name, json]) => [name.replace('gen_ai.', ''), JSON.parse(json)]))
}
const inputOf = (...messages: readonly object[]) =>
  attributes({ messages: messages as readonly ChatMessage[] })['input.messages']
const answerOf = (message: Delta, finish_reason: string | null = 'stop'): ChatCompletion => ({
  id: 'a',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message, finish_reason }],
})
const user = (content: unknown) => ({ role: 'user', content }) as ChatMessage

describe('secrets', () => {
  test.each([
    ['known', KNOWN],
    ['of Tollgate', 'tg_live_0123456789abcdef'],
    ['of a provider', 'sk-proj-0123456789abcdef'],
  ])('%s: redacted in every field', (_, secret) => {
    const call = { id: secret, function: { name: secret, arguments: JSON.stringify({ deep: [secret] }) } }
    const messages = [
      { role: 'system', content: `my ${secret} here` },
      user([{ type: 'text', text: secret }, { type: secret }]),
      { role: 'assistant', content: secret, refusal: secret, reasoning_content: secret, tool_calls: [call] },
      { role: 'assistant', function_call: { name: secret, arguments: secret } },
      { role: 'assistant', tool_calls: [{ id: 'c', type: 'custom', custom: { name: 'n', input: secret } }] },
      { role: 'tool', tool_call_id: secret, content: [{ type: 'text', text: secret }] },
      { role: secret, content: 'x' },
    ] as unknown as readonly ChatMessage[]
    for (const isSystemApart of [true, false]) {
      const content = { messages, isSystemApart, answer: answerOf(messages[2] as Delta, secret), isCut: false }
      const json = JSON.stringify(contentAttributes(content, redact))
      expect(json).toContain('[secret]')
      expect(json).not.toContain(secret)
    }
  })

  test('no part of a secret remains where a text is cut', () => {
    for (const before of [MAX_TEXT - 1, MAX_TEXT - 20, MAX_TEXT - KNOWN.length, MAX_TEXT, MAX_TEXT + 4096 - 20]) {
      // Redacting the secrets at the start makes the text much shorter.
      for (const start of ['', `${KNOWN} `.repeat(90)]) {
        const text = `${start}${'x'.repeat(Math.max(0, before - start.length))}${KNOWN}${'y'.repeat(10_000)}`
        const [{ parts }] = inputOf(user(text))
        expect(parts[0].content).toMatch(TRUNCATED)
        expect(parts[0].content).not.toContain('the-hid')
        expect(parts[0].content.length).toBeLessThanOrEqual(MAX_TEXT + TRUNCATED.length)
      }
    }
  })

  test.each([
    ['that ended early', false],
    ['that was kept in part', true],
  ])('no part of a secret remains in an answer %s', (_, isCut) => {
    for (const missing of [1, 3, KNOWN.length - 4]) {
      const half = KNOWN.slice(0, -missing)
      const call = { id: 'c', function: { name: 'f', arguments: `{"a":"${half}` } }
      const message = { reasoning_content: half, content: `Well, ${half}`, tool_calls: [call] }
      const sent = attributes({ answer: answerOf(message, null), isCut })['output.messages']
      const parts = [
        { type: 'reasoning', content: '' },
        { type: 'text', content: 'Well, ' },
        { type: 'tool_call', id: 'c', name: 'f', arguments: '{"a":"' },
        ...(isCut ? [{ type: 'text', content: TRUNCATED }] : []),
      ]
      expect(sent).toEqual([{ role: 'assistant', parts }])
    }
  })

  test('an answer that was kept in part has that part, a mark and its finish reason', () => {
    const message = { reasoning_content: 'hm', content: 'Well, the'.repeat(1000) }
    const sent = attributes({ answer: answerOf(message), isCut: true })['output.messages']
    const parts = [
      { type: 'reasoning', content: 'hm' },
      { type: 'text', content: message.content },
      { type: 'text', content: TRUNCATED },
    ]
    expect(sent).toEqual([{ role: 'assistant', parts, finish_reason: 'stop' }])
  })

  const SLASHED = 'abc/def+SECRET/0123456789=='
  const slashed = createRedactor([SLASHED]).text
  const escaped = SLASHED.replaceAll('/', '\\/')
  test.each([
    ['slashes', `{"t":"${escaped}","${escaped}":[{"u":"${escaped}"}]}`],
    ['letters', `{"t":"${SLASHED.replace('S', '\\u0053')}"}`],
    ['slashes, in incomplete JSON', `{"t":"${escaped}`],
    ['slashes, in a text that is too long', `{"t":"${escaped}${'x'.repeat(MAX_TEXT)}"}`],
  ])('no secret remains in arguments that escape its %s', (_, text) => {
    const call = { id: 'c', function: { name: 'f', arguments: text } }
    const messages = [{ role: 'assistant', tool_calls: [call] }] as unknown as readonly ChatMessage[]
    const sent = contentAttributes({ messages, isSystemApart: false, answer: null, isCut: false }, slashed)
    expect(JSON.stringify(sent)).toContain('[secret]')
    expect(JSON.stringify(sent)).not.toContain('0123456789')
  })
})

describe('limits', () => {
  test('a long text is cut and marked', () => {
    const [{ parts }] = inputOf(user('é'.repeat(100_000)))
    expect(parts).toEqual([{ type: 'text', content: `${'é'.repeat(MAX_TEXT)}${TRUNCATED}` }])
    expect(inputOf(user('é'.repeat(MAX_TEXT)))[0].parts[0].content).toBe('é'.repeat(MAX_TEXT))
  })

  test('no character is cut in half', () => {
    const [{ parts }] = inputOf(user(`x${'🙂'.repeat(50_000)}`))
    expect(parts[0].content.isWellFormed()).toBe(true)
  })

  test('a long conversation keeps its end, after the number of omitted messages', () => {
    const messages = Array.from({ length: 100 }, (_, index) => user(`${index} ${'x'.repeat(1000)}`))
    const sent = inputOf(...messages)
    expect(sent[0]).toEqual({
      role: 'system',
      parts: [{ type: 'text', content: `… [${100 - (sent.length - 1)} earlier messages truncated]` }],
    })
    expect(sent.at(-1).parts[0].content).toMatch(/^99 /)
    expect(sent.length).toBeGreaterThan(20)
    expect(JSON.stringify(sent).length).toBeLessThan(MAX_ATTRIBUTE + 5000)
  })

  test.each([
    ['messages', () => Array.from({ length: 200_000 }, () => user('x'))],
    ['empty messages', () => Array.from({ length: 200_000 }, () => user(''))],
    ['parts', () => [user(Array.from({ length: 200_000 }, () => ({ type: 'text', text: 'x' })))]],
    ['instructions', () => Array.from({ length: 200_000 }, () => ({ role: 'system', content: 'x' }))],
    ['empty parts', () => [user(Array.from({ length: 200_000 }, () => ({ type: 'text', text: '' })))]],
    ['calls', () => [{ role: 'assistant', tool_calls: Array.from({ length: 200_000 }, () => ({})) }]],
    [
      'long names',
      () => [{ role: 'r'.repeat(9e5), content: [{ type: 't'.repeat(9e5) }], tool_calls: [{ id: 'i'.repeat(9e5) }] }],
    ],
    ['long results', () => [{ role: 'tool', tool_call_id: 'i'.repeat(9e5), content: 'x'.repeat(9e5) }]],
  ])('bound the attributes for any number of %s', (_, messages) => {
    const all = messages() as unknown as readonly ChatMessage[]
    for (const isSystemApart of [true, false]) {
      const sent = contentAttributes({ messages: all, isSystemApart, answer: null, isCut: false }, redact)
      for (const json of Object.values(sent)) expect(json.length).toBeLessThan(2 * MAX_ATTRIBUTE)
    }
  })

  test('bound the attributes for any number of choices', () => {
    const choices = Array.from({ length: 128 }, (_, index) => ({
      index,
      message: { content: 'x'.repeat(9000) },
      finish_reason: 'stop',
    }))
    const answer = { ...answerOf({}), choices }
    expect(JSON.stringify(attributes({ answer })).length).toBeLessThan(2 * MAX_ATTRIBUTE)
  })

  test('of many short choices, those that fit are kept, with the number of omitted ones', () => {
    const choices = Array.from({ length: 600 }, (_, index) => ({ index, message: {}, finish_reason: 'stop' }))
    const sent = attributes({ answer: { ...answerOf({}), choices } })['output.messages']
    expect(sent.length).toBeLessThan(600)
    expect(sent.at(-1)).toEqual({
      role: 'assistant',
      parts: [{ type: 'text', content: `… [${600 - (sent.length - 1)} more choices truncated]` }],
    })
    expect(JSON.stringify(sent).length).toBeLessThan(1.1 * MAX_ATTRIBUTE)
  })

  test('names and ids of parts are never cut at the size limit', () => {
    for (let length = 0; length < 300; length++) {
      const text = 'x'.repeat(MAX_ATTRIBUTE / 2 - 300 + length)
      const call = { id: 'call_1', function: { name: 'weather', arguments: '{}' } }
      const [{ role, parts }] = inputOf({
        role: 'assistant',
        reasoning_content: text,
        content: text,
        tool_calls: [call],
      })
      expect(role).toBe('assistant')
      const last = parts.at(-1)
      if (last.type === 'tool_call') expect(last).toMatchObject({ id: 'call_1', name: 'weather' })
      else expect(last.type).toBe('text')
    }
  })

  test.each(['constructor', '__proto__'])('the finish reason %s is treated as plain text', finish => {
    expect(attributes({ answer: answerOf({}, finish) })['output.messages'][0].finish_reason).toBe(finish)
  })

  test('arguments that are nested too deeply to be encoded stay a string', () => {
    const deep = `${'['.repeat(8000)}${']'.repeat(8000)}`
    const [{ parts }] = inputOf({
      role: 'assistant',
      tool_calls: [{ id: 'c', function: { name: 'f', arguments: deep } }],
    })
    expect(parts[0].arguments).toBe(deep)
  })

  test.each([
    ['null', null],
    ['a number', 7],
    ['a list of invalid values', [null, 7, 'x', []]],
  ])('%s in any field does not throw', (_, value) => {
    const names = ['content', 'refusal', 'reasoning_content', 'tool_calls', 'function_call', 'audio', 'images', 'name']
    for (const name of names) expect(() => inputOf({ role: 'assistant', [name]: value })).not.toThrow()
    expect(() => inputOf({ role: 'tool', tool_call_id: value, content: value })).not.toThrow()
    expect(() => inputOf(user([{ type: value, image_url: value, input_audio: value }]))).not.toThrow()
    expect(() => inputOf({ role: 'assistant', tool_calls: [{ function: value, custom: value }] })).not.toThrow()
  })
})

describe('the structure of the semantic conventions', () => {
  test('a conversation with a call', () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } }
    expect(
      inputOf(
        { role: 'system', content: 'Be brief.' },
        user('Weather in Paris?'),
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: 'rainy, 57°F' },
      ),
    ).toEqual([
      { role: 'system', parts: [{ type: 'text', content: 'Be brief.' }] },
      { role: 'user', parts: [{ type: 'text', content: 'Weather in Paris?' }] },
      {
        role: 'assistant',
        parts: [{ type: 'tool_call', id: 'call_1', name: 'weather', arguments: { city: 'Paris' } }],
      },
      { role: 'tool', parts: [{ type: 'tool_call_response', id: 'call_1', response: 'rainy, 57°F' }] },
    ])
  })

  test('instructions are separate if the provider takes them separately', () => {
    const messages = [
      { role: 'system', content: 'Be brief.' },
      user('Hi'),
      { role: 'developer', content: 'In French.' },
    ]
    expect(attributes({ messages, isSystemApart: true })).toEqual({
      system_instructions: [
        { type: 'text', content: 'Be brief.' },
        { type: 'text', content: 'In French.' },
      ],
      'input.messages': [{ role: 'user', parts: [{ type: 'text', content: 'Hi' }] }],
    })
  })

  test('images, audio and files have their kind only', () => {
    const bytes = 'aGVsbG8gd29ybGQ='
    const sent = inputOf(
      user([
        { type: 'text', text: 'See:' },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${bytes}` } },
        { type: 'image_url', image_url: { url: `https://example.com/${bytes}?sig=1` } },
        { type: 'input_audio', input_audio: { data: bytes, format: 'wav' } },
        { type: 'file', file: { filename: bytes, file_data: bytes } },
        { type: 'hologram', hologram: bytes },
      ]),
    )
    expect(sent[0].parts).toEqual([
      { type: 'text', content: 'See:' },
      { type: 'blob', modality: 'image', mime_type: 'image/png', content: '' },
      { type: 'blob', modality: 'image', content: '' },
      { type: 'blob', modality: 'audio', mime_type: 'audio/wav', content: '' },
      { type: 'blob', modality: 'document', content: '' },
      { type: 'hologram' },
    ])
    const answer = answerOf({ content: null, audio: { data: bytes }, images: [{ image_url: { url: bytes } }] })
    expect(attributes({ answer })['output.messages'][0].parts).toEqual([
      { type: 'blob', modality: 'audio', content: '' },
      { type: 'blob', modality: 'image', content: '' },
    ])
  })

  test('an answer with reasoning, a call and a finish reason; without one, none is added', () => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
    const message = { reasoning_content: 'hm', content: 'Well.', tool_calls: [call] }
    const parts = [
      { type: 'reasoning', content: 'hm' },
      { type: 'text', content: 'Well.' },
      { type: 'tool_call', id: 'c', name: 'f', arguments: { a: 1 } },
    ]
    const finished = (finish: string | null) => attributes({ answer: answerOf(message, finish) })['output.messages']
    expect(finished('tool_calls')).toEqual([{ role: 'assistant', parts, finish_reason: 'tool_call' }])
    expect(finished('stop')).toEqual([{ role: 'assistant', parts, finish_reason: 'stop' }])
    expect(finished(null)).toEqual([{ role: 'assistant', parts }])
  })

  test('empty content has no attributes', () => {
    expect(attributes({})).toEqual({})
  })
})
