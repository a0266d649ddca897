/** The names under which gateway.yaml has dialects and profiles. */

/** Relatives of OpenAI that have a dialect, and a profile, of their own. */
const RELATIVES = ['mistral', 'deepseek', 'groq', 'perplexity', 'together', 'zai'] as const

/** The values of `dialect`, beside `demo`. */
export const DIALECT_NAMES = [
  'openai',
  'azure',
  ...RELATIVES,
  'anthropic',
  'vertex-anthropic',
  'gemini',
  'vertex',
  'bedrock',
  'bedrock-invoke',
  'cohere',
  'ollama',
] as const
export type DialectName = (typeof DIALECT_NAMES)[number]

/** The values of `profile`: relatives of OpenAI, for a provider with the dialect `openai`. */
export const PROFILE_NAMES = ['openai', 'openrouter', 'fireworks', 'cerebras', 'xai', 'vllm', ...RELATIVES] as const
export type ProfileName = (typeof PROFILE_NAMES)[number]
