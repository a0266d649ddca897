/** Suggestions for misplaced words (the keyword `hints`): names of providers, and keys of another map. */
import { DIALECT_NAMES, PROFILE_NAMES } from '../providers/dialects/dialect-names.ts'

type Hints = Readonly<Record<string, string>>

/** Names of vendors and products that are not dialects or profiles. */
const OTHER_NAMES = {
  grok: 'xai',
  'fireworks-ai': 'fireworks',
  'together-ai': 'together',
  'mistral-ai': 'mistral',
  'perplexity-ai': 'perplexity',
  bigmodel: 'zai',
  zhipu: 'zai',
  'azure-openai': 'azure',
  claude: 'anthropic',
  google: 'gemini',
  aws: 'bedrock',
  'vertex-ai': 'vertex',
  converse: 'bedrock',
} as const

/** Servers and services with OpenAI's format that have no profile. */
const WITHOUT_PROFILE =
  'lm-studio llama.cpp llamafile local-ai sglang tgi litellm deepinfra moonshot nvidia-nim sambanova hugging-face ' +
  'openai-compatible'

const hintsFor = (names: readonly string[], hint: (name: string) => string): Hints =>
  Object.fromEntries(names.map(name => [name, hint(name)]))
const others = (hint: (name: string) => string): Hints =>
  Object.fromEntries(Object.entries(OTHER_NAMES).map(([other, name]) => [other, hint(name)]))

const DIALECTS: readonly string[] = DIALECT_NAMES
const PROFILES: readonly string[] = PROFILE_NAMES

const dialectFor = (name: string) =>
  DIALECTS.includes(name) ? `write dialect: ${name}` : `write dialect: openai, and profile: ${name}`

export const DIALECT_HINTS: Hints = {
  ...hintsFor(WITHOUT_PROFILE.split(' '), () => 'write dialect: openai'),
  ...others(dialectFor),
  ...hintsFor(
    PROFILES.filter(name => !DIALECTS.includes(name)),
    dialectFor,
  ),
}

const profileFor = (name: string) =>
  PROFILES.includes(name) ? `write profile: ${name}` : `write dialect: ${name}, without a profile`

export const PROFILE_HINTS: Hints = {
  ...hintsFor(WITHOUT_PROFILE.split(' '), () => 'remove this line: without a profile every parameter is sent'),
  ...others(profileFor),
  ...hintsFor(
    DIALECTS.filter(name => !PROFILES.includes(name)),
    profileFor,
  ),
}

/** Adds hints for keys that belong to other maps, by the description of each map. The first map with a key counts. */
export function withHints<T extends { readonly properties: object }>(
  schema: T,
  elsewhere: Readonly<Record<string, object>>,
) {
  const hints = Object.entries(elsewhere).flatMap(([where, properties]) =>
    Object.keys(properties)
      .filter(key => !Object.hasOwn(schema.properties, key))
      .map(key => [key, `it belongs to ${where}`] as const),
  )
  return { ...schema, hints: Object.fromEntries(hints.toReversed()) }
}
