/**
 * Parameters of OpenRouter's API that its clients send to every gateway. What has a meaning here becomes a parameter of chat
 * completions. The rest is left out and named in `x-tollgate-dropped`: which model and provider answers is the policy's choice.
 * https://openrouter.ai/docs/api-reference/parameters
 */
import { type Chat, type ChatRequest, effortWithin } from '#contract'
import { OPENROUTER } from './chat-completions.ts'

const NAMES: readonly string[] = Object.keys(OPENROUTER)
/** Parameters without a meaning here. */
const LEFT_OUT = NAMES.filter(name => name !== 'reasoning' && name !== 'usage')

interface Reasoning {
  readonly effort?: string | null
  /** Tokens of thinking at most. */
  readonly max_tokens?: number | null
  readonly enabled?: boolean | null
  readonly [field: string]: unknown
}

/** A request on its way to the canonical one. */
export type Asked = Required<Pick<Chat, 'body' | 'bytes' | 'dropped' | 'hidesThoughts'>>

/** The same request in chat completions; the same object where it has none of these parameters. */
export function withoutOpenRouter(asked: Asked): Asked {
  const { body: sent } = asked
  if (!NAMES.some(name => sent[name] !== undefined)) return asked
  const { reasoning, usage, stream, stream_options } = sent
  const thinking = readReasoning((reasoning ?? {}) as Reasoning, sent.reasoning_effort ?? null)
  const body = {
    ...(Object.fromEntries(Object.entries(sent).filter(([name]) => !NAMES.includes(name))) as ChatRequest),
    ...(thinking.effort === null ? {} : { reasoning_effort: thinking.effort }),
    ...(asksUsage(usage) && stream === true ? { stream_options: { ...stream_options, include_usage: true } } : {}),
  }
  const dropped = [...asked.dropped, ...LEFT_OUT.filter(name => !isEmpty(sent[name])), ...thinking.dropped]
  return { ...asked, body, bytes: Buffer.from(JSON.stringify(body)), dropped }
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
