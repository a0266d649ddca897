/** Converts `thinking` and `output_config.effort` to `reasoning_effort`. */
import { effortWithin } from '#contract'
import { type Fields, fieldsIn, isAbsent, isFields, missing, unknownValue, wrongType } from './fields.ts'

const KINDS = ['enabled', 'adaptive', 'disabled']
const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max']

/**
 * The effort, or null if the client sets none. An explicit effort has precedence over a budget. `disabled` becomes `none`. `adaptive`
 * without an effort is Anthropic's default, high.
 */
export function decodeEffort(thinking: unknown, config: Fields): string | null {
  const explicit = effortIn(config['effort'])
  if (isAbsent(thinking)) return explicit
  const { type, budget_tokens: budget } = fieldsIn(thinking, 'thinking')
  switch (type) {
    case 'disabled':
      return 'none'
    case 'adaptive':
      return explicit ?? 'high'
    case 'enabled':
      if (budget === undefined) throw missing('thinking.budget_tokens')
      if (typeof budget !== 'number') throw wrongType('thinking.budget_tokens', 'an integer', budget)
      return explicit ?? effortWithin(budget)
    default:
      throw unknownValue('thinking.type', type, KINDS)
  }
}

/** Whether the client wants to see reasoning; by default it does not. */
export function showsReasoning(thinking: unknown): boolean {
  return isFields(thinking) && thinking['type'] !== 'disabled'
}

function effortIn(effort: unknown): string | null {
  if (isAbsent(effort)) return null
  if (typeof effort === 'string' && EFFORTS.includes(effort)) return effort
  throw unknownValue('output_config.effort', effort, EFFORTS)
}
