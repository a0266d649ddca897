/** LiteLLM's names of providers, by the table of vendors. */
import { VENDORS, type Vendor } from '../../providers/dialects/vendors.ts'

/** By the prefix of `litellm_params.model`. Azure, Bedrock and Vertex AI need more than a row: `clouds.ts`. */
export const MAKERS: Readonly<Record<string, Vendor>> = Object.fromEntries(
  VENDORS.filter(({ dialect }) => !['azure', 'bedrock', 'vertex'].includes(dialect)).flatMap(vendor =>
    vendor.litellm.map(prefix => [prefix, vendor]),
  ),
)

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
