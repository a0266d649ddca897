/** Models, prices and requests in few words, for this plugin's tests. */
import fc from 'fast-check'
import {
  type Chat,
  type ChatRequest,
  type MeteredUsage,
  type Model,
  type Price,
  type Progress,
  plainPrice,
  type Target,
} from '#contract'

const USD = 1_000_000_000n

/** $1, $0.1, $1.25 and $2 a million tokens: a prompt token costs 1,000 nano-dollars, an output token 2,000. */
const RATES = { input: USD, cached_input: USD / 10n, cache_write: (USD * 5n) / 4n, output: 2n * USD, request: 0n }
export const PRICE: Price = plainPrice(RATES)
/** The price with other rates. */
export const priced = (rates: Parameters<typeof plainPrice>[0]): Price => plainPrice({ ...RATES, ...rates })

export const target = (fields: Partial<Target> = {}): Target => ({
  id: 'p/m',
  provider: 'p',
  model: 'm',
  weight: 1,
  cost: null,
  capField: 'max_tokens',
  reasoningOutsideCap: 0,
  priority: 1,
  maxInflight: Number.POSITIVE_INFINITY,
  ...fields,
})

export const model = (fields: Partial<Model> = {}): Model => ({
  id: 'chat-small',
  targets: [target()],
  price: PRICE,
  context: 131_072,
  maxOutput: 16_384,
  defaultOutput: 4_096,
  reasoning: false,
  inputOverhead: 1_024,
  allow: [],
  public: true,
  enabled: true,
  created: 0,
  ownedBy: 'test',
  description: null,
  ...fields,
})

/** The fact `chat` for a body. */
export function chat(body: Partial<ChatRequest> = {}, cap = 1_000): Chat {
  const whole: ChatRequest = { model: 'chat-small', messages: [{ role: 'user', content: 'hi' }], ...body }
  return {
    body: whole,
    bytes: Buffer.from(JSON.stringify(whole)),
    stream: whole.stream === true,
    includeUsage: whole.stream_options?.include_usage === true,
    choices: whole.n ?? 1,
    requestedCap: cap,
    cap,
  }
}

export const usage = (input: number, output: number, more: Partial<MeteredUsage> = {}): MeteredUsage => ({
  input,
  output,
  source: 'reported',
  ...more,
})

export const progress = (fields: Partial<Progress> = {}): Progress => ({
  started: true,
  finished: true,
  delivered: true,
  left: false,
  abandoned: false,
  countedTokens: 0,
  estimate: usage(0, 0, { source: 'estimated' }),
  ...fields,
})

/** Up to $100,000 a million tokens, the maximum of a configuration. */
const perMillion = fc.oneof(
  fc.constantFrom(0n, 1n, 999_999n, 1_000_000n, 1_000_001n, 37_500_000n, 150_000_000n, 600_000_000n),
  fc.bigInt({ min: 0n, max: 100_000n * USD }),
)
export const anyPrice: fc.Arbitrary<Price> = fc
  .record({
    input: perMillion,
    cached_input: perMillion,
    cache_write: perMillion,
    output: perMillion,
    request: fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: USD })),
    search: fc.oneof(fc.constant(0n), fc.bigInt({ min: 0n, max: USD })),
  })
  .map(plainPrice)

const words = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.nat({ max: 3_000 }).map(length => 'x'.repeat(length)),
)
const part = fc.oneof(
  { weight: 8, arbitrary: words.map(text => ({ type: 'text', text })) },
  { weight: 1, arbitrary: fc.constant({ type: 'image_url', image_url: { url: 'https://a/b.png' } }) },
  { weight: 1, arbitrary: fc.constantFrom({ type: 'file', file: { file_id: 'x' } }, { type: 'input_audio' }) },
)
const message = fc.record(
  {
    role: fc.constantFrom('system', 'user', 'assistant', 'tool'),
    content: fc.oneof(words, fc.constant(null), fc.array(part, { maxLength: 3 })),
    name: words,
    reasoning_content: words,
  },
  { requiredKeys: ['role'] },
)
const tool = fc.oneof(
  { weight: 5, arbitrary: words.map(name => ({ type: 'function', function: { name } })) },
  { weight: 1, arbitrary: fc.constant({ type: 'web_search' }) },
  {
    weight: 1,
    arbitrary: fc
      .record({ max_uses: fc.constantFrom(1, 3, 10, 1_000_000) }, { requiredKeys: [] })
      .map(uses => ({ type: 'anthropic', anthropic: { type: 'web_search_20250305', name: 'web_search', ...uses } })),
  },
)
export const anyChat: fc.Arbitrary<Chat> = fc
  .record({
    body: fc.record(
      {
        messages: fc.array(message, { maxLength: 4 }),
        tools: fc.array(tool, { maxLength: 3 }),
        functions: fc.array(fc.constant({ name: 'f' }), { maxLength: 1 }),
        n: fc.integer({ min: 1, max: 128 }),
        web_search_options: fc.constantFrom(null, {}),
      },
      { requiredKeys: ['messages'] },
    ),
    cap: fc.oneof(fc.integer({ min: 1, max: 128 }), fc.integer({ min: 1, max: 1_048_576 })),
  })
  .map(({ body, cap }) => chat(body as Partial<ChatRequest>, cap))

export const anyModel: fc.Arbitrary<Model> = fc
  .record({
    context: fc.oneof(fc.integer({ min: 1, max: 4_096 }), fc.integer({ min: 1, max: 10_000_000 })),
    inputOverhead: fc.nat({ max: 5_000 }),
    reasoning: fc.boolean(),
    outside: fc.array(fc.nat({ max: 100_000 }), { minLength: 1, maxLength: 3 }),
  })
  .map(({ outside, ...fields }) =>
    model({ ...fields, targets: outside.map(reasoningOutsideCap => target({ reasoningOutsideCap })) }),
  )
