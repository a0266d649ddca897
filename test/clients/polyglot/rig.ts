/** The gateway and a provider whose behaviour depends on the name of the model. */
import { parseMoney } from '#contract'
import {
  type Behaviour,
  exact,
  FAULTS,
  type FakeProvider,
  type ProviderRequest,
  startFakeProvider,
} from '../../helpers/fake-provider.ts'
import type { LogLine } from '../../helpers/gateway.ts'
import { FIVE_STEPS, type InProcess, startInProcess } from '../../helpers/in-process.ts'
import { modelAt, providersWith } from '../rig.system.ts'

export interface Rig {
  readonly gateway: InProcess
  readonly provider: FakeProvider
  /** The environment variables of a program. */
  readonly env: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** One request of a program, from the gateway's log. */
export type Exchange = LogLine

const MODELS = ['m', 'limited', 'tools', 'structured', 'breaks']
const ROUTES = ['/v1/chat/completions', '/v1/responses', '/v1/messages']

/** The arguments of each tool: the city for our programs, an equivalent command for Claude Code. */
const CALLS: Readonly<Record<string, object>> = {
  get_weather: { city: 'Paris' },
  Bash: { command: 'echo clear over Paris', description: 'Show the weather of Paris' },
}

/** The answer of the model `structured`. */
export const REPORT = { city: 'Paris', celsius: 21 }

export async function startRig(): Promise<Rig> {
  const provider = await startFakeProvider({ script: behaviourFor })
  const [key, ...schemaAndMore] = FIVE_STEPS
  const limited = {
    use: 'rate-limit',
    id: 'hourly',
    when: 'model.id == "limited"',
    with: { per: 'account', requests: '1 per hour' },
  }
  const gateway = await startInProcess({
    steps: [key!, schemaAndMore[0]!, limited, ...schemaAndMore.slice(1)],
    yaml: {
      providers: providersWith(provider),
      models: Object.fromEntries(
        MODELS.map(name => [name, modelAt('scripted', name, { context: 400_000, max_output: 64_000 })]),
      ),
      routes: ROUTES.map(path => ({ path, policy: 'test' })),
    },
  })
  // The only request of this hour.
  const first = await gateway.chat({ model: 'limited' })
  if (first.status !== 200) throw new Error(`the first request of the hour: ${await first.text()}`)
  return {
    gateway,
    provider,
    env: {
      TOLLGATE_URL: gateway.url,
      TOLLGATE_KEY: gateway.key,
      TOLLGATE_POOR_KEY: await poorKey(gateway),
      TOLLGATE_WRONG_KEY: 'nonsense',
    },
    async close() {
      await gateway.stop()
      await provider.close()
    },
  }
}

/** The key of an account that cannot pay for one token. */
async function poorKey({ running: { store } }: InProcess): Promise<string> {
  const { id } = await store.createAccount({ name: 'poor' })
  await store.credit({ account: id, amount: parseMoney('0.000001'), reference: 'poor', actor: 'test' })
  return (await store.createKey({ account: id, name: 'poor' })).token
}

function behaviourFor(request: ProviderRequest): Behaviour {
  const { model, stream } = request.body!
  if (model === 'tools') return afterCall(request) ?? callOf(request, CALLS)
  if (model === 'structured') return structured(request)
  // Whole answers succeed, so a client that repeats the request without a stream gets one.
  if (model !== 'breaks' || stream !== true) return exact()
  return FAULTS.find(({ title }) => title === 'reset in the middle')!.make('stream')
}

/** With a tool result in the conversation: an answer that repeats it. */
function afterCall({ body }: ProviderRequest): Behaviour | null {
  const messages = body!['messages'] as { role: string; content: unknown }[]
  const result = messages.find(({ role }) => role === 'tool')
  if (!result) return null
  const text = JSON.stringify(result.content)
  return exact({ tokens: ['The weather', ` is ${/clear over Paris/.exec(text)?.[0] ?? text}`] })
}

/** A call of the first known tool; if none is known, a text that says so. */
function callOf({ body }: ProviderRequest, calls: Readonly<Record<string, object>>): Behaviour {
  const name = toolsOf(body).find(tool => Object.hasOwn(calls, tool.name))?.name
  if (name === undefined) return exact({ tokens: ['no tool'] })
  return exact({ toolCalls: [{ name, arguments: [JSON.stringify(calls[name])] }] })
}

/** A structured answer in the requested format, or by a call if the library uses a tool for it. */
function structured(request: ProviderRequest): Behaviour {
  const text = JSON.stringify(REPORT)
  if (request.body!['response_format'] !== undefined) return exact({ tokens: [text.slice(0, 9), text.slice(9)] })
  const tool = toolsOf(request.body).find(({ parameters }) => JSON.stringify(parameters).includes('"celsius"'))
  return afterCall(request) ?? callOf(request, tool ? { [tool.name]: REPORT } : {})
}

function toolsOf(body: ProviderRequest['body']): { name: string; parameters: unknown }[] {
  const tools = (body!['tools'] ?? []) as { function: { name: string; parameters: unknown } }[]
  return tools.map(tool => tool.function)
}
