/**
 * Properties of Ollama's models, by their names in its library. An unknown model is treated as a reasoning model; if it does not
 * reason, Ollama answers with an error. Sources: Ollama's library, and the checks of its server.
 */
import type { Effort } from '../translate/parameters.ts'

/** How the reasoning of a model is controlled: by a level, on or off, or not at all. */
export type ReasoningControl = 'levels' | 'switch' | 'none'

const NOT_REASONING: ReadonlySet<string> = new Set([
  ...['llama2', 'llama3', 'llama3.1', 'llama3.2', 'llama3.2-vision', 'llama3.3', 'llama4', 'codellama', 'tinyllama'],
  ...['llava', 'llava-llama3', 'bakllava', 'moondream', 'gemma', 'gemma2', 'gemma3', 'gemma3n', 'codegemma'],
  ...['mistral', 'mistral-nemo', 'mistral-small', 'mistral-small3.1', 'mistral-small3.2', 'mistral-large', 'mixtral'],
  ...['codestral', 'devstral', 'qwen', 'qwen2', 'qwen2.5', 'qwen2.5-coder', 'qwen2.5vl', 'qwen3-coder'],
  ...['phi', 'phi3', 'phi3.5', 'phi4', 'phi4-mini', 'command-r', 'command-r-plus', 'command-r7b', 'command-a'],
])

/** @param model with or without a namespace and a tag: `user/gpt-oss:20b` */
export function reasoningControlOf(model: string): ReasoningControl {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase()
  const [family = ''] = name.split(':')
  if (family.startsWith('gpt-oss')) return 'levels'
  return NOT_REASONING.has(family) ? 'none' : 'switch'
}

/** The level for each effort; reasoning cannot be switched off. */
const LEVELS: Readonly<Record<Effort, string>> = {
  none: 'low',
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

/** The value of `think`, or undefined to send none: reasoning models reason by default. */
export function thinkValue(thinking: ReasoningControl, effort: Effort | null): string | boolean | undefined {
  if (effort === null || thinking === 'none') return undefined
  return thinking === 'levels' ? LEVELS[effort] : effort !== 'none'
}

/** Whether the requested effort, or the nearest to it, is used. */
export function keepsEffort(thinking: ReasoningControl, effort: Effort | null): boolean {
  if (thinking === 'levels') return effort !== 'none' && effort !== 'minimal'
  return thinking === 'switch' || effort === null || effort === 'none'
}
