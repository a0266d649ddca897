/** Texts of prompts and answers on spans: only for a policy that enables them, without secrets, even in failures. */
import { writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { stringify } from 'yaml'
import { definePlugin, refuse } from '#contract'
import { startCollector, WITHOUT_COLLECTOR } from '../helpers/collector.ts'
import { beside } from '../helpers/edit-configuration.ts'
import {
  type Behaviour,
  errorAnswer,
  exact,
  type FakeProvider,
  gated,
  sendStreamHead,
  speak,
  startFakeProvider,
  streamParts,
} from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, type InProcessOptions, startInProcess } from '../helpers/in-process.ts'
import { testWith } from '../helpers/missing.ts'
import { type OtlpReceiver, startOtlpReceiver } from '../helpers/otlp-receiver.ts'
import { VOICES } from '../helpers/voices/index.ts'

const PROVIDER_KEY = 'sk-canary-provider-0123456789'
const HIDDEN = 'hidden-word-of-the-operator'

let receiver: OtlpReceiver
let provider: FakeProvider
beforeEach(async () => {
  receiver = await startOtlpReceiver()
  provider = await startFakeProvider({ script: exact({ tokens: ['Well', ', hello'] }) })
})
afterEach(async () => {
  await receiver[Symbol.asyncDispose]()
  await provider.close()
})

const ROUTES = ['chat/completions', 'messages', 'responses']
/** A model `m`; at `/quiet` the same without content. */
async function start(options: InProcessOptions & { readonly dialect?: string; readonly telemetry?: object } = {}) {
  const { dialect = 'openai', telemetry = {}, ...rest } = options
  const live = { provider: 'live', model: 'upstream-model', priority: 2 }
  const model = (targets: readonly object[]) => ({ targets, price: 'free', context: 200_000, max_output: 100_000 })
  const steps = options.steps ?? FIVE_STEPS
  const gateway = await startInProcess({
    env: { PROVIDER_KEY, HIDDEN },
    policies: { test: { telemetry: { content: true }, steps } as never, quiet: steps },
    ...rest,
    yaml: {
      telemetry: { endpoint: receiver.url, headers: { 'x-team': '${HIDDEN}' }, ...telemetry },
      providers: {
        live: { dialect, base_url: dialect === 'ollama' ? provider.url : provider.baseUrl, api_key: '${PROVIDER_KEY}' },
      },
      models: { m: model([live]) },
      routes: ROUTES.flatMap(path => [
        { path: `/v1/${path}`, policy: 'test' },
        { path: `/quiet/v1/${path}`, policy: 'quiet' },
      ]),
      ...rest.yaml,
    },
  })
  onTestFinished(() => void gateway.stop())
  return gateway
}

const ask = ({ url, key }: InProcess, path: string, body: object, init: RequestInit = {}) =>
  fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
    body: JSON.stringify({ model: 'm', ...body }),
    ...init,
  })
const chat = (gateway: InProcess, body: object = {}, init: RequestInit = {}) =>
  ask(gateway, '/v1/chat/completions', { messages: [{ role: 'user', content: 'canary-prompt' }], ...body }, init)

/** The content of the last attempt, after the end. */
async function content(gateway: InProcess) {
  await gateway.stop()
  const spans = receiver.spans.filter(({ kind }) => kind === 3).sort((a, b) => Number(a.start - b.start))
  const { attributes = {} } = spans.at(-1) ?? {}
  const read = (name: string) => {
    const json = attributes[`gen_ai.${name}`]
    return json === undefined ? undefined : JSON.parse(String(json))
  }
  return { input: read('input.messages'), output: read('output.messages'), system: read('system_instructions') }
}
const USER = { role: 'user', parts: [{ type: 'text', content: 'canary-prompt' }] }
const said = (text: string, finish_reason?: string) => [
  { role: 'assistant', parts: [{ type: 'text', content: text }], ...(finish_reason ? { finish_reason } : {}) },
]
const sent = () => receiver.requests.map(({ body }) => body.toString('utf8')).join('\n')

