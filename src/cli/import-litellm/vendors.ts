/** LiteLLM's names of providers: what each speaks here, where it is, and which variable holds its key there. */
import type { DialectName, ProfileName } from '../../config/configuration.ts'

export interface Maker {
  readonly dialect: DialectName
  readonly profile?: ProfileName
  /** Null: the file has to say it. */
  readonly baseUrl: string | null
  /** What LiteLLM reads when the file names no key; null: none is needed. */
  readonly key: string | null
  /** The cap under this name, where the default is not known by everybody who speaks the format. */
  readonly cap?: 'max_tokens'
}

const like = (baseUrl: string | null, key: string | null): Maker => ({
  dialect: 'openai',
  baseUrl,
  key,
  cap: 'max_tokens',
})
const local = like(null, null)

const OPENAI: Maker = { dialect: 'openai', baseUrl: 'https://api.openai.com/v1', key: 'OPENAI_API_KEY' }
const COHERE: Maker = { dialect: 'cohere', baseUrl: 'https://api.cohere.com/v2', key: 'COHERE_API_KEY' }
const OLLAMA: Maker = { dialect: 'ollama', baseUrl: 'http://localhost:11434', key: null }
const MISTRAL: Maker = { dialect: 'mistral', baseUrl: 'https://api.mistral.ai/v1', key: 'MISTRAL_API_KEY' }

/** By the prefix of `litellm_params.model`. Azure, Bedrock and Vertex AI need more than a row: `clouds.ts`. */
export const MAKERS: Readonly<Record<string, Maker>> = {
  openai: OPENAI,
  custom_openai: local,
  openai_like: local,
  anthropic: { dialect: 'anthropic', baseUrl: 'https://api.anthropic.com/v1', key: 'ANTHROPIC_API_KEY' },
  gemini: {
    dialect: 'gemini',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    key: 'GEMINI_API_KEY',
  },
  mistral: MISTRAL,
  codestral: { ...MISTRAL, baseUrl: 'https://codestral.mistral.ai/v1', key: 'CODESTRAL_API_KEY' },
  groq: { dialect: 'groq', baseUrl: 'https://api.groq.com/openai/v1', key: 'GROQ_API_KEY' },
  deepseek: { dialect: 'deepseek', baseUrl: 'https://api.deepseek.com/v1', key: 'DEEPSEEK_API_KEY' },
  perplexity: { dialect: 'perplexity', baseUrl: 'https://api.perplexity.ai', key: 'PERPLEXITYAI_API_KEY' },
  together_ai: { dialect: 'together', baseUrl: 'https://api.together.xyz/v1', key: 'TOGETHERAI_API_KEY' },
  zai: { dialect: 'zai', baseUrl: 'https://api.z.ai/api/paas/v4', key: 'ZAI_API_KEY' },
  cohere: COHERE,
  cohere_chat: COHERE,
  ollama: OLLAMA,
  ollama_chat: OLLAMA,
  openrouter: like('https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY'),
  xai: like('https://api.x.ai/v1', 'XAI_API_KEY'),
  cerebras: like('https://api.cerebras.ai/v1', 'CEREBRAS_API_KEY'),
  fireworks_ai: like('https://api.fireworks.ai/inference/v1', 'FIREWORKS_AI_API_KEY'),
  deepinfra: like('https://api.deepinfra.com/v1/openai', 'DEEPINFRA_API_KEY'),
  nvidia_nim: like('https://integrate.api.nvidia.com/v1', 'NVIDIA_NIM_API_KEY'),
  sambanova: like('https://api.sambanova.ai/v1', 'SAMBANOVA_API_KEY'),
  moonshot: like('https://api.moonshot.ai/v1', 'MOONSHOT_API_KEY'),
  dashscope: like('https://dashscope-intl.aliyuncs.com/compatible-mode/v1', 'DASHSCOPE_API_KEY'),
  volcengine: like('https://ark.cn-beijing.volces.com/api/v3', 'VOLCENGINE_API_KEY'),
  github: like('https://models.inference.ai.azure.com', 'GITHUB_API_KEY'),
  meta_llama: like('https://api.llama.com/compat/v1', 'LLAMA_API_KEY'),
  friendliai: like('https://api.friendli.ai/serverless/v1', 'FRIENDLIAI_API_KEY'),
  databricks: like(null, 'DATABRICKS_API_KEY'),
  huggingface: like('https://router.huggingface.co/v1', 'HUGGINGFACE_API_KEY'),
  hosted_vllm: { ...local, profile: 'vllm' },
  lm_studio: local,
  llamafile: local,
  litellm_proxy: local,
}

export interface ModelName {
  readonly prefix: string
  readonly name: string
  /** What stood before the name and only tells LiteLLM how to ask. */
  readonly route?: string | undefined
}

/** Before the name of a deployment or model of OpenAI. */
const ROUTE = /^(responses|o_series|gpt5_series)\/(.*)$/

/** The prefix and the name behind it; a bare name by what it begins with, as LiteLLM does. Null: nobody's. */
export function makerOf(model: string, said: string | null): ModelName | null {
  const slash = model.indexOf('/')
  const prefix = slash < 0 ? null : model.slice(0, slash)
  if (said !== null) return named(said, prefix === said ? model.slice(slash + 1) : model)
  if (prefix !== null) return named(prefix, model.slice(slash + 1))
  const bare = BARE.find(([pattern]) => pattern.test(model))
  return bare ? { prefix: bare[1], name: model } : null
}

function named(prefix: string, whole: string): ModelName {
  const [, route, name] = (/^(openai|azure|xai)$/.test(prefix) && ROUTE.exec(whole)) || []
  return { prefix, name: name ?? whole, route }
}

const BARE: readonly (readonly [RegExp, string])[] = [
  [/^(gpt-|chatgpt-|o[1345](-|$)|ft:gpt-)/, 'openai'],
  [/^claude-/, 'anthropic'],
  [/^gemini-/, 'vertex_ai'],
  [/^command-/, 'cohere_chat'],
  [/^(mistral|ministral|magistral|devstral)-/, 'mistral'],
  [/^deepseek-(chat|reasoner)$/, 'deepseek'],
]
