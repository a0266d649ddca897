/** Missing prices, broken price lists and invalid wildcards, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'
import { type Gateway, HERE } from './workshop.ts'

const PROVIDERS = `providers:
  demo: { dialect: demo }
  far: { dialect: openai, base_url: https://api.example.com/v1, api_key: "\${FAR_KEY}" }
  openai: { dialect: openai, base_url: https://api.openai.com/v1, api_key: "\${FAR_KEY}" }
  azure: { dialect: azure, base_url: https://acme.openai.azure.com/openai/v1, api_key: "\${FAR_KEY}" }
  local: { dialect: ollama, base_url: "http://127.0.0.1:11434" }`
const model = (id: string, text: string, more = ''): Gateway => ({
  providers: PROVIDERS,
  models: `models:\n  ${id}: ${text.startsWith(HERE) ? `${HERE}{ ${text.slice(1)}` : `{ ${text}`} }\n  other: { targets: [ { provider: demo, model: x } ], price: free, context: 8Ki, max_output: 1Ki }`,
  more,
})
const auto = (target: string, more = ''): Gateway => model('small', `targets: [ { ${target} } ], price: auto${more}`)
const wild = (id: string, target: string, more = ''): Gateway =>
  model(id, `targets: [ { ${target} } ], price: auto${more}`)

/** A list with one row for a model that the configuration uses. */
const listed = (list: string, catalog = 'prices.json', target = 'provider: openai, model: gpt-5') =>
  [model('small', `targets: [ { ${target} } ], price: auto`, `catalog: ${catalog}`), { 'prices.json': list }] as const
const row = (text: string) => `{ "gpt-5": { "litellm_provider": "openai", "mode": "chat", ${text} } }`

