/** Marks of what is worth keeping, which OpenAI and most of its relatives are not sent. */
import { describe, expect, test } from 'vitest'
import { createDialect, type DialectName } from '../../../../src/providers/dialects/index.ts'
import { QUIRKS, type RelativeName } from '../../../../src/providers/dialects/openai/quirks.ts'
import { chatOf, NOW, sent, target } from './support.ts'

const MARK = { cache_control: { type: 'ephemeral', ttl: '1h' } }
const text = (words: string, mark: object = {}) => ({ type: 'text', text: words, ...mark })
const user = (...content: object[]) => ({ role: 'user', content })
const call = (mark: object = {}) => ({
  id: 'abcdefghi',
  type: 'function',
  function: { name: 'f', arguments: '{"cache_control":1}' },
  ...mark,
})
const tool = (mark: object = {}) => ({
  type: 'function',
  function: { name: 'f', parameters: { type: 'object', properties: { cache_control: { type: 'string' } } } },
  ...mark,
})
const NAMES: readonly DialectName[] = ['openai', 'azure', ...(Object.keys(QUIRKS) as RelativeName[])]

/** The same request, with marks and without. */
const request = (mark: object) => ({
  temperature: 0.5,
  model: 'm',
  tools: [tool(), tool(mark)],
  messages: [
    user(text('a'), text('b', mark)),
    { role: 'assistant', content: [text('c', mark), text('d')], tool_calls: [call(mark)] },
    { role: 'tool', tool_call_id: 'abcdefghi', content: [text('e', mark), text('f')] },
    user(text('g'), { type: 'image_url', image_url: { url: 'https://example.com/a.png' }, ...mark }),
  ],
})

test.each(NAMES)('%s is sent no mark, and nothing is said to be lost', name => {
  const { text: marked, dropped } = sent(name, JSON.stringify(request(MARK)))
  expect(dropped).toEqual([])
  expect(JSON.parse(marked)).toEqual(JSON.parse(sent(name, JSON.stringify(request({}))).text))
})

test.each(NAMES)('%s: a body that cannot be spliced loses its marks too', name => {
  const chat = { ...chatOf(JSON.stringify(request(MARK))), bytes: Buffer.from('{"cache_control"') }
  const { body } = createDialect(name, () => NOW).dialect.encodeRequest(chat, target())
  expect(JSON.parse(body.toString())).toEqual(JSON.parse(sent(name, JSON.stringify(request({}))).text))
})

test('only what has marks is written anew', () => {
  const written = '{"temperature":1.0e0,"model":"m","tools":[ ],"messages":[{"role":"user","content":[{"type":"text",'
  const { text: upstream } = sent('openai', `${written}"text":"\\u00e9","cache_control":null}]}]}`)
  expect(upstream).toBe(
    '{"temperature":1.0e0,"model":"some-mini","tools":[ ],"messages":[{"role":"user","content":"é"}],"max_completion_tokens":100}',
  )
})

test('the word alone, in a text or a schema, changes no byte', () => {
  const written = `{ "model":"m","tools":[${JSON.stringify(tool())} ],"messages":[ {"role":"user","content":"\\"cache_control\\""}],"max_completion_tokens":1}`
  const { text: upstream } = sent('openai', written)
  expect(upstream).toBe(written.replace('"m"', '"some-mini"').replace('_tokens":1', '_tokens":100'))
})

describe('what a mark made a list is a text again', () => {
  const system = (...content: object[]) => ({ role: 'system', content })
  test.each<[string, message: object, content: unknown]>([
    ['one text', user(text('a', MARK)), 'a'],
    ['texts of the system with a blank line between', system(text('a', MARK), text('\n\nb')), 'a\n\nb'],
    ['texts of the system that would run together', system(text('a', MARK), text('b')), [text('a'), text('b')]],
    ['texts of the user, which may be several', user(text('a', MARK), text(' b')), [text('a'), text(' b')]],
    ['a text that says more', user(text('a', { ...MARK, more: 1 })), [text('a', { more: 1 })]],
    ['one that had no mark', user(text('a')), [text('a')]],
  ])('%s', (_name, message, content) => {
    const { text: upstream } = sent(
      'openai',
      JSON.stringify({ model: 'm', messages: [message, user(text('z', MARK))] }),
    )
    expect(JSON.parse(upstream).messages[0].content).toEqual(content)
  })
})

describe('who takes them', () => {
  test.each([
    ['openrouter.ai', true],
    ['eu.openrouter.ai', true],
    ['api.openai.com', false],
    ['notopenrouter.ai', false],
    ['openrouter.ai.example.com', false],
  ])('%s: %s', (host, isKept) => {
    const { dialect } = createDialect('openai', () => NOW, undefined, undefined, host)
    const { body, dropped } = dialect.encodeRequest(chatOf(JSON.stringify(request(MARK))), target())
    const { messages, tools } = JSON.parse(body.toString())
    expect({ messages, tools }).toEqual({
      messages: isKept ? request(MARK).messages : expect.not.arrayContaining([request(MARK).messages[0]]),
      tools: request(isKept ? MARK : {}).tools,
    })
    expect(dropped).toEqual([])
  })
})
