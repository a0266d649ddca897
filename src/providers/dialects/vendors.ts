/**
 * The vendors behind providers: dialect, base URL, the environment variable of the key, and names in price lists. Used by `tollgate
 * init --provider`, `import litellm`, the checks of base URLs and the price catalog.
 */
import type { DialectName, ProfileName } from './dialect-names.ts'

/** A company or a server that a gateway calls. */
export interface Vendor {
  /** The name for `tollgate init --provider`. */
  readonly name: string
  /** The display name. */
  readonly title: string
  readonly dialect: DialectName
  readonly profile?: ProfileName
  /** Null if it depends on the account or on the machine. */
  readonly baseUrl: string | null
  /** Environment variable with the key, as in its own SDK or in LiteLLM; null if it needs none. */
  readonly key: string | null
  /** The vendor's hosts. Default: the dialect or the profile decides. */
  readonly hosts?: RegExp
  /** Dialects that these hosts support besides `dialect`. */
  readonly alsoSpeaks?: readonly DialectName[]
  /** Its name in `@pydantic/genai-prices`. */
  readonly genai?: string
  /** Its names in LiteLLM: the prefix of a model, and `litellm_provider` in its price list. */
  readonly litellm: readonly string[]
  /** Its name in models.dev. Default: `name`. */
  readonly modelsDev?: string
  /** The parameter for the output cap, if the server may not support `max_completion_tokens`. */
  readonly cap?: 'max_tokens'
}

const OPENAI_ALONE = /^api\.openai\.com$/
const AI_PLATFORM = /(^|[.-])aiplatform\.googleapis\.com$/

/** A vendor with OpenAI's format and without a profile. */
const like = (
  name: string,
  title: string,
  baseUrl: string | null,
  key: string | null,
  others: Omit<Partial<Vendor>, 'name' | 'title' | 'baseUrl' | 'key'> = {},
): Vendor => ({
  name,
  title,
  dialect: 'openai',
  baseUrl,
  key,
  cap: 'max_tokens',
  litellm: [name.replaceAll('-', '_')],
  ...(baseUrl === null || !baseUrl.startsWith('https:') ? {} : { hosts: hostOf(baseUrl) }),
  ...others,
})

function hostOf(url: string): RegExp {
  return new RegExp(`^${new URL(url).hostname.replaceAll('.', '\\.')}$`)
}

