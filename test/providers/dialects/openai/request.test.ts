/** What relatives of OpenAI are sent, from the bytes of a client. */
import { describe, expect, test } from 'vitest'
import { createDialect } from '../../../../src/providers/dialects/index.ts'
import { CHAT_PARAMETERS } from '../../../../src/providers/dialects/json-bytes.ts'
import { QUIRKS, type RelativeName } from '../../../../src/providers/dialects/openai/quirks.ts'
import { chatOf, NOW, sent, target } from './support.ts'

const RELATIVES = Object.keys(QUIRKS) as RelativeName[]
const HI = '"messages":[{"role":"user","content":"hi"}]'

describe('nothing is lost without a word', () => {
  test.each([
    ['functions', `{"functions":[{"name":"a"}],"model":"m",${HI}}`, 'functions'],
    ['sound', `{"modalities":["text","audio"],"model":"m",${HI}}`, 'modalities'],
  ])('%s that Mistral does not have are refused', (_name, text, param) => {
    expect(() => sent('mistral', text)).toThrow(expect.objectContaining({ code: 'unsupported_parameter', param }))
  })

  test.each([
    ['functions', `{"functions":[],"model":"m",${HI}}`],
    ['functions', `{"functions":null,"model":"m",${HI}}`],
    ['modalities', `{"modalities":["text"],"model":"m",${HI}}`],
  ])('%s that ask for nothing are not', (name, text) => {
    expect(JSON.parse(sent('mistral', text).text)).not.toHaveProperty(name)
  })

  test.each<[relative: RelativeName, fields: object, dropped: string[]]>([
    ['mistral', { user: 'u', logit_bias: { 1: 2 }, verbosity: 'low' }, ['user', 'logit_bias', 'verbosity']],
    [
      'mistral',
      { logprobs: true, top_logprobs: 2, web_search_options: {} },
      ['logprobs', 'top_logprobs', 'web_search_options'],
    ],
    ['mistral', { user: null, store: false, service_tier: 'auto', logprobs: false }, []],
    ['mistral', { stream: true, stream_options: { include_usage: true }, max_tokens: 7 }, []],
    [
      'groq',
      { logprobs: true, top_logprobs: 2, logit_bias: { 1: 2 }, user: 'u' },
      ['logprobs', 'top_logprobs', 'logit_bias'],
    ],
    ['groq', { logprobs: false }, []],
  ])('%s: %j', (relative, fields, dropped) => {
    const { text, dropped: named } = sent(relative, JSON.stringify({ model: 'm', messages: [], ...fields }))
    expect(named).toEqual(dropped)
    const body = JSON.parse(text)
    for (const name of dropped) expect(body).not.toHaveProperty(name)
    expect(body).not.toHaveProperty('store')
  })

  test.each([
    ['messages.name', { role: 'user', content: 'a', name: 'ann' }],
    ['messages.refusal', { role: 'assistant', content: 'a', refusal: 'No.' }],
  ])('%s is named once, however often it is left out', (name, message) => {
    for (const relative of ['mistral', 'groq'] as const) {
      const text = JSON.stringify({ model: 'm', messages: [message, message] })
      expect(sent(relative, text).dropped).toEqual([name])
    }
  })
})

