/** The gateway that kill.test.ts kills: its models, their prices, and the cost of their answers. */
import { formatMoney } from '#contract'

// Nano-dollars per million tokens that no token count divides evenly, so that the charge shows the rounding.
const PRICES = {
  m: { input: 123_456_789n, output: 1_987_654_321n },
  large: { input: 123_457n, output: 1_987_655n },
}

/** By the price list, rounded up once. */
export function cost(kind: string, prompt: number, completion: number): bigint {
  const { input, output } = PRICES[kind === 'large' ? 'large' : 'm']
  return (BigInt(prompt) * input + BigInt(completion) * output + 999_999n) / 1_000_000n
}

/** gateway.yaml for these providers; models reach one directly, the other through a bad network. */
export function yamlOf(providers: Record<'direct' | 'through', object>) {
  const model = (provider: keyof typeof providers, { input, output }: typeof PRICES.m, sizes: object) => ({
    targets: [{ provider, model: 'upstream' }],
    price: { per: '1M tokens', input: money(input), output: money(output) },
    ...sizes,
  })
  const usual = { context: 8192, max_output: 1000 }
  return {
    version: 1,
    listen: '127.0.0.1:0',
    store: 'sqlite:./data/tollgate.db',
    providers,
    models: {
      m: model('direct', PRICES.m, usual),
      through: model('through', PRICES.m, usual),
      large: model('direct', PRICES.large, { context: '4Mi', max_output: '2Mi' }),
    },
    routes: [
      { path: '/v1/chat/completions', policy: 'chat' },
      { path: '/v1/receipts/{id}', policy: 'receipts' },
    ],
  }
}

export const policies = {
  chat: {
    steps: [
      { use: 'api-key' },
      { use: 'schema' },
      { use: 'rate-limit', with: { per: 'key', requests: '1000000 per minute' } },
      { use: 'credits' },
      { use: 'route' },
    ],
  },
  receipts: { steps: [{ use: 'api-key' }] },
}

function money(amount: bigint): string {
  return `$${formatMoney(amount)}`
}