const LISTS: readonly (readonly [name: string, list: string, says: string, catalog?: string, target?: string])[] = [
  ['that is not JSON', '▸nothing', 'this price list is not JSON (line 1, column 2); write a file'],
  [
    'nested too deeply',
    `▸{ "a": ${'['.repeat(64)}${']'.repeat(64)} }`,
    'more than 64 objects and lists in one another',
  ],
  ['that is a list', '▸[]', 'this price list is not a JSON object'],
  ['of nothing', '▸{}', 'this price list has no model; write a file in the format of LiteLLM'],
  [
    'with a negative price',
    row('"input_cost_per_token": ▸-0.000001, "output_cost_per_token": 0.00001'),
    'gpt-5: input_cost_per_token: -0.000001 is not a price: it must not be below 0',
  ],
  [
    'with a price as a word',
    row('"input_cost_per_token": ▸"cheap", "output_cost_per_token": 0.00001'),
    '"cheap" is not a price: it must be a number of dollars',
  ],
  [
    'with the price of a million tokens as the price of one',
    row('"input_cost_per_token": ▸1.25, "output_cost_per_token": 0.00001'),
    '1.25 is $1250000 for 1M tokens: a price is at most $100000',
  ],
  [
    'without an output price',
    `{ "gpt-5": ▸${row('"input_cost_per_token": 0.000001').slice(11, -2)} }`,
    'gpt-5 has no output_cost_per_token; a price has both',
  ],
  [
    'with a price that fell to zero',
    `{ "gpt-5": ▸${row('"input_cost_per_token": 0, "output_cost_per_token": 0.00001').slice(11, -2)} }`,
    'input of openai/gpt-5 is free in the price list, and $1.250000000 in the built-in one; if the price is right, write "accept: [openai/gpt-5]" below catalog',
  ],
  [
    'with a price that rose more than tenfold',
    `{ "gpt-5": ▸${row('"input_cost_per_token": 0.00000125, "output_cost_per_token": 0.000101').slice(11, -2)} }`,
    'output of openai/gpt-5 costs $101.000000000 for 1M tokens in the price list, and $10.000000000',
  ],
  [
    'that accepts a model that no list has',
    row('"input_cost_per_token": 0.00000125, "output_cost_per_token": 0.00001'),
    'no price list has "openai/gtp-5-mini"; did you mean "openai/gpt-5-mini"?',
    '{ file: prices.json, accept: [ openai/gpt-5, ▸openai/gtp-5-mini ] }',
  ],
  [
    'that accepts an unknown vendor',
    row('"input_cost_per_token": 0.00000125, "output_cost_per_token": 0.00001'),
    'no price list has "open-ai/gpt-5"; write VENDOR/MODEL',
    '{ file: prices.json, accept: [ ▸open-ai/gpt-5 ] }',
  ],
  [
    'with a free model that the built-in list does not have',
    '{ "gpt-free": ▸{ "litellm_provider": "openai", "input_cost_per_token": 0, "output_cost_per_token": 0 } }',
    'openai/gpt-free is free in the price list; if the price is right, write "accept: [openai/gpt-free]" below catalog',
    'prices.json',
    'provider: openai, model: gpt-free',
  ],
  [
    'with a model twice',
    '{ "gpt-5": { "litellm_provider": "openai" }, ▸"gpt-5": { "litellm_provider": "openai" } }',
    '"gpt-5" is in the price list twice; remove one of them',
  ],
  [
    'with another price under the name with the provider',
    `{ "gpt-5": ${row('"input_cost_per_token": 0.00000125, "output_cost_per_token": 0.00001').slice(11, -2)}, "openai/gpt-5": ▸${row('"input_cost_per_token": 0.000002, "output_cost_per_token": 0.00001').slice(11, -2)} }`,
    '"openai/gpt-5" has another price than "gpt-5", but is the same model; remove one of them',
  ],
  [
    'with another price under the name in capitals',
    '{ "openai": { "models": { "gpt-5": { "cost": { "input": 1, "output": 10 } }, "GPT-5": ▸{ "cost": { "input": 2, "output": 10 } } } } }',
    '"openai.models.GPT-5" has another price than "openai.models.gpt-5"',
  ],
  [
    'with an invalid end date',
    row('"input_cost_per_token": 0.00000125, "output_cost_per_token": 0.00001, "deprecation_date": ▸"2026-13-45"'),
    'gpt-5: deprecation_date: "2026-13-45" is not a calendar date; write it as YYYY-MM-DD',
  ],
  [
    'of models.dev with an invalid end date',
    '{ "openai": { "models": { "gpt-5": { "shutdown_date": ▸"soon", "cost": { "input": 1, "output": 10 } } } } }',
    'gpt-5: shutdown_date: "soon" is not a calendar date',
  ],
  [
    'with an invalid date of its own',
    `{ "_tollgate": { "date": ▸"2026-99-99" }, ${row('"input_cost_per_token": 0.00000125, "output_cost_per_token": 0.00001').slice(2)}`,
    'the date of the price list is "2026-99-99", which is not a calendar date',
  ],
  [
    'with a negative price in the second of its tiers',
    row(
      '"tiered_pricing": [ { "range": [0, 1000], "input_cost_per_token": 0.000001, "output_cost_per_token": 0.00001 }, { "range": [1000, 2000], "input_cost_per_token": ▸-1 } ]',
    ),
    'gpt-5: input_cost_per_token: -1 is not a price',
  ],
  [
    'of models.dev with a negative price',
    '{ "openai": { "models": { "gpt-5": { "cost": { "input": ▸-1, "output": 10 } } } } }',
    'gpt-5: input: -1 is not a price',
  ],
  [
    'of models.dev with a price twice',
    '{ "openai": { "models": { "gpt-5": { "cost": { "input": 1, ▸"input": 2, "output": 10 } } } } }',
    '"openai.models.gpt-5.cost.input" is in the price list twice',
  ],
]

