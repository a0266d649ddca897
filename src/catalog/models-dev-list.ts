/** Reads models.dev's `api.json`: providers with models, and prices in dollars for a million tokens. */
import type { PriceRule, Unit } from '#contract'
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
  type Members,
  merged,
  ruleOf,
  tokensOf,
  WITHOUT_TIME,
} from './listed-model.ts'

const KEYS: Readonly<Record<string, Unit>> = {
  input: 'input',
  cache_read: 'cached_input',
  cache_write: 'cache_write',
  input_audio: 'input_audio',
  output: 'output',
  reasoning: 'reasoning',
  output_audio: 'output_audio',
}
/** Prices above a prompt length are maps such as `context_over_200k`, or entries of the list `tiers`. */
const STEP = /^context_over_(\d+)k$/
const PER = 1_000_000

/** The models by the list's name of the provider, then by the provider's name of the model in lower case. */
export function modelsDevModels(list: Members): Map<string, Map<string, ListedModel>> {
  const providers = new Map<string, Map<string, ListedModel>>()
  for (const [provider, row] of Object.entries(list)) {
    if (!isMap(row) || !isMap(row['models'])) continue
    const models = new Map<string, ListedModel>()
    for (const [id, model] of Object.entries(row['models'])) {
      if (isMap(model)) addModel(models, modelOf(provider, id, model))
    }
    providers.set(provider, models)
  }
  return providers
}

function modelOf(provider: string, id: string, row: Members): ListedModel {
  const problems: ListProblem[] = []
  const uncounted: string[] = []
  const at = [provider, 'models', id, 'cost']
  const rulesOf = (cost: Members, path: readonly string[], condition: Pick<PriceRule, 'above'>): PriceRule[] =>
    Object.entries(cost).flatMap(([key, value]) => {
      const tiers = condition.above === undefined ? tiersIn(key, value) : null
      if (tiers !== null) {
        return tiers.flatMap(({ above, costs, at }) => rulesOf(costs, [...path, key, ...at], { above }))
      }
      if (!Object.hasOwn(KEYS, key)) {
        const isCost = typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Number(value) > 0
        if (isCost) uncounted.push(key)
        return []
      }
      const fault = faultOf(value, KEYS[key]!, PER)
      if (fault === null) return [ruleOf(KEYS[key]!, value as number, PER, condition)]
      problems.push({ path: [...path, key], message: `${id}: ${key}: ${fault}` })
      return []
    })
  const rules = merged(isMap(row['cost']) ? rulesOf(row['cost'], at, {}) : [])
  const has = (unit: Unit) => rules.some(rule => rule.unit === unit && isOrdinary(rule))
  if (has('input') !== has('output') && problems.length === 0) {
    const missing = has('input') ? 'output' : 'input'
    problems.push({ path: at, message: `${id} has no price for ${missing}`, suggestion: 'a price has both' })
  }
  for (const key of ['shutdown_date', 'deprecation_date']) {
    const end = endFault(row, key, [provider, 'models', id])
    if (end !== null) problems.push(end)
  }
  const limit = isMap(row['limit']) ? row['limit'] : {}
  const modalities = isMap(row['modalities']) ? row['modalities']['output'] : undefined
  return {
    id,
    price: has('input') && has('output') ? rules : null,
    ...WITHOUT_TIME,
    context: tokensOf(limit['context']),
    maxOutput: tokensOf(limit['output']),
    reasoning: typeof row['reasoning'] === 'boolean' ? row['reasoning'] : null,
    chat: Array.isArray(modalities) ? modalities.includes('text') && !NO_CHATS.test(id) : !NO_CHATS.test(id),
    deprecation:
      deprecationOf(row['shutdown_date'] ?? row['deprecation_date']) ??
      (row['status'] === 'deprecated' ? { date: null, successor: null } : null),
    uncounted,
    path: [provider, 'models', id],
    problems,
  }
}

interface Tier {
  readonly above: number
  readonly costs: Members
  /** Its index if it is in a list. */
  readonly at: readonly string[]
}

/** The prices above prompt lengths in a member of `cost`; null for any other member. */
function tiersIn(key: string, value: unknown): Tier[] | null {
  const step = STEP.exec(key)
  if (step) {
    const above = tokensOf(Number(step[1]) * 1000)
    return above === null || !isMap(value) ? null : [{ above, costs: value, at: [] }]
  }
  if (key !== 'tiers' || !Array.isArray(value)) return null
  const tiers = value.map((entry, index): Tier | null => {
    if (!isMap(entry) || !isMap(entry['tier']) || entry['tier']['type'] !== 'context') return null
    const { tier, ...costs } = entry
    const above = tokensOf((tier as Members)['size'])
    return above === null ? null : { above, costs, at: [String(index)] }
  })
  return tiers.includes(null) ? null : (tiers as Tier[])
}
