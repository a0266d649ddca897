/**
 * Properties of Google's models, by their names. An unknown name is treated as the newest kind. Sources: the recorded traffic, Google's
 * guides to thinking, and reported errors of its API.
 */
import type { Chat } from '#contract'
import type { Effort } from '../translate/parameters.ts'

/** Google AI Studio's API (the Gemini API), or Vertex AI. */
export type Platform = 'studio' | 'vertex'

export type Level = 'MINIMAL' | 'LOW' | 'MEDIUM' | 'HIGH'

/** How the reasoning of a model is controlled. */
export type ReasoningControl =
  /** By a level. `levels` are in ascending order; none of them switches reasoning off. */
  | { readonly kind: 'levels'; readonly levels: readonly Level[] }
  /** By a number of tokens, which count towards `maxOutputTokens`. */
  | {
      readonly kind: 'budget'
      readonly least: number
      readonly most: number
      /** Whether a budget of 0 is allowed. */
      readonly canBeOff: boolean
      /** Whether it reasons by default. */
      readonly byDefault: boolean
    }

export interface Traits {
  /** Null: the model does not reason, or has no control for it. */
  readonly thinking: ReasoningControl | null
  /** Whether calls without a signature are refused when they are sent back. */
  readonly wantsSignatures: boolean
  /** Whether structured output is possible beside tools. */
  readonly shapesBesideTools: boolean
  /** Whether it has a system instruction. */
  readonly system: boolean
  /** The platforms on which it supports presence and frequency penalties. */
  readonly penalties: readonly Platform[]
}

const budget = (least: number, most: number, canBeOff: boolean, byDefault: boolean): ReasoningControl => ({
  kind: 'budget',
  least,
  most,
  canBeOff,
  byDefault,
})
const levels = (...levels: readonly Level[]): ReasoningControl => ({ kind: 'levels', levels })

const FIRST: Traits = {
  thinking: null,
  wantsSignatures: false,
  shapesBesideTools: false,
  system: true,
  penalties: ['studio', 'vertex'],
}
const OPEN: Traits = { ...FIRST, penalties: [] }
const second = (thinking: ReasoningControl | null): Traits => ({ ...FIRST, thinking, penalties: ['vertex'] })
const third = (thinking: ReasoningControl | null): Traits => ({
  ...OPEN,
  thinking,
  wantsSignatures: true,
  shapesBesideTools: true,
})

/** The first matching row counts. */
const TABLE: readonly (readonly [RegExp, Traits])[] = [
  [/^gemma-?[1-3]/, { ...OPEN, system: false }],
  [/^(?:gemma|learnlm)/, OPEN],
  [/^gemini-(?:1|2\.0)/, FIRST],
  [/^gemini-2\.5-.*(?:image|tts)/, second(null)],
  [/^gemini-2\.5-pro/, second(budget(128, 32_768, false, true))],
  [/^gemini-2\.5-flash-lite/, second(budget(512, 24_576, true, false))],
  [/^gemini-2\.5/, second(budget(1, 24_576, true, true))],
  [/-(?:image|tts)/, third(null)],
  [/^gemini-3-pro/, third(levels('LOW', 'HIGH'))],
  [/^gemini-3(?:\.[0-6])?-flash/, third(levels('MINIMAL', 'LOW', 'MEDIUM', 'HIGH'))],
]

const NEWEST = third(levels('LOW', 'MEDIUM', 'HIGH'))

/** @param model the name without its folder: `gemini-2.5-flash` */
export function traitsOf(model: string): Traits {
  return TABLE.find(([pattern]) => pattern.test(model))?.[1] ?? NEWEST
}

/** Reasoning tokens by effort. `low`, `medium` and `high` are as in Google's own OpenAI endpoint. */
const BUDGETS: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 512,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
}

/**
 * `thinkingConfig` for an effort, or null to send none. Reasoning text is requested if the model reasons, unless the client does not
 * get it: it is billed in both cases. A budget is at most half of the cap, so that some is left for the answer.
 */
export function thinkingConfig(
  { thinking }: Traits,
  effort: Effort | null,
  { cap, hidesReasoning = false }: Pick<Chat, 'cap' | 'hidesReasoning'>,
): object | null {
  if (thinking === null) return null
  const shown = hidesReasoning ? {} : { includeThoughts: true }
  if (effort === null) return (thinking.kind === 'levels' || thinking.byDefault) && !hidesReasoning ? shown : null
  if (thinking.kind === 'levels') return { thinkingLevel: levelOf(thinking.levels, effort), ...shown }
  const thinkingBudget = budgetOf(thinking, effort, cap)
  // The provider refuses a request for reasoning text with a budget of 0.
  return thinkingBudget === 0 ? { thinkingBudget } : { thinkingBudget, ...shown }
}

/** Whether the model reasons exactly if the effort asks for it. */
export function keepsEffort({ thinking }: Traits, effort: Effort | null, { cap }: Pick<Chat, 'cap'>): boolean {
  if (effort === null) return true
  if (thinking === null) return false
  if (thinking.kind === 'budget') return (effort === 'none') === (budgetOf(thinking, effort, cap) === 0)
  return effort === 'minimal' ? thinking.levels.includes('MINIMAL') : effort !== 'none'
}

function levelOf(levels: readonly Level[], effort: Effort): Level {
  if (effort === 'none' || effort === 'minimal') return levels[0]!
  if (effort === 'low') return 'LOW'
  return effort === 'medium' && levels.includes('MEDIUM') ? 'MEDIUM' : 'HIGH'
}

function budgetOf(
  { least, most, canBeOff }: ReasoningControl & { kind: 'budget' },
  effort: Effort,
  cap: number,
): number {
  const fitting = Math.min(BUDGETS[effort], most, Math.floor(cap / 2))
  if (fitting >= least) return fitting
  return canBeOff ? 0 : least
}
