/** Keys of one dialect that are invalid or at another dialect, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'
import type { Gateway } from './workshop.ts'

const provider = (text: string): Gateway => ({ providers: `providers:\n  demo: { dialect: demo }\n${text}` })

export const ONE_DIALECT: Row[] = [
  [
    'an api_version at another dialect',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", ▸api_version: 2024-10-21 }'),
    'api_version is only for the dialect azure; remove this line',
  ],
  [
    'auth elsewhere',
    provider('  near: { dialect: mistral, base_url: "https://a.example/v1", ▸auth: bearer }'),
    'auth is only for the dialect azure; remove this line',
  ],
  [
    'a profile at another dialect',
    provider('  near: { dialect: mistral, base_url: "https://a.example/v1", ▸profile: vllm }'),
    'profile is only for the dialect openai; remove this line',
  ],
  [
    'an unknown profile',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", profile: ▸lama }'),
    'profile: "lama" is not one of',
  ],
  ...(
    [
      ['grok', 'write profile: xai'],
      ['fireworks_ai', 'write profile: fireworks'],
      ['anthropic', 'write dialect: anthropic, without a profile'],
      ['lmstudio', 'remove this line'],
      ['opnrouter', 'did you mean "openrouter"?'],
    ] as const
  ).map(
    ([name, says]): Row => [
      `a profile called ${name}`,
      provider(`  near: { dialect: openai, base_url: "https://a.example/v1", profile: ▸${name} }`),
      says,
    ],
  ),
  ...(
    [
      ['xai', 'write dialect: openai, and profile: xai'],
      ['Grok', 'write dialect: openai, and profile: xai'],
      ['openrouter', 'write dialect: openai, and profile: openrouter'],
      ['vlm', 'write dialect: openai, and profile: vllm'],
      ['LM Studio', 'write dialect: openai'],
      ['together_ai', 'write dialect: together'],
      ['claude', 'write dialect: anthropic'],
    ] as const
  ).map(
    ([name, says]): Row => [
      `a dialect called ${name}`,
      provider(`  near: { dialect: ▸${name}, base_url: "https://a.example/v1" }`),
      `; ${says}`,
    ],
  ),
  [
    'a key of targets at a provider',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", ▸cap_field: max_tokens }'),
    'unknown key "cap_field"; it belongs to an entry of targets',
  ],
  [
    'a key of models at a provider that resembles a key of providers',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", ▸price: free }'),
    'unknown key "price"; it belongs to the model',
  ],
  ['a profile for the demo', provider('  near: { dialect: demo, ▸profile: vllm }'), 'which uses no network'],
]
