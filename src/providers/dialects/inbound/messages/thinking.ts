/** Whether and how much to think: `thinking` and `output_config.effort` as `reasoning_effort`. */
import { effortWithin } from '#contract'
import { type Fields, fieldsIn, isFields, isUnsaid, missing, wrongType, wrongWord } from './fields.ts'

const KINDS = ['enabled', 'adaptive', 'disabled']
const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']

/**
 * The effort, or null where the client leaves it open. An effort that is said aloud counts for more than a budget; who
 * switches thinking off gets none; `adaptive` alone is Anthropic's own default, which is high.
 */
export function decodeEffort(thinking: unknown, config: Fields): string | null {
  const said = effortIn(config['effort'])
  if (isUnsaid(thinking)) return said
  const { type, budget_tokens: budget } = fieldsIn(thinking, 'thinking')
  switch (type) {
    case 'disabled':
      return 'none'
    case 'adaptive':
      return said ?? 'high'
    case 'enabled':
      if (budget === undefined) throw missing('thinking.budget_tokens')
      if (typeof budget !== 'number') throw wrongType('thinking.budget_tokens', 'an integer', budget)
      return said ?? effortWithin(budget)
    default:
      throw wrongWord('thinking.type', type, KINDS)
  }
}

/** Whether the client wants to see thoughts; without a word on thinking it does not. */
export function showsThoughts(thinking: unknown): boolean {
  return isFields(thinking) && thinking['type'] !== 'disabled'
}

function effortIn(effort: unknown): string | null {
  if (isUnsaid(effort)) return null
  if (typeof effort === 'string' && EFFORTS.includes(effort)) return effort
  throw wrongWord('output_config.effort', effort, EFFORTS)
}
