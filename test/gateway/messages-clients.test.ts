/** Clients of Anthropic's Messages at providers of all dialects: the requests that providers get, the answers that clients get. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Behaviour, type FakeProvider, speak, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { VOICES, type Voice } from '../helpers/voices/index.ts'

/** By the provider's name, which is the model's too. */
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

function ask(model: string, body: object = {}): Promise<Response> {
  return fetch(`${gateway.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': gateway.key, 'content-type': 'application/json', 'anthropic-version': '2023-06-01' },
    body: JSON.stringify({ model, max_tokens: 1000, messages: HELLO, ...body }),
  })
}

/** The request as the provider gets it. */
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

describe('thinking', () => {
  test.each(['gemini', 'gemini-2'])('%s is asked for thoughts for clients that see them', async name => {
    expect(await sent(name)).not.toContain('thinkingConfig')
    expect(await sent(name, { thinking: { type: 'disabled' } })).not.toContain('includeThoughts')
    expect(await sent(name, { thinking: { type: 'adaptive' } })).toContain('"includeThoughts":true')
  })

  test('reasoning_content that was not asked for is charged and not shown', async () => {
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
    expect(gateway.receipt(answer)).toMatchObject({ completionTokens: 5, reasoningTokens: 3 })
  })
})
