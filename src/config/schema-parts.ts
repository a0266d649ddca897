/** Types of values in the schemas of gateway.yaml and policies. */
import { MODALITIES, type UnitName, unit } from '#contract'

export const text = (description: string, more: object = {}) => ({ type: 'string', minLength: 1, description, ...more })
export const flag = (description: string, value: boolean) => ({ type: 'boolean', description, default: value })
export const whole = (description: string, minimum: number, maximum: number, more: object = {}) => ({
  type: 'integer',
  minimum,
  maximum,
  description,
  ...more,
})
export const measured = (name: UnitName, from: string, to: string) => (description: string, value?: string) => ({
  ...unit(name),
  within: { unit: name, from, to },
  description: value === undefined ? description : `${description} Default: ${value}.`,
  ...(value === undefined ? {} : { default: value }),
})
export const span = measured('duration', '1ms', '24h')
export const tokens = measured('tokens', '1', '100M')
export const map = (description: string, properties: object, more: object = {}) => ({
  type: 'object',
  additionalProperties: false,
  description,
  properties,
  ...more,
})

export const INPUT_MODALITIES = {
  type: 'array',
  uniqueItems: true,
  description:
    'The media that the target accepts in messages. Text is always accepted. Tollgate does not send other media to the target. Default: what the model is known to accept, else what the dialect can represent.',
  items: { enum: MODALITIES },
}

export const NAME = {
  pattern: '^[A-Za-z][A-Za-z0-9_-]{0,39}$',
  sentence: 'must be up to 40 letters, digits, dashes and underscores',
}
/** Many write the path of the file. */
export const POLICY_NAME = {
  ...NAME,
  sentence:
    'must be the name of a file in policies/, without ".yaml": up to 40 letters, digits, dashes and underscores',
}
/** A port alone is a number to YAML. */
export const ADDRESS = {
  sentence: 'must be an address with a port',
  instead: { of: '^\\d{1,5}$', write: '127.0.0.1:VALUE' },
}

const SENTENCE_PRICE = 'must be "free" or a map with per, input and output'

const PRICE_PARTS = {
  per: {
    enum: ['1M tokens', '1K tokens'],
    description: 'The number of tokens that the prices are for.',
    sentence: 'must be "1M tokens" or "1K tokens"',
  },
  input: { ...unit('money'), description: 'Dollars for prompt tokens.' },
  cached_input: {
    ...unit('money'),
    description: 'Dollars for prompt tokens that the provider reads from its cache. Default: input.',
  },
  cache_write: {
    ...unit('money'),
    description: 'Dollars for prompt tokens that the provider writes to its cache. Default: input.',
  },
  output: { ...unit('money'), description: 'Dollars for output tokens, reasoning included.' },
  request: { ...unit('money'), description: 'Dollars for each request, in addition to its tokens. Default: 0.' },
  web_search: {
    ...unit('money'),
    description: 'Dollars for each web search that the provider makes, in addition to tokens. Default: 0.',
  },
}

/** A price is the word `free` or a map. `if` selects the errors of one of the two. */
const priceOf = (description: string, sentence: string, parts: object, rules: object) => ({
  type: ['string', 'object'],
  description,
  sentence,
  if: { type: 'string' },
  then: { const: 'free', sentence },
  else: map(description, parts, { sentence, ...rules }),
})

export const price = (description: string) =>
  priceOf(description, SENTENCE_PRICE, PRICE_PARTS, { required: ['per', 'input', 'output'] })

export const RAW_PRICE = priceOf(
  'Raw routes: the price of a request: "free", or dollars for each request, for tokens, or both.',
  'must be "free" or a map with request, or per and input, or all three',
  {
    per: PRICE_PARTS.per,
    input: PRICE_PARTS.input,
    cached_input: PRICE_PARTS.cached_input,
    output: PRICE_PARTS.output,
    request: PRICE_PARTS.request,
  },
  {
    minProperties: 1,
    dependentRequired: { input: ['per'], per: ['input'], output: ['input'], cached_input: ['input'] },
  },
)
