/** Whether and how much a model thinks: `reasoning_effort` as the Messages API has it. */
import { type Conversation, hasLostItsThoughts, hasNative } from '../translate/conversation.ts'
import type { Traits } from './traits.ts'

/** What goes into the request, and whether the client's `reasoning_effort` got lost on the way. */
export interface ThinkingPlan {
  /** `thinking`, when something must be said. */
  readonly thinking: Readonly<Record<string, unknown>> | null
  /** For `output_config.effort`. */
  readonly effort: string | null
  /** Off: earlier thoughts are of no use to the model, and are not sent. */
  readonly isOff: boolean
  readonly isDropped: boolean
}

/** Tokens to think with, for models that want a number. */
const BUDGETS: Readonly<Record<string, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: Number.POSITIVE_INFINITY,
}
/** The provider's own lower limit of a budget. */
const SMALLEST_BUDGET = 1024
/** The part of the output cap that thinking may take: the rest is for the answer. */
const MAX_OF_CAP = 0.8

const EFFORTS: Readonly<Record<string, string>> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'xhigh',
  max: 'max',
}

const UNSAID: ThinkingPlan = { thinking: null, effort: null, isOff: false, isDropped: false }
const DISABLED = { type: 'disabled' } as const
/** Newer models keep their thoughts to themselves unless asked for a summary. */
const ADAPTIVE = { type: 'adaptive', display: 'summarized' } as const

interface Circumstances {
  /** The client's `reasoning_effort`. */
  readonly effort: string | null
  /** Output tokens, which hold the thinking: never raised for it. */
  readonly cap: number
  /** The model must call a tool: it can't think first then. */
  readonly mustCall: boolean
  readonly conversation: Conversation
}

export function planThinking(traits: Traits, { effort, cap, mustCall, conversation }: Circumstances): ThinkingPlan {
  const off = (isDropped: boolean, aloud = true): ThinkingPlan => ({
    ...UNSAID,
    thinking: aloud && traits.thinking === 'adaptive' ? DISABLED : null,
    isOff: true,
    isDropped,
  })
  if (traits.thinksAlways) return always(effort, mustCall)
  if (effort === 'none') return off(false)
  if (effort === null) {
    if (mustCall) return off(false, traits.thinksUnasked)
    return traits.thinking === 'adaptive' ? UNSAID : off(false)
  }
  const last = conversation.turns.at(-1)
  const isPrefilled = last?.role === 'assistant' && conversation.ending.length === 0 && !hasNative(last)
  if (traits.thinking === 'none' || mustCall || isPrefilled || !Object.hasOwn(EFFORTS, effort)) return off(true)
  if (traits.thinking === 'adaptive') {
    const known = effort === 'xhigh' && !traits.knowsXhigh ? 'max' : EFFORTS[effort]!
    return { ...UNSAID, thinking: ADAPTIVE, effort: known, isDropped: effort === 'minimal' }
  }
  if (cap <= SMALLEST_BUDGET || hasLostItsThoughts(conversation)) return off(true)
  const most = Math.max(SMALLEST_BUDGET, Math.floor(cap * MAX_OF_CAP))
  return { ...UNSAID, thinking: { type: 'enabled', budget_tokens: Math.min(BUDGETS[effort]!, most) } }
}

/** A model that always thinks. Its lowest effort is the nearest to none. */
function always(effort: string | null, mustCall: boolean): ThinkingPlan {
  if (effort === null) return UNSAID
  if (effort === 'none') return { ...UNSAID, effort: 'low', isDropped: true }
  if (!Object.hasOwn(EFFORTS, effort)) return { ...UNSAID, isDropped: true }
  const thinking = mustCall ? null : ADAPTIVE
  return { ...UNSAID, thinking, effort: EFFORTS[effort]!, isDropped: effort === 'minimal' }
}
