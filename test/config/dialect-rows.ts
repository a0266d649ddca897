/** Keys of providers that one dialect has, broken or elsewhere; as in gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'
import type { Gateway } from './workshop.ts'

const provider = (text: string): Gateway => ({ providers: `providers:\n  demo: { dialect: demo }\n${text}` })

export const ONE_DIALECT: Row[] = [
  [
    'a version elsewhere',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", ▸api_version: 2024-10-21 }'),
    'api_version is for the dialect azure; remove this line',
  ],
  [
    'auth elsewhere',
    provider('  near: { dialect: mistral, base_url: "https://a.example/v1", ▸auth: bearer }'),
    'auth is for the dialect azure; remove this line',
  ],
  [
    'a profile elsewhere',
    provider('  near: { dialect: mistral, base_url: "https://a.example/v1", ▸profile: vllm }'),
    'profile is for the dialect openai; remove this line',
  ],
  [
    'a profile that is not known',
    provider('  near: { dialect: openai, base_url: "https://a.example/v1", profile: ▸lama }'),
    'profile: "lama" is not one of',
  ],
  ['a profile for the demo', provider('  near: { dialect: demo, ▸profile: vllm }'), 'has no network'],
]