export const CATALOG: Row[] = [
  [
    'an automatic price of the demo',
    auto('provider: demo, model: ▸tiny'),
    'no price list has the provider "demo"; write the price',
  ],
  [
    'an automatic price at an unknown host',
    auto('provider: far, model: ▸tiny'),
    'no price list has the provider "far"; write the price, or the profile of the provider whose models these are',
  ],
  [
    'an automatic price of a mistyped model',
    auto('provider: openai, model: ▸gtp-5'),
    'no price list has the model "gtp-5" of OpenAI; did you mean "gpt-5"?',
  ],
  [
    'an automatic price of an unknown model',
    auto('provider: openai, model: ▸zeppelin'),
    'no price list has the model "zeppelin" of OpenAI; write its price, or add a list with "catalog: FILE"',
  ],
  [
    'an automatic price of a deployment with a name of its own',
    auto('provider: azure, model: x, base_model: ▸o4-minu'),
    'no price list has the model "o4-minu" of Azure OpenAI; did you mean "o4-mini"?',
  ],
  [
    'an automatic price of a model without chat',
    auto('provider: openai, model: ▸whisper-1'),
    'no price list has a price for tokens of the model "whisper-1"; write its price',
  ],
  [
    'an automatic price of a local server',
    auto('provider: local, model: ▸llama3'),
    'no price list has the model "llama3" of Ollama; write its price',
  ],
  [
    'an automatic context of an unknown model',
    model(
      'small',
      'targets: [ { provider: openai, model: ▸zeppelin } ], price: { per: 1M tokens, input: 1, output: 1 }, context: auto, max_output: 1Ki',
    ),
    'no price list has the model "zeppelin" of OpenAI',
  ],
  [
    'an automatic cost of an unknown model',
    model(
      'small',
      'targets: [ { provider: openai, model: ▸zeppelin, cost: auto } ], price: free, context: 8Ki, max_output: 1Ki',
    ),
    'no price list has the model "zeppelin" of OpenAI',
  ],
  [
    'a price without sizes',
    model('small', '▸targets: [ { provider: openai, model: gpt-5 } ], price: free, max_output: 1Ki'),
    'small has no "context"; write a number of tokens, or auto',
  ],
  [
    'a missing price list',
    { providers: PROVIDERS, more: 'catalog: ▸nowhere.json' },
    'the price list nowhere.json cannot be read',
  ],
  [
    'a missing price list, as a map',
    { providers: PROVIDERS, more: 'catalog: { file: ▸nowhere.json }' },
    'the price list nowhere.json cannot be read',
  ],
  [
    'a cost of an unknown model, without sizes',
    model(
      'small',
      '▸targets: [ { provider: openai, model: zeppelin, cost: { per: 1M tokens, input: 1, output: 1 } } ], price: auto',
    ),
    'no price list has the context of a target of this model; write context',
  ],
  [
    'an id with two stars',
    model('"a/*/*"', '▸targets: [ { provider: openai, model: "*" } ], price: auto'),
    'the id "a/*/*" has more than one *; write one',
  ],
  [
    'a wildcard for one model',
    wild('openai/*', 'provider: openai, model: ▸gpt-5'),
    'the id "openai/*" has a *, but the target\'s model "gpt-5" has none: all ids would mean one model; write model: "*"',
  ],
  [
    'a model with a star under a plain id',
    wild('openai', 'provider: openai, model: ▸"*"'),
    'the target\'s model "*" has a *, but the id "openai" has none; write the id with a *, such as "openai/*"',
  ],
  [
    'a target with two stars',
    wild('openai/*', 'provider: openai, model: ▸"*-*"'),
    '"*-*" has more than one *; write one',
  ],
  [
    'a wildcard with a base model',
    wild('openai/*', 'provider: openai, model: "*", base_model: ▸gpt-5'),
    'base_model is one model, but a wildcard means several; remove this line',
  ],
  [
    'a wildcard with an alias',
    wild('openai/*', 'provider: openai, model: "*"', ', aliases: ▸[ all ]'),
    'an alias is one model, but a wildcard means several; remove this line',
  ],
  [
    'a wildcard at an unknown host',
    model('far/*', 'targets: [ ▸{ provider: far, model: "*" } ], price: auto'),
    'no price list has the models of the provider "far"; write each model with its own id',
  ],
  [
    'a wildcard that no model fits',
    wild('openai/*', 'provider: openai, model: ▸"claude-*"'),
    'no model of the provider "openai" in the price catalog fits "claude-*"',
  ],
  [
    'an unknown successor',
    auto('provider: openai, model: gpt-5', ', deprecation: { date: 2099-01-01, successor: ▸othre }'),
    'the successor "othre" is not a model of this file; did you mean "other"?',
  ],
  [
    'a successor that is the model itself',
    auto('provider: openai, model: gpt-5', ', deprecation: { date: 2099-01-01, successor: ▸small }'),
    'a model cannot be its own successor',
  ],
  [
    'an invalid end date',
    auto('provider: openai, model: gpt-5', ', deprecation: { date: ▸2026-02-30 }'),
    'date: "2026-02-30" is not a calendar date',
  ],
  [
    'a wildcard that includes a model with a negative price',
    model('openai/*', 'targets: [ { provider: openai, model: "*" } ], price: auto', 'catalog: prices.json'),
    'gpt-new: output_cost_per_token: -1 is not a price',
    {
      'prices.json':
        '{ "gpt-new": { "litellm_provider": "openai", "input_cost_per_token": 0.000001, "output_cost_per_token": ▸-1 } }',
    },
  ],
  ...LISTS.map(([name, list, says, catalog, target]): Row => {
    const [gateway, files] = listed(list, catalog, target)
    return [`a price list ${name}`, gateway, says, files]
  }),
]
