/** Reads LiteLLM's `model_prices_and_context_window.json`: models by name, with prices in dollars for one token. */
import { type PriceRule, TIERS, type Tier, type Unit } from '#contract'
import { NO_CHATS } from './built-in-list.ts'
import {
  addModel,
  deprecationOf,
  endFault,
  faultOf,
  isMap,
  isOrdinary,
  type ListedModel,
  type ListProblem,
  MARK,
  type Members,
  merged,
  ruleOf,
  tokensOf,
  WITHOUT_TIME,
} from './listed-model.ts'

/** Its keys of prices without suffixes. If a unit has two keys, the second one is older. */
export const LITELLM_KEYS: Readonly<Record<string, Unit>> = {
  input_cost_per_token: 'input',
  cache_read_input_token_cost: 'cached_input',
  input_cost_per_token_cache_hit: 'cached_input',
  cache_creation_input_token_cost: 'cache_write',
  cache_creation_input_token_cost_above_1hr: 'cache_write_1h',
  input_cost_per_audio_token: 'input_audio',
  cache_read_input_audio_token_cost: 'cached_audio',
  input_cost_per_image_token: 'input_image',
  output_cost_per_token: 'output',
  output_cost_per_reasoning_token: 'reasoning',
  output_cost_per_audio_token: 'output_audio',
  output_cost_per_image_token: 'output_image',
  input_cost_per_request: 'request',
}

const TIER_OF: Readonly<Record<string, Tier>> = {
  batches: 'batch',
  ...Object.fromEntries(TIERS.map(tier => [tier, tier])),
}
/** Suffixes for the price of a long prompt and of a service tier, in either order. */
const ABOVE = /_above_(\d+)k_tokens/
const TIER = /_(flex|priority|batches|batch)$/

/** Keys of costs that chat requests do not have. */
const NOT_OF_CHATS =
  /(per_(image|pixel|second|character|video|page|query|session|1k|gb|hour)|_per_document|annotation|vector_store|file_search|code_interpreter|computer_use|ocr|_dbu_)/

/** The models by LiteLLM's name of the provider, then by the provider's name of the model in lower case. */
export function litellmModels(list: Members): Map<string, Map<string, ListedModel>> {
  const providers = new Map<string, Map<string, ListedModel>>()
  for (const [key, row] of Object.entries(list)) {
    if (key === 'sample_spec' || key === MARK || !isMap(row)) continue
    const provider = row['litellm_provider']
    if (typeof provider !== 'string') continue
    const id = withoutPrefix(key, provider)
    const models = providers.get(provider) ?? new Map<string, ListedModel>()
    providers.set(provider, models)
    addModel(models, modelOf(key, id, row, provider))
  }
  return providers
}

/** Rows of `bedrock_converse` begin with `bedrock/`, those of `vertex_ai-anthropic_models` with `vertex_ai/`. */
function withoutPrefix(key: string, provider: string): string {
  if (key.startsWith(`${provider}/`)) return key.slice(provider.length + 1)
  const slash = key.indexOf('/')
  return slash > 0 && provider.startsWith(key.slice(0, slash)) ? key.slice(slash + 1) : key
}

