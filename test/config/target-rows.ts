/** Broken targets of models in gateway.yaml, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'
import type { Gateway } from './workshop.ts'

const targets = (text: string) => ({
  models: `models:\n  small: { targets: ${text}, price: free, context: 8Ki, max_output: 1Ki }`,
})
const near = (dialect: string, text: string): Gateway => ({
  providers: `providers:\n  demo: { dialect: demo }\n  near: { ${dialect}, base_url: "http://127.0.0.1:11434" }`,
  ...targets(text),
})
const ollama = (text: string) => near('dialect: ollama', text)

export const TARGETS: Row[] = [
  ['no targets', targets('▸[]'), 'targets needs at least one entry'],
  [
    'an unknown provider',
    targets('[ { provider: ▸dmeo, model: x } ]'),
    'unknown provider "dmeo"; did you mean "demo"?',
  ],
  [
    'an unknown provider without a similar name',
    targets('[ { provider: ▸acme, model: x } ]'),
    'unknown provider "acme"; there are demo, far',
  ],
  ['a weight of 0', targets('[ { provider: demo, model: x, weight: ▸0 } ]'), 'weight must be at least 1'],
  [
    'a mistyped weight',
    targets('[ { provider: demo, model: x, ▸weigth: 3 } ]'),
    'unknown key "weigth"; did you mean "weight"?',
  ],
  [
    'a key in the singular',
    targets('[ { provider: demo, model: x, ▸input_modality: [ image ] } ]'),
    'unknown key "input_modality"; did you mean "input_modalities"?',
  ],
  [
    'a key of the model',
    targets('[ { provider: demo, model: x, ▸reasoning: true } ]'),
    'unknown key "reasoning"; it belongs to the model',
  ],
  [
    'a key of the provider, and a missing key',
    targets('[ ▸{ provider: demo, ▸profile: vllm } ]'),
    ['has no "model"', 'unknown key "profile"; it belongs to the provider'],
  ],
  [
    'a key of targets at the model, in the singular',
    {
      models:
        'models:\n  small: { targets: [ { provider: demo, model: x } ], price: free, context: 8Ki, max_output: 1Ki, ▸input_modality: [ image ] }',
    },
    'unknown key "input_modality"; it belongs to an entry of targets',
  ],
  [
    'a target twice',
    targets('[ { provider: demo, model: x }, ▸{ provider: demo, model: x } ]'),
    'the target demo/x is listed twice; give it a larger weight instead',
  ],
  [
    'an unknown modality',
    targets('[ { provider: demo, model: x, input_modalities: [ text, ▸images ] } ]'),
    'did you mean "image"?',
  ],
  [
    'a cap_field at a dialect with a fixed one',
    ollama('[ { provider: near, model: x, ▸cap_field: max_tokens } ]'),
    'cap_field is only for the dialect openai and its variants; remove this line',
  ],
  [
    'a modality that its dialect does not support',
    ollama('[ { provider: near, model: x, input_modalities: [ image, ▸audio ] } ]'),
    'the dialect ollama does not support audio; it supports text, image',
  ],
  [
    'a modality that its variant of OpenAI does not support',
    near('dialect: groq', '[ { provider: near, model: x, input_modalities: [ image, ▸audio ] } ]'),
    'the dialect groq does not support audio; it supports text, image',
  ],
  [
    'a modality that its profile does not support',
    near('dialect: openai, profile: deepseek', '[ { provider: near, model: x, input_modalities: [ ▸image ] } ]'),
    'the profile deepseek does not support image; it supports text',
  ],
]
