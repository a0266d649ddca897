/** Encodes a chat request for the Messages API. */
import type { Chat, ChatRequest } from '#contract'
import { type Conversation, lostIn, readConversation } from '../translate/conversation.ts'
import {
  droppedOf,
  isNarrowed,
  JSON_INSTRUCTION,
  numberOf,
  readEffort,
  readStop,
  readTopK,
  refuseImpossible,
} from '../translate/parameters.ts'
import { type Block, type MarkRule, withFitMarks } from './cache.ts'
import { isAccepted, writeConversation } from './content.ts'
import { planReasoning } from './reasoning.ts'
import { planTools } from './tools.ts'
import { type Host, type Traits, traitsOf } from './traits.ts'

/** Parameters that are sent, or whose losses `encodeMessages` reports itself. */
const CARRIED = [
  'temperature',
  'top_p',
  'top_k',
  'stop',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'functions',
  'function_call',
  'response_format',
  'reasoning_effort',
  'user',
  'safety_identifier',
  'service_tier',
  'modalities',
  'web_search_options',
]

/**
 * The body without `model` and `stream`, which depend on the host, and the names of the dropped parameters. Throws a refusal
 * if the answer would be wrong.
 * @param model the provider's name for it, which determines its traits
 * @param marks which cache marks the host supports
 */
export function encodeMessages(
  chat: Chat,
  model: string,
  host: Host,
  marks: MarkRule = 'timed',
): { readonly body: Readonly<Record<string, unknown>>; readonly dropped: readonly string[] } {
  const { body, cap } = chat
  refuseImpossible(chat)
  const traits = traitsOf(model)
  const conversation = readConversation(body, undefined, block => isAccepted(block, host), traits.systemWithin)
  const plan = planTools(body, traits, host, conversation)
  const { choice, format, mustCall } = plan
  const thinking = planReasoning(traits, { effort: readEffort(body), cap, mustCall, conversation })
  const written = writeConversation(plan.byInstruction ? instructed(conversation) : conversation, {
    thoughts: !thinking.isOff && !(traits.bindsReasoning && isNarrowed(body, true)),
    urls: host === 'anthropic',
    prefill: traits.prefill,
  })
  const { tools, system, messages, isCut } = withFitMarks({ tools: plan.tools, ...written }, marks)
  const lost = lostIn(body).filter(name => name !== 'messages.content.anthropic')
  const dropped = [...droppedOf(body, CARRIED), ...lost, ...plan.dropped]
  if (thinking.isDropped) dropped.push('reasoning_effort')
  if (isCut) dropped.push('cache_control')
  const config = { ...(format ? { format } : {}), ...(thinking.effort ? { effort: thinking.effort } : {}) }
  return {
    body: {
      max_tokens: cap,
      ...systemOf(system),
      messages,
      ...(tools.length > 0 ? { tools } : {}),
      ...(choice ? { tool_choice: choice } : {}),
      ...(thinking.thinking ? { thinking: thinking.thinking } : {}),
      ...(Object.keys(config).length > 0 ? { output_config: config } : {}),
      ...sampling(body, traits, thinking.thinking !== null && !thinking.isOff, dropped),
      ...stopSequences(body, dropped),
      ...userOf(body, dropped),
      ...tierOf(body, host, dropped),
    },
    dropped,
  }
}

function instructed(conversation: Conversation): Conversation {
  return { ...conversation, markedSystem: [...conversation.markedSystem, { kind: 'text', text: JSON_INSTRUCTION }] }
}

/** A single text without a mark is sent as a string. */
function systemOf(blocks: readonly Block[]) {
  const [first] = blocks
  if (first === undefined) return {}
  return { system: blocks.length > 1 || first['cache_control'] !== undefined ? blocks : first['text'] }
}

/** Reasoning requires temperature 1 and a top_p of at least 0.95. Default values are not sent. */
function sampling(body: ChatRequest, traits: Traits, thinks: boolean, dropped: string[]) {
  const sent: { temperature?: number; top_p?: number; top_k?: number } = {}
  const temperature = numberOf(body, 'temperature')
  if (temperature !== undefined && temperature !== 1) {
    if (traits.sampling === 'none' || thinks) dropped.push('temperature')
    else {
      // The maximum is 1 here, and 2 at OpenAI.
      if (temperature > 1) dropped.push('temperature')
      sent.temperature = Math.min(temperature, 1)
    }
  }
  const topP = numberOf(body, 'top_p')
  if (topP !== undefined && topP !== 1) {
    const isExcluded = traits.sampling === 'either' && sent.temperature !== undefined
    if (traits.sampling === 'none' || isExcluded || (thinks && topP < 0.95)) dropped.push('top_p')
    else sent.top_p = topP
  }
  const topK = readTopK(body)
  if (topK !== undefined) {
    if (traits.sampling === 'none' || thinks) dropped.push('top_k')
    else sent.top_k = topK
  }
  return sent
}

/** The provider refuses stop sequences of white space only. */
function stopSequences(body: ChatRequest, dropped: string[]) {
  const all = readStop(body)
  const visible = all.filter(text => text.trim() !== '')
  if (visible.length < all.length) dropped.push('stop')
  return visible.length > 0 ? { stop_sequences: visible } : {}
}

/** The provider refuses longer ids, and those that look like an email address or a telephone number. */
const MAX_USER_LENGTH = 256
const PERSONAL = /\S@\S+\.\S|^\+[\d\s()-]{7,}$/

/** The provider has one field for the end user; `safety_identifier` is the newer of OpenAI's two. */
function userOf(body: ChatRequest, dropped: string[]) {
  const named = ['safety_identifier', 'user'].filter(name => typeof body[name] === 'string' && body[name] !== '')
  const fit = named.filter(name => {
    const value = body[name] as string
    return value.length <= MAX_USER_LENGTH && !PERSONAL.test(value)
  })
  dropped.push(...named.filter(name => name !== fit[0] && body[name] !== body[fit[0] ?? '']))
  return fit.length > 0 ? { metadata: { user_id: body[fit[0]!] } } : {}
}

function tierOf(body: ChatRequest, host: Host, dropped: string[]) {
  const tier = body['service_tier']
  if (tier == null || tier === 'auto') return {}
  if (tier !== 'default') dropped.push('service_tier')
  // The clouds have the default tier only.
  return tier === 'default' && host === 'anthropic' ? { service_tier: 'standard_only' } : {}
}
