/** Maps LiteLLM's names of providers to the table of vendors. */
import { VENDORS, type Vendor } from '../../providers/dialects/vendors.ts'

/** By the prefix of `litellm_params.model`. Azure, Bedrock and Vertex AI need more than a row: `clouds.ts`. */
export const MAKERS: ReadonlyMap<string, Vendor> = new Map(
  VENDORS.flatMap(vendor => vendor.litellm.map(prefix => [prefix, vendor] as const)),
)

export interface ModelName {
  readonly prefix: string
  readonly name: string
  /** The part before the name by which LiteLLM chooses an endpoint. */
  readonly route?: string | undefined
}

/** LiteLLM's routes before the names of OpenAI models and deployments. */
const ROUTE = /^(responses|o_series|gpt5_series)\/(.*)$/

/** The spelling of LiteLLM's providers. Other prefixes, such as `meta-llama/` or `Qwen/`, belong to the name of a model. */
const PROVIDER = /^[a-z][a-z0-9_]*$/

/**
 * Splits a model into prefix and name. A bare name gets its prefix from its beginning, as in LiteLLM. Null: the provider is
 * unknown.
 * @param custom `custom_llm_provider`
 * @param hasAddress whether the row has an address: a server there accepts names without a provider, in OpenAI's format
 */
export function makerOf(model: string, custom: string | null, hasAddress: boolean): ModelName | null {
  const slash = model.indexOf('/')
  const prefix = slash < 0 ? null : model.slice(0, slash)
  if (custom !== null) return named(custom, prefix === custom ? model.slice(slash + 1) : model)
  if (prefix !== null && (MAKERS.has(prefix) || !hasAddress || PROVIDER.test(prefix)))
    return named(prefix, model.slice(slash + 1))
  const bare = BARE.find(([pattern]) => pattern.test(model))
  if (bare) return { prefix: bare[1], name: model }
  return hasAddress ? { prefix: 'custom_openai', name: model } : null
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
  [/^((us|eu|apac|global)\.)?(amazon|anthropic|meta|mistral|cohere|ai21|deepseek)\.[a-z]/, 'bedrock'],
]
