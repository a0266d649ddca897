/** Clients that use `functions`, the older parameter, get `function_call` through the whole gateway. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../../../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../../../helpers/in-process.ts'

const ANSWER = {
  model: 'qwen3',
  created_at: '2026-11-20T12:00:00Z',
  message: { role: 'assistant', content: '', tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }] },
  done: true,
  done_reason: 'stop',
  prompt_eval_count: 10,
  eval_count: 5,
}
const DECLARED = { name: 'f', parameters: { type: 'object' } }

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({
    script: {
      name: 'calls',
      async run(call) {
        call.head(200, { 'content-type': 'application/x-ndjson' })
        await call.end(`${JSON.stringify(ANSWER)}\n`)
      },
    },
  })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    yaml: { providers: { p: { dialect: 'ollama', base_url: provider.url } } },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

test.each([
  [{ functions: [DECLARED] }, 'function_call'],
  [{ tools: [{ type: 'function', function: DECLARED }] }, 'tool_calls'],
])('%j', async (offered, finish) => {
  const answer = await gateway.chat(offered)
  const [choice] = ((await answer.json()) as { choices: { finish_reason: string; message: object }[] }).choices
  expect(choice!.finish_reason).toBe(finish)
  expect(Object.keys(choice!.message)).toContain(finish)
})

test('in a stream', async () => {
  const answer = await gateway.chat({ functions: [DECLARED], stream: true })
  const text = await answer.text()
  expect(text).toContain('"function_call":{"name":"f","arguments":"{\\"a\\":1}"}')
  expect(text).toContain('"finish_reason":"function_call"')
  expect(text).not.toContain('tool_calls')
})
