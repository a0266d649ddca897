/**
 * Parameters of OpenRouter's API that its clients send to every gateway. What has a meaning here becomes a parameter of chat
 * completions. The rest is left out and named in `x-tollgate-dropped`: which model and provider answers is the policy's choice.
 * https://openrouter.ai/docs/api-reference/parameters
 */
import { type ChatRequest, effortWithin } from '#contract'

/** What changes nothing here. */
const LEFT_OUT = ['models', 'provider', 'transforms', 'route', 'plugins', 'include_reasoning'] as const
const NAMES: readonly string[] = ['reasoning', 'usage', ...LEFT_OUT]

interface Reasoning {
  readonly effort?: string | null
  /** Tokens of thinking at most. */
  readonly max_tokens?: number | null
  readonly enabled?: boolean | null
  readonly [field: string]: unknown
}

export interface Understood {
  readonly body: ChatRequest
  /** Names of what was left out. */
  readonly dropped: readonly string[]
}

/** The same request in chat completions; null where it has none of these parameters. */
export function withoutOpenRouter(asked: ChatRequest): Understood | null {
  if (!NAMES.some(name => asked[name] !== undefined)) return null
  const { reasoning, usage } = asked
  const body = Object.fromEntries(Object.entries(asked).filter(([name]) => !NAMES.includes(name))) as ChatRequest
  const thinking = readReasoning((reasoning ?? {}) as Reasoning, asked.reasoning_effort ?? null)
  return {
    body: {
      ...body,
      ...(thinking.effort === null ? {} : { reasoning_effort: thinking.effort }),
      ...(asksUsage(usage) && asked.stream === true
        ? { stream_options: { ...asked.stream_options, include_usage: true } }
        : {}),
    },
    dropped: [...LEFT_OUT.filter(name => !isEmpty(asked[name])), ...thinking.dropped],
  }
}

/** Thoughts are shown by default, as `include_reasoning: true` wants it. */
const isEmpty = (value: unknown): boolean =>
  value == null || value === true || (typeof value === 'object' && Object.keys(value).length === 0)

const asksUsage = (usage: unknown): boolean => (usage as { readonly include?: unknown } | null)?.include === true

/** @param said `reasoning_effort`, which counts for more */
function readReasoning({ effort, max_tokens, enabled, ...others }: Reasoning, said: string | null) {
  const dropped = Object.keys(others).filter(name => others[name] != null && others[name] !== false)
  const isOff = enabled === false || max_tokens === 0
  const within = max_tokens == null ? null : effortWithin(max_tokens)
  const meant = isOff ? 'none' : (effort ?? within ?? (enabled === true ? 'medium' : null))
  if (!isOff && effort != null && within !== null) dropped.push('max_tokens')
  if (said !== null && meant !== null && meant !== said) dropped.push('effort')
  return { effort: said ?? meant, dropped: dropped.map(name => `reasoning.${name}`) }
}