/** In search order. */
export const VENDORS: readonly Vendor[] = [
  {
    name: 'openai',
    title: 'OpenAI',
    dialect: 'openai',
    profile: 'openai',
    baseUrl: 'https://api.openai.com/v1',
    key: 'OPENAI_API_KEY',
    hosts: OPENAI_ALONE,
    genai: 'openai',
    litellm: ['openai', 'text-completion-openai'],
  },
  {
    name: 'anthropic',
    title: 'Anthropic',
    dialect: 'anthropic',
    baseUrl: 'https://api.anthropic.com/v1',
    key: 'ANTHROPIC_API_KEY',
    hosts: /^api\.anthropic\.com$/,
    alsoSpeaks: ['openai'],
    genai: 'anthropic',
    litellm: ['anthropic'],
  },
  {
    name: 'gemini',
    title: 'Google Gemini',
    dialect: 'gemini',
    baseUrl: 'https://generativelanguage.googleapis.com/v1beta',
    key: 'GEMINI_API_KEY',
    hosts: /^generativelanguage\.googleapis\.com$/,
    alsoSpeaks: ['openai'],
    genai: 'google',
    litellm: ['gemini'],
    modelsDev: 'google',
  },
  {
    name: 'azure',
    title: 'Azure OpenAI',
    dialect: 'azure',
    baseUrl: null,
    key: 'AZURE_API_KEY',
    hosts: /\.openai\.azure\.com$/,
    alsoSpeaks: ['openai'],
    genai: 'azure',
    litellm: ['azure', 'azure_text'],
  },
  {
    name: 'azure-foundry',
    title: 'Azure AI Foundry',
    dialect: 'azure',
    baseUrl: null,
    key: 'AZURE_AI_API_KEY',
    hosts: /\.services\.ai\.azure\.com$/,
    alsoSpeaks: ['openai', 'anthropic'],
    genai: 'azure',
    litellm: ['azure_ai'],
    modelsDev: 'azure',
  },
  {
    name: 'bedrock',
    title: 'Amazon Bedrock',
    dialect: 'bedrock',
    baseUrl: null,
    key: 'AWS_BEARER_TOKEN_BEDROCK',
    hosts: /\.amazonaws\.com$/,
    alsoSpeaks: ['bedrock-invoke', 'openai'],
    genai: 'aws',
    litellm: ['bedrock', 'bedrock_converse'],
    modelsDev: 'amazon-bedrock',
  },
  {
    name: 'vertex',
    title: 'Google Vertex AI',
    dialect: 'vertex',
    baseUrl: null,
    key: null,
    hosts: AI_PLATFORM,
    alsoSpeaks: ['vertex-anthropic', 'openai'],
    genai: 'google',
    litellm: ['vertex_ai', 'vertex_ai_beta', 'vertex_ai-language-models', 'vertex_ai-anthropic_models'],
    modelsDev: 'google-vertex',
  },
  {
    name: 'mistral',
    title: 'Mistral AI',
    dialect: 'mistral',
    profile: 'mistral',
    baseUrl: 'https://api.mistral.ai/v1',
    key: 'MISTRAL_API_KEY',
    hosts: /^api\.mistral\.ai$/,
    alsoSpeaks: ['openai'],
    genai: 'mistral',
    litellm: ['mistral'],
  },
  {
    name: 'groq',
    title: 'Groq',
    dialect: 'groq',
    profile: 'groq',
    baseUrl: 'https://api.groq.com/openai/v1',
    key: 'GROQ_API_KEY',
    hosts: /^api\.groq\.com$/,
    alsoSpeaks: ['openai'],
    genai: 'groq',
    litellm: ['groq'],
  },
  {
    name: 'deepseek',
    title: 'DeepSeek',
    dialect: 'deepseek',
    profile: 'deepseek',
    baseUrl: 'https://api.deepseek.com/v1',
    key: 'DEEPSEEK_API_KEY',
    hosts: /^api\.deepseek\.com$/,
    alsoSpeaks: ['openai', 'anthropic'],
    genai: 'deepseek',
    litellm: ['deepseek'],
  },
  {
    name: 'perplexity',
    title: 'Perplexity',
    dialect: 'perplexity',
    profile: 'perplexity',
    baseUrl: 'https://api.perplexity.ai',
    key: 'PERPLEXITYAI_API_KEY',
    hosts: /^api\.perplexity\.ai$/,
    alsoSpeaks: ['openai'],
    genai: 'perplexity',
    litellm: ['perplexity'],
  },
  {
    name: 'together',
    title: 'Together AI',
    dialect: 'together',
    profile: 'together',
    baseUrl: 'https://api.together.xyz/v1',
    key: 'TOGETHERAI_API_KEY',
    hosts: /^api\.together\.(xyz|ai)$/,
    alsoSpeaks: ['openai'],
    genai: 'together',
    litellm: ['together_ai'],
    modelsDev: 'togetherai',
  },
  {
    name: 'zai',
    title: 'Z.ai',
    dialect: 'zai',
    profile: 'zai',
    baseUrl: 'https://api.z.ai/api/paas/v4',
    key: 'ZAI_API_KEY',
    hosts: /^api\.z\.ai$/,
    alsoSpeaks: ['openai', 'anthropic'],
    genai: 'zai',
    litellm: ['zai'],
  },
  {
    name: 'zhipu',
    title: 'Zhipu BigModel',
    dialect: 'zai',
    baseUrl: 'https://open.bigmodel.cn/api/paas/v4',
    key: 'ZHIPUAI_API_KEY',
    hosts: /^open\.bigmodel\.cn$/,
    alsoSpeaks: ['openai', 'anthropic'],
    genai: 'zhipuai',
    litellm: ['zhipu', 'zhipuai', 'bigmodel'],
    modelsDev: 'zhipuai',
  },
  {
    name: 'cohere',
    title: 'Cohere',
    dialect: 'cohere',
    baseUrl: 'https://api.cohere.com/v2',
    key: 'COHERE_API_KEY',
    hosts: /^api\.cohere\.(com|ai)$/,
    alsoSpeaks: ['openai'],
    genai: 'cohere',
    litellm: ['cohere', 'cohere_chat'],
  },
  {
    name: 'ollama',
    title: 'Ollama',
    dialect: 'ollama',
    baseUrl: 'http://localhost:11434',
    key: null,
    litellm: ['ollama', 'ollama_chat'],
  },
  like('codestral', 'Mistral Codestral', 'https://codestral.mistral.ai/v1', 'CODESTRAL_API_KEY', {
    dialect: 'mistral',
    genai: 'mistral',
    modelsDev: 'mistral',
    litellm: ['codestral', 'text-completion-codestral'],
  }),
  like('openrouter', 'OpenRouter', 'https://openrouter.ai/api/v1', 'OPENROUTER_API_KEY', {
    profile: 'openrouter',
    genai: 'openrouter',
  }),
  like('xai', 'xAI', 'https://api.x.ai/v1', 'XAI_API_KEY', {
    profile: 'xai',
    alsoSpeaks: ['anthropic'],
    genai: 'x-ai',
  }),
  like('cerebras', 'Cerebras', 'https://api.cerebras.ai/v1', 'CEREBRAS_API_KEY', {
    profile: 'cerebras',
    genai: 'cerebras',
  }),
  like('fireworks', 'Fireworks AI', 'https://api.fireworks.ai/inference/v1', 'FIREWORKS_AI_API_KEY', {
    profile: 'fireworks',
    genai: 'fireworks',
    litellm: ['fireworks_ai'],
    modelsDev: 'fireworks-ai',
  }),
  like('deepinfra', 'DeepInfra', 'https://api.deepinfra.com/v1/openai', 'DEEPINFRA_API_KEY'),
  like('nvidia-nim', 'NVIDIA NIM', 'https://integrate.api.nvidia.com/v1', 'NVIDIA_NIM_API_KEY', {
    modelsDev: 'nvidia',
  }),
  like('sambanova', 'SambaNova', 'https://api.sambanova.ai/v1', 'SAMBANOVA_API_KEY'),
  like('moonshot', 'Moonshot AI', 'https://api.moonshot.ai/v1', 'MOONSHOT_API_KEY', {
    hosts: /^api\.moonshot\.(ai|cn)$/,
    alsoSpeaks: ['anthropic'],
    genai: 'moonshotai',
    modelsDev: 'moonshotai',
  }),
  like('minimax', 'MiniMax', 'https://api.minimax.io/v1', 'MINIMAX_API_KEY', {
    hosts: /^api\.minimaxi?\.(io|com)$/,
    alsoSpeaks: ['anthropic'],
    genai: 'minimax',
  }),
  like(
    'dashscope',
    'Alibaba Model Studio',
    'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    'DASHSCOPE_API_KEY',
    {
      modelsDev: 'alibaba',
    },
  ),
  like('volcengine', 'Volcengine', 'https://ark.cn-beijing.volces.com/api/v3', 'VOLCENGINE_API_KEY'),
  like('github', 'GitHub Models', 'https://models.inference.ai.azure.com', 'GITHUB_API_KEY', {
    modelsDev: 'github-models',
  }),
  like('github-copilot', 'GitHub Copilot', 'https://api.githubcopilot.com', 'GITHUB_COPILOT_TOKEN', {
    genai: 'github-copilot',
  }),
  like('meta-llama', 'Meta Llama API', 'https://api.llama.com/compat/v1', 'LLAMA_API_KEY', { modelsDev: 'llama' }),
  like('friendliai', 'FriendliAI', 'https://api.friendli.ai/serverless/v1', 'FRIENDLIAI_API_KEY'),
  like('novita', 'Novita AI', 'https://api.novita.ai/v3/openai', 'NOVITA_API_KEY', { genai: 'novita' }),
  like('nebius', 'Nebius', 'https://api.studio.nebius.ai/v1', 'NEBIUS_API_KEY'),
  like('hyperbolic', 'Hyperbolic', 'https://api.hyperbolic.xyz/v1', 'HYPERBOLIC_API_KEY'),
  like('baseten', 'Baseten', 'https://inference.baseten.co/v1', 'BASETEN_API_KEY', { genai: 'baseten' }),
  like('featherless-ai', 'Featherless', 'https://api.featherless.ai/v1', 'FEATHERLESS_AI_API_KEY'),
  like('nscale', 'Nscale', 'https://inference.api.nscale.com/v1', 'NSCALE_API_KEY'),
  like('ovhcloud', 'OVHcloud', 'https://oai.endpoints.kepler.ai.cloud.ovh.net/v1', 'OVHCLOUD_API_KEY', {
    genai: 'ovhcloud',
  }),
  like('wandb', 'W&B Inference', 'https://api.inference.wandb.ai/v1', 'WANDB_API_KEY'),
  like('gmi', 'GMI Cloud', 'https://api.gmi-serving.com/v1', 'GMI_API_KEY'),
  like('scaleway', 'Scaleway', 'https://api.scaleway.ai/v1', 'SCW_SECRET_KEY'),
  like('morph', 'Morph', 'https://api.morphllm.com/v1', 'MORPH_API_KEY'),
  like('v0', 'v0', 'https://api.v0.dev/v1', 'V0_API_KEY'),
  like('aiml', 'AI/ML API', 'https://api.aimlapi.com/v1', 'AIML_API_KEY'),
  like('lambda-ai', 'Lambda', 'https://api.lambda.ai/v1', 'LAMBDA_API_KEY'),
  like('inception', 'Inception', 'https://api.inceptionlabs.ai/v1', 'INCEPTION_API_KEY'),
  like('ai21', 'AI21', 'https://api.ai21.com/studio/v1', 'AI21_API_KEY', { litellm: ['ai21', 'ai21_chat'] }),
  like('vercel-ai-gateway', 'Vercel AI Gateway', 'https://ai-gateway.vercel.sh/v1', 'AI_GATEWAY_API_KEY', {
    modelsDev: 'vercel',
  }),
  like('huggingface', 'Hugging Face', 'https://router.huggingface.co/v1', 'HUGGINGFACE_API_KEY'),
  like('databricks', 'Databricks', null, 'DATABRICKS_API_KEY'),
  like('cloudflare', 'Cloudflare Workers AI', null, 'CLOUDFLARE_API_KEY', {
    hosts: /^api\.cloudflare\.com$/,
    genai: 'cloudflare',
    modelsDev: 'cloudflare-workers-ai',
  }),
  like('vllm', 'vLLM', null, null, { profile: 'vllm', litellm: ['hosted_vllm', 'vllm'] }),
  like('lm-studio', 'LM Studio', 'http://localhost:1234/v1', null),
  like('llamafile', 'llamafile', 'http://127.0.0.1:8080/v1', null),
  like('xinference', 'Xinference', 'http://127.0.0.1:9997/v1', null),
  like('docker-model-runner', 'Docker Model Runner', 'http://localhost:12434/engines/v1', null),
  like('litellm-proxy', 'LiteLLM', null, 'LITELLM_PROXY_API_KEY'),
  like('openai-compatible', 'a server with the format of OpenAI', null, null, {
    litellm: ['custom_openai', 'openai_like'],
  }),
]

