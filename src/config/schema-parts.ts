/** Types of values for the schemas of gateway.yaml and policies. */
import { MODALITIES, TIERS, type UnitName, unit } from '#contract'

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
    'The media that the target accepts in messages. Text is always accepted. Tollgate does not send other media to the target. Default: by the family of the model, else by the dialect.',
  items: { enum: MODALITIES },
}

export const NAME = {
  pattern: '^[A-Za-z][A-Za-z0-9_-]{0,39}$',
  sentence: 'must be up to 40 letters, digits, dashes and underscores',
}
/** A common mistake is the path of the file. */
export const POLICY_NAME = {
  ...NAME,
  sentence:
    'must be the name of a file in policies/, without ".yaml": up to 40 letters, digits, dashes and underscores',
}
/** YAML reads a port alone as a number. */
export const ADDRESS = {
  sentence: 'must be an address with a port',
  instead: { of: '^\\d{1,5}$', write: '127.0.0.1:VALUE' },
}

const SENTENCE_PRICE = 'must be "auto", "free" or a map with per, input and output'

const dollars = (description: string) => ({ ...unit('money'), description })

const PER = {
  enum: ['1M tokens', '1K tokens'],
  description: 'The number of tokens that a price is for.',
  sentence: 'must be "1M tokens" or "1K tokens"',
}

const PROMPT_PARTS = {
  input: dollars('Dollars for prompt tokens.'),
  cached_input: dollars('Dollars for prompt tokens that the provider reads from its cache. Default: input.'),
}

const TOKEN_PARTS = {
  ...PROMPT_PARTS,
  cache_write: dollars('Dollars for prompt tokens that the provider writes to its cache. Default: input.'),
  cache_write_1h: dollars('Dollars for written prompt tokens that the cache keeps for an hour. Default: cache_write.'),
  input_audio: dollars('Dollars for audio prompt tokens. Default: input.'),
  cached_audio: dollars(
    'Dollars for audio prompt tokens that the provider reads from its cache. Default: cached_input.',
  ),
  input_image: dollars('Dollars for image prompt tokens. Default: input.'),
  output: dollars('Dollars for output tokens, including reasoning.'),
  reasoning: dollars('Dollars for reasoning output tokens. Default: output.'),
  output_audio: dollars('Dollars for audio output tokens. Default: output.'),
  output_image: dollars('Dollars for image output tokens. Default: output.'),
}

/** In a step or a tier, an omitted part keeps its price. */
const STEP_PARTS = Object.fromEntries(
  Object.entries(TOKEN_PARTS).map(([key, part]) => [key, dollars(part.description.replace(/ Default: .*/, ''))]),
)

const ABOVE = {
  type: 'array',
  minItems: 1,
  description:
    'Prices of requests with a longer prompt, for all of their tokens. The length includes cached and written tokens. An omitted part keeps its price.',
  items: map(
    'Prices of requests whose prompt is longer.',
    { tokens: tokens('The prompt is longer than this.'), ...STEP_PARTS },
    { required: ['tokens'] },
  ),
}

const TIER = map(
  'Prices of the service tiers that a provider names in its answer (service_tier). An omitted part keeps its price.',
  Object.fromEntries(
    TIERS.map(tier => [
      tier,
      map(`Prices of answers with service_tier: ${tier}.`, { ...STEP_PARTS, above: ABOVE }, { minProperties: 1 }),
    ]),
  ),
  { minProperties: 1 },
)

const REQUEST = dollars('Dollars for each request, in addition to its tokens. Default: 0.')

const PRICE_PARTS = {
  per: PER,
  ...TOKEN_PARTS,
  request: REQUEST,
  web_search: dollars('Dollars for each web search by the provider, in addition to tokens. Default: 0.'),
  above: ABOVE,
  tier: TIER,
}

/** A price is a word or a map. `if` selects the errors of one of the two. */
const priceOf = (description: string, sentence: string, words: readonly string[], parts: object, rules: object) => ({
  type: ['string', 'object'],
  description,
  sentence,
  if: { type: 'string' },
  then: { enum: words, sentence },
  else: map(description, parts, { sentence, ...rules }),
})

export const price = (description: string) =>
  priceOf(description, SENTENCE_PRICE, ['auto', 'free'], PRICE_PARTS, { required: ['per', 'input', 'output'] })

/** A value, or the word `auto` for the price catalog's value. */
export const orAuto = (schema: { readonly description: string }, sentence: string, standard = '') => ({
  description: schema.description + standard,
  if: { const: 'auto' },
  else: { ...schema, sentence },
})

export const RAW_PRICE = priceOf(
  'Raw routes: the price of a request: "free", or dollars for each request, for tokens or other units, or both.',
  'must be "free" or a map with request, per and input, or another unit',
  ['free'],
  {
    per: PER,
    ...PROMPT_PARTS,
    output: TOKEN_PARTS.output,
    request: REQUEST,
    image: dollars('Dollars for each image in the answer.'),
    second: dollars('Dollars for each second of audio that the provider reports.'),
    minute: dollars('Dollars for each minute of audio that the provider reports, in proportion.'),
    character: dollars('Dollars for a million characters of the text to speak (input or text in the body).'),
    page: dollars('Dollars for each page that the provider reports.'),
  },
  {
    minProperties: 1,
    dependentRequired: { input: ['per'], per: ['input'], output: ['input'], cached_input: ['input'] },
  },
)
