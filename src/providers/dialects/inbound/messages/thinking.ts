/** Whether and how much to think: `thinking` and `output_config.effort` as `reasoning_effort`. */
import { type Fields, fieldsIn, isUnsaid, missing, wrongType, wrongWord } from './fields.ts'

const KINDS = ['enabled', 'adaptive', 'disabled']
const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']

/**
 * Budgets from so many tokens on, and the effort they come to: the one that thinks no longer than the client allows. The
 * words beyond `high` are for those who say them: half of the models that think do not know them.
 */
const BUDGETS = [
  { least: 16_384, effort: 'high' },
  { least: 8192, effort: 'medium' },
] as const

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
      return said ?? BUDGETS.find(({ least }) => budget >= least)?.effort ?? 'low'
    default:
      throw wrongWord('thinking.type', type, KINDS)
  }
}

function effortIn(effort: unknown): string | null {
  if (isUnsaid(effort)) return null
  if (typeof effort === 'string' && EFFORTS.includes(effort)) return effort
  throw wrongWord('output_config.effort', effort, EFFORTS)
}
