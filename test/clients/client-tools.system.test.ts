/** Vendor-defined tools that the client runs: Anthropic's reach a provider that supports them, OpenAI's every model. */
import Anthropic from '@anthropic-ai/sdk'
import {
  Agent,
  applyPatchTool,
  OpenAIResponsesModel,
  Runner,
  setTraceProcessors,
  setTracingDisabled,
  shellTool,
  type Tool,
} from '@openai/agents'
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  exact,
  type FakeProvider,
  type ProviderRequest,
  sendJsonHead,
  startFakeProvider,
} from '../helpers/fake-provider.ts'
import { type InProcess, startInProcess } from '../helpers/in-process.ts'
import { modelAt, providersWith } from './rig.system.ts'

// The SDK would send traces to OpenAI.
setTracingDisabled(true)
setTraceProcessors([])

let provider: FakeProvider
let gateway: InProcess

/** Calls its first tool, and answers once it gets a result. */
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

/** The arguments of the next call. After a result the model answers. */
let callArguments: object = {}
const calling = ({ body }: ProviderRequest) => {
  const { messages, tools = [] } = body as { messages: { role: string }[]; tools?: { function: { name: string } }[] }
  if (messages.at(-1)!.role === 'tool') return exact({ tokens: ['Done.'] })
  const name = tools[0]!.function.name
  return exact({
    toolCalls: [{ id: 'call_1', name, arguments: [JSON.stringify(callArguments)] }],
    finish: 'tool_calls',
  })
}

beforeAll(async () => {
  provider = await startFakeProvider({
    script: request => (request.path.endsWith('/messages') ? claude(request) : calling(request)),
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
      routes: [
        { path: '/v1/messages', policy: 'test' },
        { path: '/v1/responses', policy: 'test' },
      ],
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
    '%s: is declared unchanged, called, and answered',
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

  test('several, beside a client tool with a cache mark', async () => {
    const own = { name: 'own', description: 'Mine.', input_schema: { type: 'object' as const, properties: {} } }
    await ask('claude', [own, { ...TOOLS[0], cache_control: { type: 'ephemeral' } }, TOOLS[2]])
    expect(provider.requests.at(-1)!.body).toMatchObject({
      tools: [own, { ...TOOLS[0], cache_control: { type: 'ephemeral' } }, TOOLS[2]],
    })
  })

  test('of several targets the one that supports them is used', async () => {
    const before = provider.requests.length
    await ask('either', [TOOLS[0]])
    expect(provider.requests.slice(before).map(({ path }) => path)).toEqual(['/v1/messages'])
  })

  test('a model that supports none of them is not used', async () => {
    const before = provider.requests.length
    await expect(ask('m', [TOOLS[0]])).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining(
        "tools[0] has the type 'bash_20250124', which this model's provider does not support.",
      ),
      error: { error: { code: 'unsupported_parameter', param: 'tools[0].type' } },
    })
    expect(provider.requests.length).toBe(before)
  })

  test('a tool that Anthropic runs is dropped', async () => {
    await ask('claude', [{ type: 'web_fetch_20250910', name: 'web_fetch' }, TOOLS[0]])
    expect(provider.requests.at(-1)!.body).toMatchObject({ tools: [TOOLS[0]] })
  })
})

describe.each([false, true])('OpenAI’s, to a model of chat completions (stream %s)', stream => {
  const openai = () => new OpenAI({ apiKey: gateway.key, baseURL: `${gateway.url}/v1`, logLevel: 'off', maxRetries: 0 })

  async function run(tool: Tool) {
    const agent = new Agent({ name: 'helper', model: new OpenAIResponsesModel(openai(), 'm'), tools: [tool] })
    const runner = new Runner({ tracingDisabled: true })
    if (!stream) return (await runner.run(agent, 'Which files are there?')).finalOutput
    const result = await runner.run(agent, 'Which files are there?', { stream: true })
    await result.completed
    return result.finalOutput
  }
  /** The call and the result that the model got. */
  const lastMessages = () => (provider.requests.at(-1)!.body as { messages: object[] }).messages.slice(-2)

  test('shell', async () => {
    callArguments = { commands: ['ls', 'pwd'], timeout_ms: 500 }
    const ran: unknown[] = []
    const output = [{ stdout: 'a.txt', stderr: '', outcome: { type: 'exit' as const, exitCode: 0 } }]
    const shell = {
      async run(action: unknown) {
        ran.push(action)
        return { output }
      },
    }
    expect(await run(shellTool({ shell }))).toBe('Done.')
    expect(ran).toEqual([expect.objectContaining({ commands: ['ls', 'pwd'], timeoutMs: 500 })])
    expect(lastMessages()).toMatchObject([
      { tool_calls: [{ id: 'call_1', function: { name: 'shell', arguments: expect.stringContaining('"ls","pwd"') } }] },
      { role: 'tool', tool_call_id: 'call_1', content: expect.stringContaining('"stdout":"a.txt"') },
    ])
  })

  test('apply_patch', async () => {
    callArguments = { type: 'update_file', path: 'a.txt', diff: '@@\n-a\n+b' }
    const asked: unknown[] = []
    const editor = {
      createFile: async () => {},
      async updateFile(operation: unknown) {
        asked.push(operation)
        return { status: 'failed' as const, output: 'no such line' }
      },
      deleteFile: async () => {},
    }
    expect(await run(applyPatchTool({ editor }))).toBe('Done.')
    expect(asked).toEqual([callArguments])
    expect(lastMessages()).toMatchObject([{}, { role: 'tool', content: 'failed: no such line' }])
  })

  test('local_shell, and an invalid call runs nothing', async () => {
    const ask = async (input: OpenAI.Responses.ResponseInput) => {
      const request = { model: 'm', input, tools: [{ type: 'local_shell' as const }] }
      if (!stream) return openai().responses.create(request)
      return openai().responses.stream(request).finalResponse()
    }
    const user = { role: 'user' as const, content: 'Which files are there?' }
    callArguments = { command: ['ls', '-l'], working_directory: '/tmp' }
    const [item] = (await ask([user])).output
    expect(item).toMatchObject({
      type: 'local_shell_call',
      status: 'completed',
      call_id: 'call_1',
      action: { type: 'exec', command: ['ls', '-l'], env: {}, working_directory: '/tmp' },
    })
    const call = item as OpenAI.Responses.ResponseInputItem.LocalShellCall
    const done = await ask([user, call, { type: 'local_shell_call_output', id: call.call_id, output: 'a.txt' }])
    expect(done.output_text).toBe('Done.')
    expect(lastMessages()).toMatchObject([{}, { role: 'tool', tool_call_id: 'call_1', content: 'a.txt' }])
    callArguments = { command: { rm: true } }
    expect((await ask([user])).output).toMatchObject([{ type: 'local_shell_call', action: { command: [] } }])
  })
})
