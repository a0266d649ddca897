/** Custom tools of Codex (Responses) and Copilot (chat completions) at a provider that supports functions only. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type FakeProvider, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, PRICE, startInProcess } from '../helpers/in-process.ts'
import { parseSse } from '../helpers/sse.ts'

const INPUT = '*** Begin Patch\n+"ä"\n'
const CALL = { type: 'tool_use', id: 'toolu_1', name: 'apply_patch', input: { input: INPUT } }
const USAGE = { input_tokens: 3, output_tokens: 1 }
const MESSAGE = { id: 'msg_1', type: 'message', role: 'assistant', model: 'c', content: [CALL], usage: USAGE }

function streamOf(): string {
  const json = JSON.stringify(CALL.input)
  const pieces = json.match(/.{1,7}/gs)!.map(partial_json => ({ type: 'input_json_delta', partial_json }))
  return [
    { type: 'message_start', message: { ...MESSAGE, content: [] } },
    { type: 'content_block_start', index: 0, content_block: { ...CALL, input: {} } },
    ...pieces.map(delta => ({ type: 'content_block_delta', index: 0, delta })),
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: USAGE },
    { type: 'message_stop' },
  ]
    .map(event => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    .join('')
}

const MODEL = { price: PRICE, context: 8192, max_output: 1024 }

let provider: FakeProvider
let gateway: InProcess

beforeAll(async () => {
  provider = await startFakeProvider({
    script: {
      name: 'calls a tool',
      async run(call) {
        const isStream = call.request.body?.['stream'] === true
        call.head(200, { 'content-type': isStream ? 'text/event-stream' : 'application/json' })
        await call.end(isStream ? streamOf() : JSON.stringify({ ...MESSAGE, stop_reason: 'tool_use' }))
      },
    },
  })
  gateway = await startInProcess({
    provider: provider.baseUrl,
    yaml: {
      providers: { p: { dialect: 'anthropic', base_url: provider.url }, d: { dialect: 'demo', pace: '1ms' } },
      models: {
        m: { ...MODEL, targets: [{ provider: 'p', model: 'claude-sonnet-4-5' }] },
        demo: { ...MODEL, targets: [{ provider: 'd', model: 'demo-small' }] },
      },
      routes: ['/v1/chat/completions', '/v1/responses'].map(path => ({ path, policy: 'test' })),
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

async function post(path: string, body: object): Promise<string> {
  const answer = await fetch(`${gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', ...body }),
  })
  const text = await answer.text()
  expect([answer.status, answer.headers.get('x-tollgate-dropped')], text).toEqual([200, null])
  return text
}

const eventsOf = (text: string) => parseSse(text).events.map(({ data }) => JSON.parse(data))
const sent = () => provider.requests.at(-1)!.body

test('Responses: the call and its result survive the round trip', async () => {
  const tools = [{ type: 'custom', name: 'apply_patch', description: 'Edits files.', format: { type: 'text' } }]
  const { output } = JSON.parse(await post('/v1/responses', { input: 'Hi', tools }))
  expect(output).toMatchObject([
    { type: 'custom_tool_call', call_id: 'toolu_1', name: 'apply_patch', input: INPUT, status: 'completed' },
  ])
  expect(sent()).toMatchObject({
    tools: [{ name: 'apply_patch', description: 'Edits files.', input_schema: { required: ['input'] } }],
  })
  const result = { type: 'custom_tool_call_output', call_id: 'toolu_1', output: 'Done.' }
  await post('/v1/responses', { input: [{ role: 'user', content: 'Hi' }, ...output, result], tools })
  expect(sent()).toMatchObject({
    messages: [{}, { content: [CALL] }, { content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] }],
  })
})

test('Responses, streamed: the input arrives in pieces', async () => {
  const tools = [{ type: 'custom', name: 'apply_patch' }]
  const events = eventsOf(await post('/v1/responses', { input: 'Hi', tools, stream: true }))
  const pieces = events.filter(({ type }) => type === 'response.custom_tool_call_input.delta')
  expect(pieces.length).toBeGreaterThan(3)
  expect(pieces.map(({ delta }) => delta).join('')).toBe(INPUT)
  expect(events.find(({ type }) => type === 'response.custom_tool_call_input.done')).toMatchObject({ input: INPUT })
  expect(events.at(-1)).toMatchObject({ type: 'response.completed', response: { output: [{ input: INPUT }] } })
})

test('chat completions, whole and streamed', async () => {
  const messages = [{ role: 'user', content: 'Hi' }]
  const tools = [{ type: 'custom', custom: { name: 'apply_patch' } }]
  const asked = { messages, tools, tool_choice: { type: 'custom', custom: { name: 'apply_patch' } } }
  const { choices } = JSON.parse(await post('/v1/chat/completions', asked))
  const [call] = choices[0].message.tool_calls
  expect(call).toEqual({ id: 'toolu_1', type: 'custom', custom: { name: 'apply_patch', input: INPUT } })
  expect(sent()).toMatchObject({ tool_choice: { type: 'tool', name: 'apply_patch' } })
  const chunks = eventsOf(
    (await post('/v1/chat/completions', { ...asked, stream: true })).replace('data: [DONE]\n\n', ''),
  )
  const deltas = chunks.flatMap(chunk => chunk.choices[0]?.delta.tool_calls ?? [])
  expect(deltas[0]).toMatchObject({ index: 0, id: 'toolu_1', type: 'custom', custom: { name: 'apply_patch' } })
  expect(deltas.map(({ custom }) => custom.input).join('')).toBe(INPUT)
})

test('the demo calls it too', async () => {
  const tools = [{ type: 'custom', name: 'apply_patch' }]
  const { output } = JSON.parse(
    await post('/v1/responses', { model: 'demo', input: 'Hi', tools, tool_choice: 'required' }),
  )
  expect(output).toMatchObject([{ type: 'custom_tool_call', name: 'apply_patch', input: expect.any(String) }])
})
