/** A gateway with prices from lists, and small lists in both formats. Its vendor has no model in the built-in list. */
import { mkdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { makePlace, type Place, STANDARD_POLICY } from './helpers.ts'

/** A row of LiteLLM's list: dollars for 1M tokens. */
export const row = (input: number, output: number, more: object = {}, provider = 'deepinfra') => ({
  litellm_provider: provider,
  mode: 'chat',
  input_cost_per_token: input / 1_000_000,
  output_cost_per_token: output / 1_000_000,
  max_input_tokens: 100_000,
  max_output_tokens: 10_000,
  ...more,
})

/** The list in use. */
export const LIST = {
  _tollgate: { date: '2026-01-05', from: 'model_prices.json' },
  'deepinfra/acme/small': row(1, 4),
  'deepinfra/acme/large': row(10, 40, { cache_read_input_token_cost: 0.000001, deprecation_date: '2030-05-01' }),
  'deepinfra/acme/old': row(3, 3),
}

export const gateway = (models: string, catalog = 'catalog: prices.json') => `version: 1
listen: 127.0.0.1:0
store: memory
${catalog}
providers:
  infra: { dialect: openai, base_url: https://api.deepinfra.com/v1/openai, api_key: "\${DEEPINFRA_API_KEY}" }
  openai: { dialect: openai, base_url: https://api.openai.com/v1, api_key: "\${OPENAI_API_KEY}" }
models:
${models}
routes:
  - { path: /v1/chat/completions, policy: standard }
`

/** A wildcard, a model with two targets, and a manual price. */
export const MODELS = `  infra/*: { targets: [ { provider: infra, model: "*" } ], price: auto, allow: [ service_tier ] }
  both:
    targets: [ { provider: infra, model: acme/small }, { provider: openai, model: gpt-5 } ]
    price: auto
    aliases: [ b ]
  hand:
    targets: [ { provider: infra, model: acme/small, cost: auto } ]
    price: { per: 1M tokens, input: $1.60, output: $5 }
    context: 64k
    max_output: 4k`

/** Makes a folder with that gateway and the list in use. */
export function makePriced(models = MODELS, catalog?: string): Place {
  const place = makePlace(gateway(models, catalog))
  mkdirSync(join(place.folder, 'policies'))
  place.write('policies/standard.yaml', STANDARD_POLICY)
  place.write('prices.json', JSON.stringify(LIST))
  return place
}

/** Writes a list that was last changed on `day`. */
export function writeList(place: Place, list: object | string, day = '2026-02-03', name = 'new.json'): string {
  const file = place.write(name, typeof list === 'string' ? list : JSON.stringify(list, null, 2))
  utimesSync(file, new Date(`${day}T12:00:00Z`), new Date(`${day}T12:00:00Z`))
  return file
}
