/** The names of dialects and profiles in gateway.yaml. */

/** OpenAI-compatible providers with their own dialect and profile. */
const COMPATIBLE = ['mistral', 'deepseek', 'groq', 'perplexity', 'together', 'zai'] as const

/** The values of `dialect`, besides `demo`. */
export const DIALECT_NAMES = [
  'openai',
  'azure',
  ...COMPATIBLE,
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

/** The values of `profile`: OpenAI-compatible APIs, for a provider with the dialect `openai`. */
export const PROFILE_NAMES = ['openai', 'openrouter', 'fireworks', 'cerebras', 'xai', 'vllm', ...COMPATIBLE] as const
export type ProfileName = (typeof PROFILE_NAMES)[number]