function modelOf(key: string, id: string, row: Members, provider: string): ListedModel {
  const problems: ListProblem[] = []
  const uncounted: string[] = []
  const rulesOf = (members: Members, path: readonly string[], least = 0): PriceRule[] =>
    Object.entries(members).flatMap(([name, value]): PriceRule[] => {
      if (!/cost|pricing/.test(name) || value === null) return []
      // An older name of the same price.
      if (name === 'input_cost_per_token_cache_hit' && 'cache_read_input_token_cost' in members) return []
      const priced = unitOf(name)
      if (priced === null) {
        if (name === 'search_context_cost_per_query') return searchRule(value)
        const tiers = name === 'tiered_pricing' && path.length === 1 ? tiersIn(value) : null
        if (tiers !== null) {
          return tiers.flatMap(({ from, costs }, index) => rulesOf(costs, [...path, name, String(index)], from))
        }
        if (value !== 0 && !isEmpty(value) && !NOT_OF_CHATS.test(name)) uncounted.push(name)
        return []
      }
      const fault = faultOf(value, priced.unit, 1)
      if (fault !== null) {
        problems.push({ path: [...path, name], message: `${key}: ${name}: ${fault}` })
        return []
      }
      const above = Math.max(priced.condition.above ?? 0, least)
      return [ruleOf(priced.unit, value as number, 1, { ...priced.condition, ...(above > 0 ? { above } : {}) })]
    })
  const rules = merged(rulesOf(row, [key]))
  const mode = row['mode']
  const has = (unit: Unit) => rules.some(rule => rule.unit === unit && isOrdinary(rule))
  const chat = mode === undefined ? !NO_CHATS.test(id) : mode === 'chat' || mode === 'responses'
  if (chat && has('input') !== has('output') && problems.length === 0) {
    const missing = has('input') ? 'output_cost' : 'input_cost'
    // Video models have a price per second instead.
    if (!Object.entries(row).some(([name, value]) => name.startsWith(`${missing}_per_`) && Number(value) > 0)) {
      problems.push({ path: [key], message: `${key} has no ${missing}_per_token`, suggestion: 'a price has both' })
    }
  }
  const end = endFault(row, 'deprecation_date', [key])
  if (end !== null) problems.push(end)
  const reasons = row['supports_reasoning']
  return {
    id,
    price: has('input') && has('output') ? rules : null,
    ...WITHOUT_TIME,
    context: contextOf(row),
    maxOutput: tokensOf(row['max_output_tokens'] ?? row['max_tokens']),
    reasoning: chat && typeof reasons === 'boolean' ? reasons : null,
    chat,
    deprecation: deprecationOf(row['deprecation_date'], successorIn(row['successor_model'], provider)),
    uncounted,
    path: [key],
    problems,
  }
}

const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0

/** `tiered_pricing`: prices by prompt length, each for a `range` of tokens; null if they depend on something else. */
function tiersIn(value: unknown): { readonly from: number; readonly costs: Members }[] | null {
  if (!Array.isArray(value)) return null
  const tiers = value.map(tier => {
    const from = isMap(tier) && Array.isArray(tier['range']) ? tier['range'][0] : null
    return from === 0 || tokensOf(from) !== null ? { from: from as number, costs: tier as Members } : null
  })
  return tiers.includes(null) ? null : (tiers as { from: number; costs: Members }[])
}

interface PriceField {
  readonly unit: Unit
  readonly condition: Pick<PriceRule, 'above' | 'tier'>
}

function unitOf(name: string): PriceField | null {
  let rest = name
  const condition: { above?: number; tier?: Tier } = {}
  const tier = TIER.exec(rest)
  if (tier) {
    condition.tier = TIER_OF[tier[1]!]!
    rest = rest.slice(0, tier.index)
  }
  const above = ABOVE.exec(rest)
  if (above) {
    const tokens = tokensOf(Number(above[1]) * 1000)
    if (tokens === null) return null
    condition.above = tokens
    rest = rest.replace(above[0], '')
  }
  const late = TIER.exec(rest)
  if (late) {
    condition.tier = TIER_OF[late[1]!]!
    rest = rest.slice(0, late.index)
  }
  return Object.hasOwn(LITELLM_KEYS, rest) ? { unit: LITELLM_KEYS[rest]!, condition } : null
}

/** A search has prices by size, which answers do not report, so the highest counts. */
function searchRule(value: unknown): PriceRule[] {
  const sizes = isMap(value) ? Object.values(value) : []
  const prices = sizes.filter(price => faultOf(price, 'search', 1) === null) as number[]
  return prices.length === 0 ? [] : [ruleOf('search', Math.max(...prices), 1, {})]
}

const successorIn = (name: unknown, provider: string): string | null =>
  typeof name === 'string' && name !== '' ? withoutPrefix(name, provider) : null

/** The context includes the answer, but the list has the maximum prompt. */
const contextOf = (row: Members): number | null => tokensOf(row['max_input_tokens'] ?? row['max_tokens'])
