/** What a translated request could not carry is told to the client in a header, whatever the client has called it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'

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
    yaml: { providers: { p: { dialect: 'anthropic', base_url: provider.url } } },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`field_${i}`, i]))

test.each<[string, Record<string, unknown>, string | null]>([
  ['nothing', {}, null],
  ['a parameter that the provider does not have', { seed: 7 }, 'seed'],
  ['two of them', { seed: 7, logit_bias: { 5: 1 } }, 'logit_bias, seed'],
  ['a name that no header can hold', { 'ä\r\nset-cookie: x=1': 1 }, '1 more'],
  ['both', { seed: 7, '': 1, 'a b': 2 }, 'seed, 2 more'],
  ['a name that is very long', { ['x'.repeat(65)]: 1 }, '1 more'],
  ['very many', many, `${Object.keys(many).slice(0, 20).join(', ')}, 10 more`],
])('%s', async (_name, body, told) => {
  const answer = await gateway.chat(body)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('x-tollgate-dropped')?.split(', ').sort().join(', ') ?? null).toBe(
    told?.split(', ').sort().join(', ') ?? null,
  )
  expect(answer.headers.has('set-cookie')).toBe(false)
})
