/**
 * Translates parameters of OpenRouter's API, which its clients send to each gateway, to parameters of chat completions. Others are dropped
 * and listed in `x-tollgate-dropped`: the policy chooses the model and the provider.
 * https://openrouter.ai/docs/api-reference/parameters
 */
import { type Chat, type ChatRequest, effortWithin } from '#contract'
import { OPENROUTER } from './chat-completions.ts'

const NAMES: readonly string[] = Object.keys(OPENROUTER)
const DROPPED = NAMES.filter(name => name !== 'reasoning' && name !== 'usage')

interface Reasoning {
  readonly effort?: string | null
  /** The maximum of reasoning tokens. */
  readonly max_tokens?: number | null
  readonly enabled?: boolean | null
  readonly [field: string]: unknown
}

/** The fields of the fact `chat` that the parameters of OpenRouter may change. */
export type ChatFields = Required<Pick<Chat, 'body' | 'bytes' | 'dropped' | 'hidesReasoning'>>

/** The request in chat completions; the same object if it has none of these parameters. */
export function withoutOpenRouter(fields: ChatFields): ChatFields {
  const { body: sent } = fields
  if (!NAMES.some(name => sent[name] !== undefined)) return fields
  const { reasoning, usage, stream, stream_options } = sent
  const reasoned = readReasoning((reasoning ?? {}) as Reasoning, sent.reasoning_effort ?? null)
  const body = {
    ...(Object.fromEntries(Object.entries(sent).filter(([name]) => !NAMES.includes(name))) as ChatRequest),
    ...(reasoned.effort === null ? {} : { reasoning_effort: reasoned.effort }),
    ...(asksUsage(usage) && stream === true ? { stream_options: { ...stream_options, include_usage: true } } : {}),
  }
  const dropped = [...fields.dropped, ...DROPPED.filter(name => !isEmpty(sent[name])), ...reasoned.dropped]
  return { ...fields, body, bytes: Buffer.from(JSON.stringify(body)), dropped }
}

/** Whether a value changes nothing. Reasoning is shown by default, so `include_reasoning: true` changes nothing. */
const isEmpty = (value: unknown): boolean =>
  value == null || value === true || (typeof value === 'object' && Object.keys(value).length === 0)

const asksUsage = (usage: unknown): boolean => (usage as { readonly include?: unknown } | null)?.include === true

/** @param explicit `reasoning_effort`, which takes precedence */
function readReasoning({ effort, max_tokens, enabled, ...others }: Reasoning, explicit: string | null) {
  const dropped = Object.keys(others).filter(name => others[name] != null && others[name] !== false)
  const isOff = enabled === false || max_tokens === 0
  const within = max_tokens == null ? null : effortWithin(max_tokens)
  const meant = isOff ? 'none' : (effort ?? within ?? (enabled === true ? 'medium' : null))
  if (!isOff && effort != null && within !== null) dropped.push('max_tokens')
  if (explicit !== null && meant !== null && meant !== explicit) dropped.push('effort')
  return { effort: explicit ?? meant, dropped: dropped.map(name => `reasoning.${name}`) }
}
