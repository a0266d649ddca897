/** Encodes a chat request for Cohere. */
import type { Chat, ChatRequest, EncodedRequest, Target } from '#contract'
import { bodyOf } from '../translate/body.ts'
import { lostIn, readConversation } from '../translate/conversation.ts'
import {
  droppedOf,
  type Effort,
  numberOf,
  readEffort,
  readStop,
  refuseImpossible,
  refuseManyStops,
} from '../translate/parameters.ts'
import { messagesOf } from './messages.ts'
import { planTools } from './tools.ts'
import { type Traits, traitsOf } from './traits.ts'

/** Parameters that are sent, refused, or reported as lost below. */
const CARRIED = [
  ...['n', 'temperature', 'top_p', 'top_k', 'seed', 'stop', 'presence_penalty', 'frequency_penalty'],
  ...['tools', 'functions', 'tool_choice', 'function_call', 'response_format', 'reasoning_effort'],
  ...['modalities', 'web_search_options'],
]

/** Throws a refusal if the answer would be wrong. */
export function encodeRequest(chat: Chat, target: Target): EncodedRequest {
  const { body, cap, stream } = chat
  refuseImpossible(chat)
  refuseManyStops(body, MAX_STOPS)
  const traits = traitsOf(target.model)
  const conversation = readConversation(body, undefined, null, true)
  const { fields: tools, instruction, dropped: lostTools } = planTools(body, traits)
  const system = instruction === null ? conversation.system : [...conversation.system, instruction]
  const { messages, dropped: lostParts } = messagesOf({ ...conversation, system })
  const dropped = [...droppedOf(body, CARRIED), ...lostIn(body), ...lostParts, ...lostTools]
  const stop = readStop(body)
  const wire = {
    model: target.model,
    messages,
    stream,
    max_tokens: cap,
    ...tools,
    ...sampling(body, dropped),
    ...(stop.length > 0 ? { stop_sequences: stop } : {}),
    ...thinking(traits, readEffort(body), cap, dropped),
  }
  return {
    path: '/chat',
    headers: { accept: stream ? 'text/event-stream' : 'application/json', 'content-type': 'application/json' },
    body: bodyOf(wire),
    dropped,
  }
}

const MIN_P = 0.01
const MAX_P = 0.99
const MAX_K = 500
const MAX_STOPS = 5

function sampling(body: ChatRequest, dropped: string[]) {
  const topP = numberOf(body, 'top_p')
  const topK = numberOf(body, 'top_k')
  const seed = numberOf(body, 'seed')
  return {
    // The maximum is 1 here, and 2 at OpenAI.
    ...upToOne(body, 'temperature', dropped),
    // 1 means everything and 0 the likeliest token only; the nearest allowed values are equivalent.
    ...(topP === undefined ? {} : { p: Math.min(Math.max(topP, MIN_P), MAX_P) }),
    ...(topK === undefined ? {} : { k: Math.min(Math.max(Math.trunc(topK), 0), MAX_K) }),
    // Negative seeds are not supported; the same seed must stay the same.
    ...(seed === undefined ? {} : { seed: Math.abs(seed) }),
    ...penalty(body, dropped),
  }
}

/** Only one of the two: some models refuse both together. */
function penalty(body: ChatRequest, dropped: string[]) {
  const frequency = upToOne(body, 'frequency_penalty', dropped)
  if (!('frequency_penalty' in frequency)) return upToOne(body, 'presence_penalty', dropped)
  if (numberOf(body, 'presence_penalty')) dropped.push('presence_penalty')
  return frequency
}

/** Penalties of 0 are not sent. A negative penalty would be a reward, which the provider does not support. */
function upToOne(body: ChatRequest, name: string, dropped: string[]): Readonly<Record<string, number>> {
  const value = numberOf(body, name)
  if (value === undefined || (value === 0 && name !== 'temperature')) return {}
  if (value < 0 || value > 1) dropped.push(name)
  return value < 0 ? {} : { [name]: Math.min(value, 1) }
}

/** Reasoning tokens by effort. */
const BUDGETS: Readonly<Record<Exclude<Effort, 'none'>, number>> = {
  minimal: 512,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 31_000,
  max: 31_000,
}
/** Maximum share of the output cap for reasoning; the rest is for the answer. */
const MAX_OF_CAP = 0.8

function thinking({ thinks }: Traits, effort: Effort | null, cap: number, dropped: string[]) {
  if (effort === null || (effort === 'none' && !thinks)) return {}
  if (effort === 'none') return { thinking: { type: 'disabled' } }
  const budget = Math.min(BUDGETS[effort], Math.floor(cap * MAX_OF_CAP))
  if (!thinks || !(budget >= 1)) {
    dropped.push('reasoning_effort')
    return {}
  }
  return { thinking: { type: 'enabled', token_budget: budget } }
}