describe('failures', () => {
  test('a refused request has no content', async () => {
    const gateway = await start()
    expect((await chat(gateway, { model: 'canary-model' })).status).toBe(404)
    expect((await chat(gateway, { temperature: 'canary-hot' })).status).toBe(400)
    await gateway.stop()
    expect(receiver.spans).toHaveLength(2)
    expect(sent()).not.toContain('canary')
  })

  test('a provider that refuses: the prompt, and no answer', async () => {
    provider.script(errorAnswer(400, { error: { message: 'canary-error' } }))
    const gateway = await start()
    expect((await chat(gateway)).status).toBe(400)
    expect(await content(gateway)).toEqual({ input: [USER] })
    expect(sent()).not.toContain('canary-error')
  })

  test('a stream that breaks: the received content, without an end', async () => {
    provider.script(breaksAfter(['Half', ' of it']))
    const gateway = await start()
    await (await chat(gateway, { stream: true })).text().catch(() => 'its connection is cut behind the error')
    expect(await content(gateway)).toEqual({ input: [USER], output: said('Half of it') })
  })

  test.each([true, false])(
    'an answer that a step refuses at its end (stream: %s): the part that the client got',
    async stream => {
      const plugin = definePlugin({
        name: 'refuses-late',
        settings: { type: 'object', additionalProperties: false, properties: {} },
        create: () => async (_ctx, next) => {
          await next()
          throw refuse('forbidden')
        },
      })
      const gateway = await start({ plugins: [plugin], steps: [{ use: 'refuses-late' }, ...FIVE_STEPS] })
      const answer = await chat(gateway, { stream })
      const heard = await answer.text().catch(() => 'its connection is cut behind the error')
      expect(answer.status, heard).toBe(stream ? 200 : 403)
      const { input, output } = await content(gateway)
      expect(input).toEqual([USER])
      expect(output).toEqual(stream ? said('Well, hello', 'stop') : undefined)
      if (!stream) expect(sent()).not.toContain('hello')
    },
  )

  test('a client that disconnects in the middle', async () => {
    provider.script(gated({ tokens: ['One', ' two'] }))
    const gateway = await start()
    const leaving = new AbortController()
    const answer = chat(gateway, { stream: true }, { signal: leaving.signal })
    await (await provider.waitForRequest(0)).step(2)
    await (await answer).body!.getReader().read()
    leaving.abort()
    await gateway.waitForLog(line => line['msg'] === 'exchange')
    expect(await content(gateway)).toEqual({ input: [USER], output: said('One') })
  })

  test('secrets: of the configuration, of the gateway and of others, in the prompt and in the answer', async () => {
    const gateway = await start()
    const secrets = [HIDDEN, PROVIDER_KEY, gateway.key, 'sk-proj-0123456789abcdef']
    for (const stream of [true, false]) {
      provider.script(exact({ tokens: secrets.flatMap(secret => [secret.slice(0, 9), secret.slice(9), ' ']) }))
      const call = { id: 'c', type: 'function', function: { name: 'f', arguments: JSON.stringify(secrets) } }
      const messages = [
        { role: 'system', content: secrets.join() },
        { role: 'assistant', tool_calls: [call] },
        { role: 'tool', tool_call_id: 'c', content: secrets.join() },
        { role: 'user', content: secrets.map(text => ({ type: 'text', text })) },
      ]
      expect((await chat(gateway, { messages, stream })).status).toBe(200)
    }
    await gateway.stop()
    expect(sent()).toContain('[secret]')
    for (const secret of secrets) expect(sent()).not.toContain(secret)
  })

  test('content that a step masks in the answer is masked', async () => {
    provider.script(exact({ tokens: ['write to ', 'ann@', 'example.com'] }))
    const guard = { use: 'guard', with: { rules: [{ detect: 'email' }] } }
    const steps = [...FIVE_STEPS.slice(0, 2), guard, ...FIVE_STEPS.slice(2)]
    const gateway = await start({ steps })
    const heard = (await (await chat(gateway)).json()) as { choices: { message: { content: string } }[] }
    const { output } = await content(gateway)
    expect(heard.choices[0]!.message.content).not.toContain('ann@example.com')
    expect(output).toEqual(said(heard.choices[0]!.message.content, 'stop'))
  })

  test.each([true, false])('a long prompt and a long answer (stream: %s) are cut and marked', async stream => {
    provider.script(exact({ tokens: Array.from({ length: 900 }, () => 'x'.repeat(100)) }))
    const gateway = await start()
    const answer = await chat(gateway, { stream, messages: [{ role: 'user', content: 'y'.repeat(50_000) }] })
    const heard = await answer.text()
    expect(heard.length).toBeGreaterThan(90_000)
    const { input, output } = await content(gateway)
    expect(input[0].parts[0].content).toMatch(/^y{16384}… \[truncated\]$/)
    expect(output[0].parts[0].content).toMatch(/^x{16384}… \[truncated\]$/)
    expect(output[0].finish_reason).toBe('stop')
    expect(receiver.requests.every(({ body }) => body.length < 100_000)).toBe(true)
  })

  test('an unsampled exchange has no content', async () => {
    const gateway = await start({ telemetry: { ratio: 0 } })
    await (await chat(gateway, { stream: true })).text()
    await gateway.stop()
    expect(provider.requests).toHaveLength(1)
    expect(sent()).not.toMatch(/canary|hello/)
  })
})