export function vendorNamed(name: string): Vendor | undefined {
  return VENDORS.find(vendor => vendor.name === name)
}

/** The vendor of a host; undefined if the table has none. */
export function vendorAt(hostname: string): Vendor | undefined {
  return VENDORS.find(({ hosts }) => hosts?.test(hostname))
}

/** Dialects whose vendor has another name. */
const DIALECT_OF: Readonly<Partial<Record<DialectName, string>>> = {
  'vertex-anthropic': 'vertex',
  'bedrock-invoke': 'bedrock',
}

/**
 * The vendor of a configured provider: by its host, else by its profile, else by its dialect. Undefined for OpenAI's format
 * at a host that is not in the table.
 * @param baseUrl empty for the embedded demo
 */
export function vendorOf({
  dialect,
  profile,
  baseUrl,
}: {
  readonly dialect: DialectName | 'demo'
  readonly profile?: ProfileName | undefined
  readonly baseUrl: string
}): Vendor | undefined {
  if (dialect === 'demo') return undefined
  const host = URL.parse(baseUrl)?.hostname
  const byHost = host === undefined ? undefined : vendorAt(host)
  if (byHost !== undefined) return byHost
  if (profile !== undefined) return VENDORS.find(vendor => vendor.profile === profile)
  return dialect === 'openai' ? undefined : vendorNamed(DIALECT_OF[dialect] ?? dialect)
}
