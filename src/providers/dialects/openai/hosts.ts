/** The profile of a provider that is configured as `openai`, by its host. */
import type { Quirks } from './profile.ts'
import { OTHERS, PROFILES, type ProfileName } from './quirks.ts'

const HOSTS: Readonly<Record<string, ProfileName>> = {
  'openrouter.ai': 'openrouter',
  'api.openai.com': 'openai',
  'fireworks.ai': 'fireworks',
  'cerebras.ai': 'cerebras',
  'x.ai': 'xai',
  'mistral.ai': 'mistral',
  'deepseek.com': 'deepseek',
  'groq.com': 'groq',
  'perplexity.ai': 'perplexity',
  'together.ai': 'together',
  'together.xyz': 'together',
  'z.ai': 'zai',
  'bigmodel.cn': 'zai',
}

/** The quirks of the provider at a host. */
export function quirksOf(host: string): Quirks {
  const end = Object.keys(HOSTS).find(name => host === name || host.endsWith(`.${name}`))
  return end === undefined ? OTHERS : PROFILES[HOSTS[end]!]
}
