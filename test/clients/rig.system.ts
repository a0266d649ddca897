/** The gateway for client libraries, with the embedded demo and a scripted provider. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import OpenAI, { type ClientOptions } from 'openai'
import { exact, type FakeProvider, type Script, startFakeProvider } from '../helpers/fake-provider.ts'
import { type InProcess, type InProcessOptions, PRICE, startInProcess } from '../helpers/in-process.ts'

export interface Rig extends AsyncDisposable {
  readonly gateway: InProcess
  readonly provider: FakeProvider
  /** For `base_url`. */
  readonly baseURL: string
  /** The official library with the account's key and its default of two retries. */
  openai(options?: ClientOptions): OpenAI
  /** The number of requests that the gateway has answered. */
  requests(): number
  close(): Promise<void>
}

export interface RigOptions extends Pick<InProcessOptions, 'plugins' | 'steps' | 'credit' | 'yaml' | 'open'> {
  /** For the provider of the model `m`; default: three tokens. */
  readonly script?: Script
  /** Further models of the catalog. */
  readonly models?: Readonly<Record<string, object>>
}

/** The models: `m` is the scripted provider, `demo` and `thinking` are the embedded demo. */
export async function startRig({ script = exact(), models, yaml, ...options }: RigOptions = {}): Promise<Rig> {
  const provider = await startFakeProvider({ script })
  const gateway = await startInProcess({
    ...options,
    yaml: {
      providers: providersWith(provider),
      models: {
        m: modelAt('scripted', 'upstream-model'),
        demo: modelAt('demo', 'demo-small'),
        thinking: modelAt('demo', 'demo-reasoning', { reasoning: true }),
        ...models,
      },
      ...yaml,
    },
  })
  const baseURL = `${gateway.url}/v1`
  const close = async () => {
    await gateway.stop()
    await provider.close()
  }
  return {
    gateway,
    provider,
    baseURL,
    openai: options => new OpenAI({ apiKey: gateway.key, baseURL, logLevel: 'off', ...options }),
    requests: () => gateway.log.filter(line => line['msg'] === 'exchange').length,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The scripted provider and the embedded demo. */
export function providersWith(provider: FakeProvider) {
  return {
    scripted: { dialect: 'openai', base_url: provider.baseUrl },
    demo: { dialect: 'demo', pace: '1ms' },
  }
}

/** A catalog model at one of them. */
export function modelAt(provider: string, model: string, more = {}) {
  return { targets: [{ provider, model }], price: { ...PRICE }, context: 8192, max_output: 1000, ...more }
}

/** The request that most tests send. */
export const HELLO = [{ role: 'user' as const, content: 'Hello' }]

/** Records the hosts and ports of this process' requests, from `start` to `stop`. */
export function watchHosts() {
  const hosts = new Set<string>()
  const note = (message: unknown) => void hosts.add((message as { connectParams: { host: string } }).connectParams.host)
  return {
    hosts,
    start: () => subscribe('undici:client:beforeConnect', note),
    stop: () => void unsubscribe('undici:client:beforeConnect', note),
  }
}
