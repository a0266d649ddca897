/** `reasoning_effort` in the words of each family of models, and what it forbids beside it. */
import type { Effort } from '../translate/parameters.ts'
import type { Traits } from './traits.ts'

export interface Thinking {
  /** For `additionalModelRequestFields`. */
  readonly fields: Readonly<Record<string, unknown>>
  /** Whether Claude thinks, which then wants the sampling for itself. */
  readonly fixesSampling: boolean
  /** Whether the effort that was asked for is what will be done. */
  readonly kept: boolean
}

/** What else in the request decides whether thinking may be on. */
export interface Circumstances {
  /** Tokens of the answer, thinking included. */
  readonly cap: number
  /** Claude may not think when it must call a tool. */
  readonly forced: boolean
  /** Claude may not think before it goes on with an answer that has begun. */
  readonly prefilled: boolean
  /** A budget model may not think on when the thought that led to its calls was lost. */
  readonly lostThought: boolean
}

const LEFT_ALONE: Thinking = { fields: {}, fixesSampling: false, kept: true }
const UNHEARD: Thinking = { ...LEFT_ALONE, kept: false }
const OFF: Thinking = { fields: { thinking: { type: 'disabled' } }, fixesSampling: false, kept: true }

export function encodeThinking(effort: Effort | null, traits: Traits, circumstances: Circumstances): Thinking {
  switch (traits.thinking) {
    case 'adaptive':
      return adaptive(effort, traits, circumstances)
    case 'budget':
      return budget(effort, circumstances)
    case 'nova':
      return said(effort, traits, word => ({ reasoningConfig: { type: 'enabled', maxReasoningEffort: word } }))
    case 'effort':
      return said(effort, traits, word => ({ reasoning_effort: word }))
    case 'config':
      return said(effort, traits, word => ({ reasoning_config: word }))
    case 'none':
      return effort === null || (effort === 'none' && !traits.thinksByDefault) ? LEFT_ALONE : UNHEARD
  }
}

function said(effort: Effort | null, traits: Traits, fields: (word: string) => Record<string, unknown>): Thinking {
  if (effort === null) return LEFT_ALONE
  if (effort === 'none') return traits.thinksByDefault ? UNHEARD : LEFT_ALONE
  const word = nearest(effort, traits.efforts)
  return { ...LEFT_ALONE, fields: fields(word), kept: effort !== 'minimal' || word === effort }
}

function adaptive(effort: Effort | null, traits: Traits, { forced, prefilled }: Circumstances): Thinking {
  if (traits.thinksAlways && (effort === null || effort === 'none'))
    return effort === null ? LEFT_ALONE : { ...UNHEARD, fields: { output_config: { effort: 'low' } } }
  if (!traits.thinksAlways && (forced || prefilled))
    return { ...(traits.thinksByDefault ? OFF : LEFT_ALONE), kept: effort === null || effort === 'none' }
  if (effort === null) return LEFT_ALONE
  if (effort === 'none') return OFF
  // Without `display` newer models think, and charge for it, and show nothing.
  const fields = {
    ...(forced ? {} : { thinking: { type: 'adaptive', display: 'summarized' } }),
    output_config: { effort: nearest(effort, traits.efforts) },
  }
  return { fields, fixesSampling: true, kept: effort !== 'minimal' }
}

/** Tokens to think with. */
const BUDGETS: Readonly<Record<Exclude<Effort, 'none'>, number>> = {
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 32_768,
  max: Number.POSITIVE_INFINITY,
}
const SMALLEST_BUDGET = 1024
/** The part of the cap that thinking may take: the rest is for the answer. */
const MAX_OF_CAP = 0.8

function budget(effort: Effort | null, { cap, forced, prefilled, lostThought }: Circumstances): Thinking {
  if (effort === null || effort === 'none') return LEFT_ALONE
  if (forced || prefilled || lostThought || cap <= SMALLEST_BUDGET) return UNHEARD
  const most = Math.max(SMALLEST_BUDGET, Math.floor(cap * MAX_OF_CAP))
  const tokens = Math.min(BUDGETS[effort] ?? BUDGETS.medium, most)
  return { fields: { thinking: { type: 'enabled', budget_tokens: tokens } }, fixesSampling: true, kept: true }
}

const ORDER: readonly string[] = ['minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/** The weakest word that is no weaker than what was asked for, else the strongest there is. */
function nearest(effort: string, words: readonly string[]): string {
  const wanted = ORDER.indexOf(effort)
  return words.find(word => ORDER.indexOf(word) >= wanted) ?? words.at(-1)!
}
