/** Tools that a maker defines and the client runs: they reach a model whose provider has them, and nobody else's. */
import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  exact,
  type FakeProvider,
  type ProviderRequest,
  sendJsonHead,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { modelAt, providersWith } from './rig.ts'

let provider: FakeProvider
let gateway: InProcess

/** Calls the tool that it is told of first, and answers when it sees a result. */
const claude = (request: ProviderRequest) => ({
  name: 'claude',
  async run(call: Parameters<ReturnType<typeof exact>['run']>[0]) {
    const { messages, tools } = request.body as {
      messages: { content: { type: string }[] }[]
      tools: { name: string }[]
    }
    const hasResult = messages.at(-1)!.content.some(({ type }) => type === 'tool_result')
    const use = { type: 'tool_use', id: 'toolu_1', name: tools[0]!.name, input: { command: 'ls', path: '/memories' } }
    const text = JSON.stringify({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'claude',
      content: [hasResult ? { type: 'text', text: 'Done.' } : use],
      stop_reason: hasResult ? 'end_turn' : 'tool_use',
      stop_sequence: null,
      usage: { input_tokens: 900, output_tokens: 20 },
    })
    sendJsonHead(call, 200, text)
    await call.end(text)
  },
})

beforeAll(async () => {
  provider = await startFakeProvider({
    script: request => (request.path.endsWith('/messages') ? claude(request) : exact()),
  })
  const asked = { provider: 'scripted', model: 'upstream-model' }
  gateway = await startInProcess({
    env: { CLAUDE_KEY: 'claude-key' },
    yaml: {
      providers: {
        ...providersWith(provider),
        claude: { dialect: 'anthropic', base_url: provider.baseUrl, api_key: '${CLAUDE_KEY}' },
      },
      models: {
        m: modelAt('scripted', 'upstream-model'),
        claude: modelAt('claude', 'claude-sonnet-4-5'),
        either: {
          ...modelAt('claude', 'claude-sonnet-4-5'),
          targets: [asked, { provider: 'claude', model: 'claude-sonnet-4-5', priority: 2 }],
        },
      },
      routes: [{ path: '/v1/messages', policy: 'test' }],
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await provider.close()
})

describe('Anthropic’s', () => {
  const TOOLS = [
    { type: 'bash_20250124', name: 'bash' },
    { type: 'text_editor_20250728', name: 'str_replace_based_edit_tool', max_characters: 1000 },
    { type: 'memory_20250818', name: 'memory' },
  ] as const
  const ask = (model: string, tools: readonly Anthropic.ToolUnion[], more: readonly Anthropic.MessageParam[] = []) =>
    new Anthropic({ apiKey: gateway.key, baseURL: gateway.url, logLevel: 'off', maxRetries: 0 }).messages.create({
      model,
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Which files are there?' }, ...more],
      tools: [...tools],
    })

  test.each(TOOLS.map(tool => [tool.type, tool] as const))(
    '%s: declared as it was, called, and answered',
    async (_type, tool) => {
      const called = await ask('claude', [tool])
      expect(provider.requests.at(-1)!.body).toMatchObject({ tools: [tool] })
      expect(called.content).toMatchObject([{ type: 'tool_use', name: tool.name, input: { command: 'ls' } }])
      const use = called.content[0] as Anthropic.ToolUseBlock
      const result = { type: 'tool_result' as const, tool_use_id: use.id, content: 'a.txt' }
      const answered = await ask(
        'claude',
        [tool],
        [
          { role: 'assistant', content: called.content },
          { role: 'user', content: [result] },
        ],
      )
      expect(answered.content).toMatchObject([{ type: 'text', text: 'Done.' }])
      expect(provider.requests.at(-1)!.body).toMatchObject({
        messages: [{}, { content: [{ type: 'tool_use', name: tool.name }] }, { content: [{ tool_use_id: use.id }] }],
      })
    },
  )

  test('several, beside one of the client’s own, with a mark', async () => {
    const own = { name: 'own', description: 'Mine.', input_schema: { type: 'object' as const, properties: {} } }
    await ask('claude', [own, { ...TOOLS[0], cache_control: { type: 'ephemeral' } }, TOOLS[2]])
    expect(provider.requests.at(-1)!.body).toMatchObject({
      tools: [own, { ...TOOLS[0], cache_control: { type: 'ephemeral' } }, TOOLS[2]],
    })
  })

  test('of several targets the one is asked that has them', async () => {
    const before = provider.requests.length
    await ask('either', [TOOLS[0]])
    expect(provider.requests.slice(before).map(({ path }) => path)).toEqual(['/v1/messages'])
  })

  test('a model that has none of them is not asked', async () => {
    const before = provider.requests.length
    await expect(ask('m', [TOOLS[0]])).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining(
        "tools[0] has the type 'bash_20250124', which this model's provider does not have.",
      ),
      error: { error: { code: 'unsupported_parameter', param: 'tools[0].type' } },
    })
    expect(provider.requests.length).toBe(before)
  })

  test('a tool that Anthropic runs is refused', async () => {
    await expect(ask('claude', [{ type: 'web_search_20250305', name: 'web_search' }])).rejects.toMatchObject({
      status: 400,
      error: { error: { code: 'unsupported_parameter', param: 'tools[0].type' } },
    })
  })
})
