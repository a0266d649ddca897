/** A gateway with a probe of its event loop (loop-probe.ts), with one model and a key with ample credit. */
import type { FakeProvider } from '../helpers/fake-provider.ts'
import { createAccount, type Gateway, startGateway } from '../helpers/gateway.ts'
import { FIVE_STEPS, PRICE } from '../helpers/in-process.ts'
import { isProbe, PROBED_GATEWAY } from './loop-probe.ts'

export interface ProbedOptions {
  /** Changes to gateway.yaml. */
  readonly yaml: Readonly<Record<string, unknown>>
  /** Of the model `m`. */
  readonly context: number | string
  /** Of the policy; default: the first five. */
  readonly steps?: readonly object[]
}

export async function startProbed(
  provider: FakeProvider,
  { yaml, context, steps = FIVE_STEPS }: ProbedOptions,
): Promise<{ gateway: Gateway; key: string }> {
  const gateway = await startGateway({
    entry: PROBED_GATEWAY,
    yaml: {
      version: 1,
      listen: '127.0.0.1:0',
      providers: { p: { dialect: 'openai', base_url: provider.baseUrl } },
      models: { m: { targets: [{ provider: 'p', model: 'upstream-model' }], price: PRICE, context, max_output: 1000 } },
      routes: [{ path: '/v1/chat/completions', policy: 'test' }],
      ...yaml,
    },
    policies: { test: { steps } },
    keep: line => isProbe(line) || line['level'] === 'error',
  })
  return { gateway, key: (await createAccount(gateway, { credit: '1000000' })).key }
}
