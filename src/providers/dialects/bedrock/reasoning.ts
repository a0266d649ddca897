/** Maps `reasoning_effort` to each family of models, and what reasoning excludes. */
import type { Effort } from '../translate/parameters.ts'
import type { Traits } from './traits.ts'

export interface ReasoningFields {
  /** For `additionalModelRequestFields`. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Whether reasoning fixes the sampling parameters, as at Claude. */
  readonly fixesSampling: boolean
  /** Whether the requested effort is used. */
  readonly kept: boolean
}

/** Parts of the request that affect whether reasoning may be on. */
export interface ReasoningContext {
  /** Output tokens, reasoning included. */
  readonly cap: number
  /** Claude cannot reason when it must call a tool. */
  readonly forced: boolean
  /** Claude cannot reason before it continues an assistant message. */
  readonly prefilled: boolean
  /** A budget model cannot reason if the reasoning that led to its calls was lost. */
  readonly lostThought: boolean
}

const UNCHANGED: ReasoningFields = { fields: {}, fixesSampling: false, kept: true }
const IGNORED: ReasoningFields = { ...UNCHANGED, kept: false }
const OFF: ReasoningFields = { fields: { thinking: { type: 'disabled' } }, fixesSampling: false, kept: true }

export function encodeReasoning(effort: Effort | null, traits: Traits, context: ReasoningContext): ReasoningFields {
  switch (traits.thinking) {
    case 'adaptive':
      return adaptive(effort, traits, context)
    case 'budget':
      return budget(effort, context)
    case 'nova':
      return withEffort(effort, traits, word => ({ reasoningConfig: { type: 'enabled', maxReasoningEffort: word } }))
    case 'effort':
      return withEffort(effort, traits, word => ({ reasoning_effort: word }))
    case 'config':
      return withEffort(effort, traits, word => ({ reasoning_config: word }))
    case 'none':
      return effort === null || (effort === 'none' && !traits.reasonsUnasked) ? UNCHANGED : IGNORED
  }
}

function withEffort(
  effort: Effort | null,
  traits: Traits,
  fields: (word: string) => Record<string, unknown>,
): ReasoningFields {
  if (effort === null) return UNCHANGED
  if (effort === 'none') return traits.reasonsUnasked ? IGNORED : UNCHANGED
  const word = nearest(effort, traits.efforts)
  return { ...UNCHANGED, fields: fields(word), kept: effort !== 'minimal' || word === effort }
}

function adaptive(effort: Effort | null, traits: Traits, { forced, prefilled }: ReasoningContext): ReasoningFields {
  if (traits.alwaysReasons && (effort === null || effort === 'none'))
    return effort === null ? UNCHANGED : { ...IGNORED, fields: { output_config: { effort: 'low' } } }
  if (!traits.alwaysReasons && (forced || prefilled))
    return { ...(traits.reasonsUnasked ? OFF : UNCHANGED), kept: effort === null || effort === 'none' }
  if (effort === null) return UNCHANGED
  if (effort === 'none') return OFF
  // Without `display` newer models reason, charge for it, and return none of it.
  const fields = {
    ...(forced ? {} : { thinking: { type: 'adaptive', display: 'summarized' } }),
    output_config: { effort: nearest(effort, traits.efforts) },
  }
  return { fields, fixesSampling: true, kept: effort !== 'minimal' }
}

/** Reasoning tokens by effort. */
const BUDGETS: Readonly<Record<Exclude<Effort, 'none'>, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: Number.POSITIVE_INFINITY,
}
const SMALLEST_BUDGET = 1024
/** Maximum share of the cap for reasoning; the rest is for the answer. */
const MAX_OF_CAP = 0.8

function budget(effort: Effort | null, { cap, forced, prefilled, lostThought }: ReasoningContext): ReasoningFields {
  if (effort === null || effort === 'none') return UNCHANGED
  if (forced || prefilled || lostThought || cap <= SMALLEST_BUDGET) return IGNORED
  const most = Math.max(SMALLEST_BUDGET, Math.floor(cap * MAX_OF_CAP))
  const tokens = Math.min(BUDGETS[effort] ?? BUDGETS.medium, most)
  return { fields: { thinking: { type: 'enabled', budget_tokens: tokens } }, fixesSampling: true, kept: true }
}

const ORDER: readonly string[] = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/** The weakest effort that is at least the requested one, else the strongest. */
function nearest(effort: string, words: readonly string[]): string {
  const wanted = ORDER.indexOf(effort)
  return words.find(word => ORDER.indexOf(word) >= wanted) ?? words.at(-1)!
}
