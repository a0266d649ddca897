/** Clients of Anthropic's Messages at providers of all dialects: requests at the providers, and answers at the clients. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Behaviour, type FakeProvider, speak, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { parseSse } from '../helpers/sse.ts'
import { VOICES, type Voice } from '../helpers/voices/index.ts'

/** By the provider's name, which is also the model's. */
const PROVIDERS: Readonly<Record<string, { readonly dialect: string; readonly model: string }>> = {
  openai: { dialect: 'openai', model: 'some-mini' },
  anthropic: { dialect: 'anthropic', model: 'claude-sonnet-4-6' },
  gemini: { dialect: 'gemini', model: 'gemini-3-pro' },
  'gemini-2': { dialect: 'gemini', model: 'gemini-2.5-flash' },
  bedrock: { dialect: 'bedrock', model: 'anthropic.claude-sonnet-4-5-20250929-v1:0' },
  'bedrock-invoke': { dialect: 'bedrock-invoke', model: 'anthropic.claude-sonnet-4-5-20250929-v1:0' },
  cohere: { dialect: 'cohere', model: 'command-a' },
  ollama: { dialect: 'ollama', model: 'qwen3' },
}
const NAMES = Object.keys(PROVIDERS)
const voiceOf = (name: string): Voice => VOICES[PROVIDERS[name]!.dialect]!

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({ script: speak(VOICES['openai']!, 'whole') })
  const common = { base_url: provider.url, api_key: '${KEY}' }
  gateway = await startInProcess({
    env: { KEY: 'test' },
    yaml: {
      providers: Object.fromEntries(NAMES.map(name => [name, { ...common, dialect: PROVIDERS[name]!.dialect }])),
      models: Object.fromEntries(
        NAMES.map(name => [
          name,
          {
            targets: [{ provider: name, model: PROVIDERS[name]!.model }],
            price: PRICE,
            context: 200_000,
            max_output: 8192,
            reasoning: true,
          },
        ]),
      ),
      routes: [{ path: '/v1/messages', policy: 'test' }],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const HELLO = [{ role: 'user', content: 'Hello' }]

function ask(model: string, body: object = {}, path = '/v1/messages'): Promise<Response> {
  return fetch(gateway.url + path, {
    method: 'POST',
    headers: { 'x-api-key': gateway.key, 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
    body: JSON.stringify({ model, max_tokens: 1000, messages: HELLO, ...body }),
  })
}

/** The request at the provider. */
async function sent(model: string, body: object = {}): Promise<string> {
  provider.script(speak(voiceOf(model), 'whole'))
  const answer = await ask(model, body)
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)])
  return provider.requests.at(-1)!.raw.toString()
}

function json(body: unknown, status = 200): Behaviour {
  return {
    name: 'says this',
    async run(call) {
      call.head(status, { 'content-type': 'application/json' })
      await call.end(JSON.stringify(body))
    },
  }
}

describe('reasoning', () => {
  test.each(['gemini', 'gemini-2'])('%s is asked for thoughts for clients that see them', async name => {
    expect(await sent(name)).not.toContain('thinkingConfig')
    expect(await sent(name, { thinking: { type: 'disabled' } })).not.toContain('includeThoughts')
    expect(await sent(name, { thinking: { type: 'adaptive' } })).toContain('"includeThoughts":true')
  })

  test('unrequested reasoning_content is charged and not shown', async () => {
    const message = { role: 'assistant', reasoning_content: 'Hm', content: 'Hello' }
    const usage = {
      prompt_tokens: 10,
      completion_tokens: 5,
      total_tokens: 15,
      completion_tokens_details: { reasoning_tokens: 3 },
    }
    provider.script(json({ id: 'c', choices: [{ index: 0, message, finish_reason: 'stop' }], usage }))
    const answer = await ask('openai')
    expect(await answer.json()).toMatchObject({
      content: [{ type: 'text', text: 'Hello' }],
      usage: { input_tokens: 10, output_tokens: 5, output_tokens_details: { thinking_tokens: 3 } },
    })
    expect(gateway.receipt(answer)).toMatchObject({ usage: { output: 5, reasoning: 3 } })
  })
})

interface Counts {
  readonly input_tokens: number
  readonly output_tokens: number
}

/** The usage in the first event of a stream and in its last one. */
async function streamedUsage(name: string): Promise<readonly [Counts, Counts]> {
  provider.script(speak(voiceOf(name), 'stream'))
  const events = parseSse(await (await ask(name, { stream: true })).text()).events.map(({ data }) => JSON.parse(data))
  const first = events.find(({ type }) => type === 'message_start').message.usage
  return [first, events.find(({ type }) => type === 'message_delta').usage]
}

describe('the first event of a stream has the tokens of the prompt', () => {
  /** These providers send them first. */
  const EXACT = ['anthropic', 'bedrock-invoke', 'gemini', 'gemini-2']

  test.each(NAMES)('%s', async name => {
    const [first, last] = await streamedUsage(name)
    expect(last).toMatchObject({ input_tokens: 10, output_tokens: 3 })
    const counted = await ask('openai', {}, '/v1/messages/count_tokens')
    const { input_tokens: estimate } = (await counted.json()) as Counts
    expect(estimate).toBe(6)
    expect(first).toMatchObject({ input_tokens: EXACT.includes(name) ? 10 : estimate, output_tokens: 0 })
  })
})

describe('the error of a prompt that does not fit has the text on which Claude Code shortens the conversation', () => {
  const tooLong = (message: string) => ({
    error: { type: 'invalid_request_error', code: 'context_length_exceeded', message },
  })
  const ask400 = async (name: string, words: string, body: object = {}) => {
    provider.script(json(voiceOf(name).error(400, words).body, 400))
    const answer = await ask(name, body)
    expect([answer.status, answer.headers.get('content-type')]).toEqual([400, 'application/json'])
    return answer.json()
  }

  test.each(NAMES.flatMap(name => [false, true].map(stream => [name, stream] as const)))(
    'by %s, in a stream: %s',
    async (name, stream) => {
      const numbers = "This model's maximum context length is 8192 tokens, and the request has 9000 tokens."
      expect(await ask400(name, numbers, { stream })).toMatchObject(
        tooLong('prompt is too long: 9000 tokens > 8192 maximum'),
      )
    },
  )

  test('without numbers, with the estimate and the context of the model', async () => {
    const words = 'Your input exceeds the context window of this model.'
    expect(await ask400('openai', words)).toMatchObject(tooLong('prompt is too long: 200001 tokens > 200000 maximum'))
    const long = { messages: [{ role: 'user', content: 'x'.repeat(1_000_000) }] }
    expect(await ask400('openai', words, long)).toMatchObject(
      tooLong('prompt is too long: 250004 tokens > 200000 maximum'),
    )
  })

  test('but not for a prompt that would fit with less output', async () => {
    const words = 'input length and `max_tokens` exceed context limit: 150000 + 64000 > 200000, decrease them'
    expect(await ask400('anthropic', words)).toMatchObject(tooLong(words))
    const parts =
      'maximum context length is 4096 tokens, you requested 5000 (1000 in the messages, 4000 in the completion)'
    expect(await ask400('openai', parts)).toMatchObject(
      tooLong('input length and `max_tokens` exceed context limit: 1000 + 4000 > 4096'),
    )
  })

  test.each(NAMES)('also as the first event of a stream of %s', async name => {
    const voice = voiceOf(name)
    provider.script({
      name: 'an error event',
      async run(call) {
        call.head(200, { 'content-type': voice.types.stream })
        await call.end(voice.errorEvent(400, "This model's maximum context length is 8192 tokens, got 9000."))
      },
    })
    const answer = await ask(name, { stream: true })
    expect(await answer.json()).toMatchObject(tooLong('prompt is too long: 9000 tokens > 8192 maximum'))
  })
})

describe('Claude Code’s prompts begin with the same bytes in each turn', () => {
  const tools = [{ name: 'look', description: 'Looks.', input_schema: { type: 'object', properties: {} } }]
  const cache_control = { type: 'ephemeral' }
  const system = (cch: string) => [
    {
      type: 'text',
      text: `x-anthropic-billing-header: cc_version=2.1.332.a3f; cc_entrypoint=sdk-cli; cch=${cch};`,
    },
    { type: 'text', text: 'You are Claude Code.', cache_control },
    { type: 'text', text: 'Be brief.', cache_control },
  ]
  const said = (text: string, mark: object = {}) => ({ type: 'text', text, ...mark })
  const first = (mark: object) => [{ role: 'user', content: [said('A reminder.'), said('Look at it.', mark)] }]
  const second = [
    ...first({}),
    { role: 'assistant', content: [{ type: 'tool_use', id: 'toolu_1', name: 'look', input: { at: 1 } }] },
    {
      role: 'user',
      content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'Seen.', cache_control }],
    },
  ]
  /** The request without the end of its list of messages, and without the mark of the newest one. */
  const prefixOf = (text: string) => text.slice(0, text.indexOf('Look at it.'))

  test.each(NAMES)('%s', async name => {
    const one = await sent(name, { system: system('36ee5'), tools, messages: first({ cache_control }) })
    const two = await sent(name, { system: system('0aaa9'), tools, messages: second })
    expect(prefixOf(one)).toContain('A reminder.')
    expect(prefixOf(two)).toBe(prefixOf(one))
    for (const text of [one, two]) expect(text).not.toContain('x-anthropic-billing-header')
  })

  test('the marks stay at the ends of their texts', async () => {
    const ends = (text: string) => [...text.matchAll(/"text":"([^"]*)","cache_control"/g)].map(([, words]) => words)
    const one = await sent('anthropic', { system: system('36ee5'), tools, messages: first({ cache_control }) })
    expect(ends(one)).toEqual(['You are Claude Code.', '\\n\\nBe brief.', 'Look at it.'])
    const two = await sent('anthropic', { system: system('0aaa9'), tools, messages: second })
    expect(ends(two)).toEqual(['You are Claude Code.', '\\n\\nBe brief.'])
    expect(two).toContain('"content":"Seen.","cache_control"')
  })

  test.each<[unknown, string | undefined]>([
    ['x-anthropic-billing-header: cch=1;', undefined],
    ['x-anthropic-billing-header: cch=1;\nYou are Claude Code.', 'You are Claude Code.'],
    [[said('x-anthropic-billing-header: cch=1;')], undefined],
    ['Say x-anthropic-billing-header: cch=1;', 'Say x-anthropic-billing-header: cch=1;'],
  ])('system %j', async (given, wanted) => {
    expect(JSON.parse(await sent('anthropic', { system: given })).system).toBe(wanted)
  })
})

