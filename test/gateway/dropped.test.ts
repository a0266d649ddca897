/** Dropped content of a translated request is reported to the client in a header, whatever its names. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../helpers/in-process.ts'

const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  content: [{ type: 'text', text: 'Hello' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 3, output_tokens: 1 },
}

const routed = (on_dropped: string) => [...FIVE_STEPS.slice(0, -1), { use: 'route', with: { on_dropped } }]

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({
    script: {
      name: 'says hello',
      async run(call) {
        call.head(200, { 'content-type': 'application/json' })
        await call.end(JSON.stringify(MESSAGE))
      },
    },
  })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    steps: [
      { use: 'api-key' },
      { use: 'schema', with: { unknown_fields: 'pass' } },
      { use: 'credits' },
      { use: 'route' },
    ],
    policies: { report: routed('tell'), strict: routed('refuse') },
    yaml: {
      providers: { p: { dialect: 'anthropic', base_url: provider.url } },
      routes: [
        { path: '/v1/chat/completions', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
        { path: '/report/v1/responses', policy: 'report' },
        { path: '/strict/v1/responses', policy: 'strict' },
      ],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`field_${i}`, i]))

test.each<[string, Record<string, unknown>, string | null]>([
  ['nothing', {}, null],
  ['a parameter that the provider does not support', { seed: 7 }, 'seed'],
  ['two of them', { seed: 7, logit_bias: { 5: 1 } }, 'logit_bias, seed'],
  ['a name that is invalid in a header', { 'ä\r\nset-cookie: x=1': 1 }, '1 more'],
  ['both', { seed: 7, '': 1, 'a b': 2 }, 'seed, 2 more'],
  ['a name that is very long', { ['x'.repeat(65)]: 1 }, '1 more'],
  ['very many', many, `${Object.keys(many).slice(0, 20).join(', ')}, 10 more`],
])('%s', async (_name, body, expected) => {
  const answer = await gateway.chat(body)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('x-tollgate-dropped')?.split(', ').sort().join(', ') ?? null).toBe(
    expected?.split(', ').sort().join(', ') ?? null,
  )
  expect(answer.headers.has('set-cookie')).toBe(false)
})

function ask(path: string, more: object) {
  return fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', input: 'Hello', ...more }),
  })
}

test.each([
  ['web_search', 'Send the request without it (in Codex\'s config.toml: web_search = "disabled").'],
  ['web_search_preview', "Or ask the operator for 'on_dropped: tell' at the step 'route'"],
  ['image_generation', 'Send the request without it. Or ask the operator'],
])('on_dropped: refuse rejects a tool that a provider would run: %s', async (type, says) => {
  const before = provider.requests.length
  const refused = await ask('/strict/v1/responses', { tools: [{ type }] })
  expect(refused.status).toBe(400)
  expect(await refused.json()).toMatchObject({
    error: { code: 'unsupported_parameter', param: 'tools[0].type', message: expect.stringContaining(says) },
  })
  expect(provider.requests.length).toBe(before)
  // Without a hold no receipt exists.
  expect(gateway.receipt(refused)).toBeUndefined()
})

test.each(['', '/report'])(
  'it is dropped and listed without on_dropped, and with a policy that reports it: %s',
  async prefix => {
    const tools = [{ type: 'web_search', external_web_access: false }, { type: 'image_generation' }]
    const answer = await ask(`${prefix}/v1/responses`, { tools })
    const dropped = 'tools.web_search, tools.image_generation'
    expect([answer.status, answer.headers.get('x-tollgate-dropped')]).toEqual([200, dropped])
  },
)

test('a reasoning effort is a client default and not a tool', async () => {
  expect((await ask('/strict/v1/responses', { reasoning: { effort: 'low' } })).status).toBe(200)
})
