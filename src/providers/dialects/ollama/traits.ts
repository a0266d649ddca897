/**
 * What differs between Ollama's models, by their names in its library. A name that nobody knows is taken for a model
 * that thinks: when it does not, Ollama says so. Sources: Ollama's library, and what its server checks.
 */
import type { Effort } from '../translate/parameters.ts'

/** How a model is told to think: by a level, on and off, or not at all, because it cannot. */
export type Thinking = 'levels' | 'switch' | 'none'

const CANNOT: ReadonlySet<string> = new Set([
  ...['llama2', 'llama3', 'llama3.1', 'llama3.2', 'llama3.2-vision', 'llama3.3', 'llama4', 'codellama', 'tinyllama'],
  ...['llava', 'llava-llama3', 'bakllava', 'moondream', 'gemma', 'gemma2', 'gemma3', 'gemma3n', 'codegemma'],
  ...['mistral', 'mistral-nemo', 'mistral-small', 'mistral-small3.1', 'mistral-small3.2', 'mistral-large', 'mixtral'],
  ...['codestral', 'devstral', 'qwen', 'qwen2', 'qwen2.5', 'qwen2.5-coder', 'qwen2.5vl', 'qwen3-coder'],
  ...['phi', 'phi3', 'phi3.5', 'phi4', 'phi4-mini', 'command-r', 'command-r-plus', 'command-r7b', 'command-a'],
])

/** @param model with or without a namespace and a tag: `somebody/gpt-oss:20b` */
export function thinkingOf(model: string): Thinking {
  const name = model.slice(model.lastIndexOf('/') + 1).toLowerCase()
  const [family = ''] = name.split(':')
  if (family.startsWith('gpt-oss')) return 'levels'
  return CANNOT.has(family) ? 'none' : 'switch'
}

/** The levels there are; the least of them is "not at all". */
const LEVELS: Readonly<Record<Effort, string>> = {
  none: 'low',
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

/** `think`, or undefined where nothing is to be said: models that think do so unasked. */
export function thinkFor(thinking: Thinking, effort: Effort | null): string | boolean | undefined {
  if (effort === null || thinking === 'none') return undefined
  return thinking === 'levels' ? LEVELS[effort] : effort !== 'none'
}

/** Whether an effort is what will be done, or the nearest to it. */
export function keepsEffort(thinking: Thinking, effort: Effort | null): boolean {
  if (thinking === 'levels') return effort !== 'none' && effort !== 'minimal'
  return thinking === 'switch' || effort === null || effort === 'none'
}
