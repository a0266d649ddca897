/** Maps `reasoning_effort` to the Messages API: whether and how much a model reasons. */
import { type Conversation, hasLostReasoning, hasNative } from '../translate/conversation.ts'
import type { Traits } from './traits.ts'

/** The reasoning settings of a request, and whether `reasoning_effort` was dropped. */
export interface ReasoningPlan {
  /** The request's `thinking`, if it must be sent. */
  readonly thinking: Readonly<Record<string, unknown>> | null
  /** For `output_config.effort`. */
  readonly effort: string | null
  /** Reasoning is off: earlier reasoning is not sent either, because the model cannot use it. */
  readonly isOff: boolean
  readonly isDropped: boolean
}

/** Reasoning tokens by effort, for models that take a number. */
const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: Number.POSITIVE_INFINITY,
}
/** The provider's minimum budget. */
const SMALLEST_BUDGET = 1024
/** Maximum share of the output cap for reasoning; the rest is for the answer. */
const MAX_OF_CAP = 0.8

const EFFORTS: Readonly<Record<string, string>> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
}

const DEFAULT: ReasoningPlan = { thinking: null, effort: null, isOff: false, isDropped: false }
const DISABLED = { type: 'disabled' } as const
/** Newer models return no reasoning unless a summary is requested. */
const ADAPTIVE = { type: 'adaptive', display: 'summarized' } as const

interface ReasoningContext {
  /** The client's `reasoning_effort`. */
  readonly effort: string | null
  /** Output tokens, including reasoning. Never raised for reasoning. */
  readonly cap: number
  /** The model must call a tool, so it cannot reason first. */
  readonly mustCall: boolean
  readonly conversation: Conversation
}

export function planReasoning(
  traits: Traits,
  { effort, cap, mustCall, conversation }: ReasoningContext,
): ReasoningPlan {
  const off = (isDropped: boolean, explicit = true): ReasoningPlan => ({
    ...DEFAULT,
    thinking: explicit && traits.thinking === 'adaptive' ? DISABLED : null,
    isOff: true,
    isDropped,
  })
  if (traits.alwaysReasons) return always(effort, mustCall)
  if (effort === 'none') return off(false)
  if (effort === null) {
    if (mustCall) return off(false, traits.reasonsByDefault)
    return traits.thinking === 'adaptive' ? DEFAULT : off(false)
  }
  const last = conversation.turns.at(-1)
  const isPrefilled = last?.role === 'assistant' && conversation.ending.length === 0 && !hasNative(last)
  if (traits.thinking === 'none' || mustCall || isPrefilled || !Object.hasOwn(EFFORTS, effort)) return off(true)
  if (traits.thinking === 'adaptive') {
    const known = effort === 'xhigh' && !traits.knowsXhigh ? 'max' : EFFORTS[effort]!
    return { ...DEFAULT, thinking: ADAPTIVE, effort: known, isDropped: effort === 'minimal' }
  }
  if (cap <= SMALLEST_BUDGET || hasLostReasoning(conversation)) return off(true)
  const most = Math.max(SMALLEST_BUDGET, Math.floor(cap * MAX_OF_CAP))
  return { ...DEFAULT, thinking: { type: 'enabled', budget_tokens: Math.min(BUDGETS[effort]!, most) } }
}

/** For a model that always reasons. Its lowest effort is the nearest to `none`. */
function always(effort: string | null, mustCall: boolean): ReasoningPlan {
  if (effort === null) return DEFAULT
  if (effort === 'none') return { ...DEFAULT, effort: 'low', isDropped: true }
  if (!Object.hasOwn(EFFORTS, effort)) return { ...DEFAULT, isDropped: true }
  const thinking = mustCall ? null : ADAPTIVE
  return { ...DEFAULT, thinking, effort: EFFORTS[effort]!, isDropped: effort === 'minimal' }
}