describe('what a relative is sent', () => {
  test.each<[name: string, relative: RelativeName, text: string, upstream: string]>([
    [
      'Mistral: its names for the seed and the cap, and its word for having to call',
      'mistral',
      `{"seed":7,"max_completion_tokens":9,"model":"m","tool_choice":"required",${HI}}`,
      `{"model":"some-mini","tool_choice":"any",${HI},"max_tokens":100,"random_seed":7}`,
    ],
    [
      'Mistral: what it calls something else and the client too',
      'mistral',
      `{"seed":7,"random_seed":8,"model":"m",${HI}}`,
      `{"random_seed":8,"model":"some-mini",${HI},"max_tokens":100}`,
    ],
    [
      'Mistral: a choice that is an object, and fields of its own',
      'mistral',
      `{"model":"m","tool_choice":{"type":"function","function":{"name":"a"}},"safe_prompt":true,"prompt_mode":"reasoning",${HI}}`,
      `{"model":"some-mini","tool_choice":{"type":"function","function":{"name":"a"}},"safe_prompt":true,"prompt_mode":"reasoning",${HI},"max_tokens":100}`,
    ],
    [
      'Mistral: no options of the stream',
      'mistral',
      `{"model":"m","stream":true,"stream_options":{"include_usage":true},${HI}}`,
      `{"model":"some-mini","stream":true,${HI},"max_tokens":100}`,
    ],
    [
      'Perplexity: no options of the stream',
      'perplexity',
      `{"model":"m","stream":true,${HI}}`,
      `{"model":"some-mini","stream":true,${HI},"max_tokens":100}`,
    ],
    [
      'DeepSeek: its name for the cap, and usage in the stream',
      'deepseek',
      `{"model":"m","max_completion_tokens":9,"stream":true,${HI}}`,
      `{"model":"some-mini","stream":true,${HI},"max_tokens":100,"stream_options":{"include_usage":true}}`,
    ],
    [
      'Together: its name for the cap',
      'together',
      `{"model":"m",${HI}}`,
      `{"model":"some-mini",${HI},"max_tokens":100}`,
    ],
    ['Z.ai: its name for the cap', 'zai', `{"model":"m",${HI}}`, `{"model":"some-mini",${HI},"max_tokens":100}`],
    [
      "Groq: the target's name for the cap",
      'groq',
      `{"model":"m","logprobs":false,${HI}}`,
      `{"model":"some-mini",${HI},"max_completion_tokens":100}`,
    ],
  ])('%s', (_name, relative, text, upstream) => {
    expect(sent(relative, text)).toEqual({ text: upstream, dropped: [] })
  })

  test.each(RELATIVES)('%s: bytes in which nothing differs stay as they were written', relative => {
    const text =
      '\n{ "temperature" : 1.0e0 ,\t"model": "m", "max_tokens":1, "messages": [ {"role":"user","content":"\\u00e9\\/é"} ] }\n'
    const { text: upstream } = sent(relative, text, { capField: 'max_tokens' })
    expect(upstream).toBe(text.replace('"m"', '"some-mini"').replace('_tokens":1', '_tokens":100'))
  })

  test.each(RELATIVES)('%s: where only the messages differ, only they are written anew', relative => {
    const text =
      '{"temperature":1.0e0,"model":"m","max_tokens":1,"messages":[{"role":"developer","content":"\\u00e9"}]}'
    const { text: upstream } = sent(relative, text, { capField: 'max_tokens' })
    expect(upstream.startsWith('{"temperature":1.0e0,"model":"some-mini","max_tokens":100,"messages":[{"role":"')).toBe(
      true,
    )
  })

  test.each(RELATIVES)('%s: a body that cannot be spliced says the same', relative => {
    const text = `{"model":"m","seed":7,"logprobs":true,"tool_choice":"required","stream":true,"messages":[{"role":"developer","content":"a","name":"n"}]}`
    const spliced = sent(relative, text)
    const { dialect } = createDialect(relative, () => NOW)
    const { body, dropped } = dialect.encodeRequest({ ...chatOf(text), bytes: Buffer.from('{') }, target())
    expect(JSON.parse(body.toString())).toEqual(JSON.parse(spliced.text))
    expect(dropped).toEqual(spliced.dropped)
  })

  test.each(RELATIVES)('%s: another attempt, at somebody else, finds it unchanged', relative => {
    const chat = chatOf(`{"model":"m","seed":7,"messages":[{"role":"developer","content":"a","name":"n"}]}`)
    const before = { bytes: chat.bytes.toString(), body: structuredClone(chat.body) }
    createDialect(relative, () => NOW).dialect.encodeRequest(chat, target())
    expect({ bytes: chat.bytes.toString(), body: chat.body }).toEqual(before)
  })

  test.each(RELATIVES)('%s is asked at the path of chat completions, with a bearer token', relative => {
    const { dialect, authorize } = createDialect(relative, () => NOW)
    expect(dialect.name).toBe(relative)
    const { path, headers, body } = dialect.encodeRequest(chatOf(`{"model":"m",${HI}}`), target())
    expect({ path, headers }).toEqual({ path: '/chat/completions', headers: { accept: 'application/json' } })
    const unsigned = { host: 'a.example', path, query: '', headers, body }
    expect(authorize('k', unsigned, NOW)).toEqual({ authorization: 'Bearer k' })
  })
})

test('of all that a client may say, Mistral is sent only what it knows', () => {
  const fields = Object.fromEntries(Array.from(CHAT_PARAMETERS, name => [name, 'x']))
  const body = { ...fields, model: 'm', messages: [], functions: [], modalities: ['text'], unheard_of: 1 }
  const { text } = sent('mistral', JSON.stringify(body))
  expect(Object.keys(JSON.parse(text)).filter(name => !QUIRKS.mistral.takes?.has(name))).toEqual([])
})
