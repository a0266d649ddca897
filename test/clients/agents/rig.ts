/** A gateway process with a scripted provider and a recorder in front, for one program and one dialect. */
import { parseMoney } from '#contract'
import { type FakeProvider, type ProviderRequest, startFakeProvider } from '../../helpers/fake-provider.ts'
import { answerOf, createAccount, type Gateway, startGateway } from '../../helpers/gateway.ts'
import { PRICE } from '../../helpers/in-process.ts'
import { untilTruthy } from '../../helpers/until.ts'
import type { Program } from './programs.ts'
import { type Answer, answerWith, type Dialect, FORMATS, hangAfterFirstToken, isCustom, overflow } from './provider.ts'
import { type Recorder, startRecorder } from './recorder.ts'

/** The provider's answers to the next requests that declare the program's tool. */
export interface Plan {
  /** Answers that call the tool, before a text. */
  calls: number
  /** Requests that are refused because the conversation is too long. */
  overflows: number
  /** The next one gets its first token and then nothing. */
  hangs: boolean
}

export interface AgentRig extends AsyncDisposable {
  readonly dialect: Dialect
  /** The only model of the catalog. */
  readonly model: string
  /** The recorder's address for base URLs, without `/v1`. */
  readonly url: string
  readonly key: string
  readonly gateway: Gateway
  readonly provider: FakeProvider
  readonly recorder: Recorder
  readonly plan: Plan
  /** The number of calls that the provider has made. */
  readonly called: number
  /** The request that hangs after its first token. */
  readonly hanging: ProviderRequest | null
  /** The log lines of the exchanges, once each request of the program has one. */
  exchanges(): Promise<readonly Exchange[]>
  account(): Promise<{ posted: bigint; held: bigint }>
}

export type Exchange = Readonly<Record<string, unknown>>

/** The tool that the provider calls: its name and the arguments of call number `at`. */
export type Tool = readonly [name: string, args: (at: number) => object]

export const CREDIT = parseMoney('50')
export const ANSWER = 'The work is done.'
const PATHS = ['/v1/chat/completions', '/v1/responses', '/v1/messages']
const SECRET = 'scripted-provider-key'

export async function startAgentRig(
  dialect: Dialect,
  { tools, models }: Pick<Program, 'tools' | 'models'>,
): Promise<AgentRig> {
  const name = models?.[dialect] ?? `model-on-${dialect}`
  const plan: Plan = { calls: 0, overflows: 0, hangs: false }
  let called = 0
  let hanging: ProviderRequest | null = null
  const next = ({ body }: ProviderRequest): Answer => {
    const declared = FORMATS[dialect].tools(body!)
    const tool = tools.find(([name]) => declared.includes(name))
    if (!tool || plan.calls === 0) return { text: ANSWER }
    plan.calls--
    called++
    return { tool: tool[0], args: tool[1](called), id: `call_${called}`, isCustom: isCustom(body!, tool[0]) }
  }
  const provider = await startFakeProvider({
    script(request) {
      const isMain = tools.length === 0 || FORMATS[dialect].tools(request.body!).length > 0
      if (isMain && plan.hangs) {
        plan.hangs = false
        hanging = request
        return hangAfterFirstToken(dialect, { text: ANSWER })
      }
      if (isMain && plan.overflows > 0) {
        plan.overflows--
        return overflow(dialect)
      }
      return answerWith(dialect, next(request))
    },
  })
  const access =
    dialect === 'bedrock'
      ? { aws: { access_key_id: '${SECRET}', secret_access_key: '${SECRET}', region: 'eu-central-1' } }
      : { api_key: '${SECRET}' }
  const price = dialect === 'anthropic' ? { ...PRICE, cache_write: '$1.25', cached_input: '$0.1' } : PRICE
  const model = {
    targets: [{ provider: 'scripted', model: 'upstream-model' }],
    price,
    context: 400_000,
    max_output: 64_000,
  }
  const gateway = await startGateway({
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      providers: { scripted: { dialect, base_url: baseUrlOf(dialect, provider), ...access } },
      models: { [name]: model },
      routes: PATHS.map(path => ({ path, policy: 'agents' })),
    },
    policies: {
      agents: {
        steps: [{ use: 'api-key' }, { use: 'schema' }, { use: 'credits' }, { use: 'route', with: { attempts: 1 } }],
      },
    },
    env: { SECRET },
  })
  const { accountId, key } = await createAccount(gateway, { credit: '50' })
  const recorder = await startRecorder(gateway.url)
  return {
    dialect,
    model: name,
    url: recorder.url,
    key,
    gateway,
    provider,
    recorder,
    plan,
    get called() {
      return called
    },
    get hanging() {
      return hanging
    },
    async exchanges() {
      const lines = () => gateway.logs().filter(({ msg }) => msg === 'exchange')
      const asked = () =>
        recorder.requests.filter(({ method, path }) => method === 'POST' && PATHS.some(each => path.startsWith(each)))
      await untilTruthy(() => lines().length >= asked().length)
      return lines()
    },
    async account() {
      const { account } = await answerOf<{ account: { posted: string; held: string } }>(
        ['account', 'show', accountId],
        gateway,
      )
      return { posted: parseMoney(account.posted), held: parseMoney(account.held) }
    },
    async [Symbol.asyncDispose]() {
      await recorder.close()
      await gateway.stop()
      await provider.close()
    },
  }
}

function baseUrlOf(dialect: Dialect, { url, baseUrl }: FakeProvider): string {
  return dialect === 'openai' || dialect === 'anthropic' ? baseUrl : url
}