/** A stream that ends properly, except for its finish. */
function breaksAfter(tokens: readonly string[]): Behaviour {
  return {
    name: 'breaks',
    async run(call) {
      sendStreamHead(call)
      const parts = streamParts(call.request, { tokens }).filter(({ text }) => !/"finish_reason":"|DONE/.test(text))
      for (const { text, meter } of parts) await call.write(text, meter)
      call.fin()
    },
  }
}

const FORMATS = [
  [
    '/v1/chat/completions',
    {
      messages: [
        { role: 'system', content: 'Be kind.' },
        { role: 'user', content: 'canary-prompt' },
      ],
    },
  ],
  ['/v1/messages', { max_tokens: 50, system: 'Be kind.', messages: [{ role: 'user', content: 'canary-prompt' }] }],
  ['/v1/responses', { instructions: 'Be kind.', input: 'canary-prompt' }],
] as const
const SYSTEM = { type: 'text', content: 'Be kind.' }

describe.each(FORMATS)('%s', (path, body) => {
  test.each([true, false])('as a stream: %s', async stream => {
    const gateway = await start()
    const answer = await ask(gateway, path, { ...body, stream })
    const heard = await answer.text()
    expect(answer.status, heard).toBe(200)
    const { input, output, system } = await content(gateway)
    expect(input).toEqual([{ role: input[0].role, parts: [SYSTEM] }, USER])
    expect(input[0].role).toMatch(/system|developer/)
    expect(system).toBe(undefined)
    expect(output).toEqual(said('Well, hello', 'stop'))
  })

  test('a policy without content exports none, next to one that enables it', async () => {
    const gateway = await start()
    await (await ask(gateway, `/quiet${path}`, { ...body, stream: true })).text()
    await (await ask(gateway, `/quiet${path}`, body)).text()
    await gateway.stop()
    expect(receiver.spans).toHaveLength(4)
    expect(sent()).toContain('gen_ai.response.id')
    expect(sent()).not.toMatch(/canary|hello|kind/)
  })
})

/** The providers' ids of an answer and names of the model, by dialect. */
const CALLED: Readonly<Record<string, readonly [id: unknown, model: unknown]>> = {
  openai: [expect.any(String), expect.any(String)],
  anthropic: ['msg_1', 'claude-upstream-model'],
  gemini: ['resp_1', 'claude-upstream-model'],
  cohere: [expect.any(String), undefined],
  ollama: [undefined, 'claude-upstream-model'],
}
describe.each(Object.entries(CALLED))('%s', (dialect, [id, model]) => {
  test.each(['stream', 'whole'] as const)('%s: its words, its id and its model', async mode => {
    provider.script(speak(VOICES[dialect]!, mode, { tokens: ['Well', ', hello'] }))
    const gateway = await start({ dialect })
    const [[, body]] = FORMATS
    const answer = await chat(gateway, { ...body, stream: mode === 'stream' })
    const heard = await answer.text()
    expect(answer.status, heard).toBe(200)
    const { input, output, system } = await content(gateway)
    const isApart = dialect === 'anthropic' || dialect === 'gemini'
    expect(system).toEqual(isApart ? [SYSTEM] : undefined)
    expect(input).toEqual([...(isApart ? [] : [{ role: 'system', parts: [SYSTEM] }]), USER])
    expect(output).toEqual(said('Well, hello', 'stop'))
    const [span] = receiver.spans.filter(({ kind }) => kind === 3)
    expect(span!.attributes['gen_ai.response.id']).toEqual(id)
    expect(span!.attributes['gen_ai.response.model']).toEqual(model)
  })
})

for (const protocol of ['protobuf', 'json'])
  testWith(WITHOUT_COLLECTOR, `by a real collector, as ${protocol}`, async () => {
    await using collector = await startCollector(receiver.url)
    const gateway = await start({ telemetry: { endpoint: collector.url, protocol } })
    const messages = [{ role: 'user', content: 'half a pair \ud83d, "quotes" and 🙂' }]
    await (await chat(gateway, { messages, stream: true })).text()
    const { input, output } = await content(gateway)
    expect(input[0].parts[0].content).toMatch(/^half a pair ., "quotes" and 🙂$/u)
    expect(output).toEqual(said('Well, hello', 'stop'))
  })

test('only the last attempt has content', async () => {
  provider.script([errorAnswer(500), exact({ tokens: ['Well'] })])
  const steps = [...FIVE_STEPS.slice(0, -1), { use: 'route', with: { attempts: 2 } }]
  const gateway = await start({ steps })
  expect((await chat(gateway)).status).toBe(200)
  expect(await content(gateway)).toEqual({ input: [USER], output: said('Well', 'stop') })
  const [first] = receiver.spans.filter(({ kind }) => kind === 3).sort((a, b) => Number(a.start - b.start))
  expect(Object.keys(first!.attributes).filter(name => /messages|response/.test(name))).toEqual([
    'http.response.status_code',
  ])
})

test('a reload of the policy turns it on and off', async () => {
  const gateway = await start()
  const change = async (telemetry: object) => {
    writeFileSync(beside(gateway, 'policies/test.yaml'), stringify({ ...telemetry, steps: FIVE_STEPS }))
    expect(await gateway.running.reload()).toBe('changed')
    await (await chat(gateway)).text()
  }
  await change({})
  await change({ telemetry: { content: true } })
  await change({ telemetry: { content: false } })
  await gateway.stop()
  expect(sent().match(/canary-prompt/g)).toHaveLength(1)
})