describe('an answer that ended at a stop sequence names it', () => {
  const MESSAGE = { role: 'assistant', content: [{ type: 'text', text: 'Hello' }] }
  const tokens = { input_tokens: 10, output_tokens: 3 }
  const ended = { stop_reason: 'stop_sequence', stop_sequence: 'END' }
  test.each<[string, object]>([
    ['anthropic', { type: 'message', ...MESSAGE, ...ended, usage: tokens }],
    [
      'bedrock',
      {
        output: { message: { role: 'assistant', content: [{ text: 'Hello' }] } },
        stopReason: 'stop_sequence',
        usage: { inputTokens: 10, outputTokens: 3 },
      },
    ],
    ['cohere', { id: 'c', message: MESSAGE, finish_reason: 'STOP_SEQUENCE', usage: { tokens } }],
  ])('%s', async (name, answer) => {
    provider.script(json(answer))
    expect(await (await ask(name, { stop_sequences: ['END'] })).json()).toMatchObject(ended)
  })

  test('in a stream of anthropic', async () => {
    const stream = voiceOf('anthropic')
      .stream({}, provider.requests[0]!)
      .map(({ bytes }) =>
        bytes
          .toString()
          .replace(/"stop_reason":"end_turn"(?:,"stop_sequence":null)?/, JSON.stringify(ended).slice(1, -1)),
      )
    provider.script({
      name: 'ends at a sequence',
      async run(call) {
        call.head(200, { 'content-type': 'text/event-stream' })
        await call.end(stream.join(''))
      },
    })
    const answer = await (await ask('anthropic', { stream: true, stop_sequences: ['END', 'STOP'] })).text()
    expect(answer).toContain(JSON.stringify(ended).slice(1, -1))
  })
})
