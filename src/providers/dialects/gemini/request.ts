/** Encodes a request: `generateContent` for a whole answer, `streamGenerateContent` for a stream. */
import { type Chat, type EncodedRequest, refuse, type Target } from '#contract'
import { bodyOf } from '../translate/body.ts'
import { lostIn, readConversation } from '../translate/conversation.ts'
import {
  checkChoice,
  droppedOf,
  numberOf,
  type ResponseFormat,
  readEffort,
  readResponseFormat,
  readStop,
  readToolChoice,
  readTools,
  readTopK,
  refuseImpossible,
  refuseManyStops,
  shapeRefusal,
  type Tool,
  type ToolChoice,
} from '../translate/parameters.ts'
import { type Content, checkNames, contentsOf } from './contents.ts'
import { schemaForGemini } from './schema.ts'
import { keepsEffort, type Platform, type Traits, thinkingConfig, traitsOf } from './traits.ts'

/** Sent for every model; `n`, `modalities` and `web_search_options` are sent or refused. */
const CARRIED = [
  ...['n', 'temperature', 'top_p', 'top_k', 'seed', 'stop', 'response_format', 'modalities', 'web_search_options'],
  ...['tools', 'functions', 'tool_choice', 'function_call'],
]
const PENALTIES = ['presence_penalty', 'frequency_penalty']
const MAX_CHOICES = 8
const MAX_STOPS = 5
/** URLs that each platform fetches; Vertex also supports Google's own storage. */
const FETCHED_URLS: Readonly<Record<Platform, RegExp>> = { studio: /^https?:\/\//i, vertex: /^(?:https?|gs):\/\//i }

export function encodeRequest(chat: Chat, target: Target, platform: Platform): EncodedRequest {
  const model = modelOf(target)
  const { wire, dropped } = encodeBody(chat, model, platform)
  const verb = chat.stream ? ':streamGenerateContent?alt=sse' : ':generateContent'
  return modelRequest(model, verb, wire, { isStream: chat.stream, dropped })
}

/**
 * CountTokens. The Gemini API takes a whole request as a member, with its model in it; Vertex AI takes some of its members.
 * https://ai.google.dev/api/tokens, https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens
 */
export function encodeCount(chat: Chat, target: Target, platform: Platform): EncodedRequest {
  const model = modelOf(target)
  const { wire } = encodeBody(chat, model, platform)
  const { toolConfig: _, ...onVertex } = wire
  const counted = platform === 'vertex' ? onVertex : { generateContentRequest: { model: `models/${model}`, ...wire } }
  return modelRequest(model, ':countTokens', counted, { isStream: false, dropped: [] })
}

/** The name without its folder. */
const modelOf = ({ model }: Target) => model.slice(model.lastIndexOf('/') + 1)

function modelRequest(
  model: string,
  verb: string,
  body: object,
  { isStream, dropped }: { readonly isStream: boolean; readonly dropped: readonly string[] },
): EncodedRequest {
  return {
    path: `/models/${encodeURIComponent(model)}${verb}`,
    headers: { accept: isStream ? 'text/event-stream' : 'application/json', 'content-type': 'application/json' },
    body: bodyOf(body),
    dropped,
  }
}

function encodeBody(chat: Chat, model: string, platform: Platform) {
  const { body } = chat
  refuseUnsupported(chat)
  const traits = traitsOf(model)
  const { system, turns } = readConversation(body, FETCHED_URLS[platform])
  const { contents, dropped } = contentsOf(turns, platform, traits.wantsSignatures)
  const tools = readTools(body)
  checkNames(tools)
  const { fields, format, lost } = planTools(tools, readToolChoice(body), readResponseFormat(body), traits)
  const lostKeywords: string[] = []
  const wire: Readonly<Record<string, unknown>> = {
    ...conversationOf(system, contents, traits),
    ...fields,
    generationConfig: { ...configOf(chat, traits, platform), ...formatOf(format, lostKeywords) },
  }
  const carried = [
    ...CARRIED,
    ...(traits.penalties.includes(platform) ? PENALTIES : []),
    ...(keepsEffort(traits, readEffort(body), chat) ? ['reasoning_effort'] : []),
  ]
  const strict = tools.some(tool => tool.strict) ? ['strict'] : []
  return {
    wire,
    dropped: [...droppedOf(body, carried), ...lostIn(body), ...strict, ...lost, ...lostKeywords, ...dropped],
  }
}

function refuseUnsupported(chat: Chat): void {
  const { choices, stream } = chat
  if (choices > 1 && stream) {
    const message = `'n' is ${choices}, but this model's provider streams one choice only. Leave out 'stream', or send n: 1.`
    throw refuse('unsupported_parameter', { message, param: 'n' })
  }
  if (choices > MAX_CHOICES) {
    const message = `Invalid value for 'n': ${choices} is above the maximum of ${MAX_CHOICES} choices for this model's provider.`
    throw refuse('invalid_value', { message, param: 'n' })
  }
  refuseManyStops(chat.body, MAX_STOPS)
  refuseImpossible(chat, MAX_CHOICES)
}

/** The user message before an assistant message that comes first. */
const OPENING = { text: '(The assistant begins.)' }

/**
 * The first turn must be the user's. It is a standard text, or the system's text if the model has no system instruction or the
 * conversation has only that.
 */
function conversationOf(system: readonly string[], contents: readonly Content[], traits: Traits): object {
  const parts = system.map(text => ({ text }))
  const isFolded = !traits.system || contents.length === 0
  const folded = isFolded ? parts : []
  const apart = isFolded || parts.length === 0 ? {} : { systemInstruction: { parts } }
  const [first, ...others] = contents
  if (first?.role === 'user') {
    return { ...apart, contents: [{ role: 'user', parts: [...folded, ...first.parts] }, ...others] }
  }
  const opening = folded.length > 0 ? folded : contents.length > 0 ? [OPENING] : []
  if (opening.length > 0) return { ...apart, contents: [{ role: 'user', parts: opening }, ...contents] }
  const message = "Invalid value for 'messages': the messages have no text. This model's provider requires text."
  throw refuse('invalid_value', { message, param: 'messages' })
}

const MODES = { none: 'NONE', auto: 'AUTO', required: 'ANY' } as const

interface ToolPlan {
  readonly fields: object
  /** The requested form of the answer. */
  readonly format: ResponseFormat
  readonly lost: readonly string[]
}

/** Throws a refusal for a choice of a missing tool, and for structured output beside tools that the model does not support. */
function planTools(
  tools: readonly Tool[],
  choice: ToolChoice | null,
  format: ResponseFormat,
  { shapesBesideTools }: Traits,
): ToolPlan {
  checkChoice(tools, choice)
  const isConflict = format.kind !== 'text' && !shapesBesideTools && tools.length > 0
  if (!isConflict) return { fields: toolsOf(tools, choice), format, lost: [] }
  // The tools are not sent, so none is called.
  if (choice?.mode === 'none') return { fields: {}, format, lost: [] }
  if (choice?.mode !== 'required') throw shapeRefusal()
  // The answer is a call, which has the tool's schema.
  return { fields: toolsOf(tools, choice), format: { kind: 'text' }, lost: ['response_format'] }
}

function toolsOf(tools: readonly Tool[], choice: ToolChoice | null): object {
  const names = choice?.names ?? null
  // Names are possible with ANY only. With AUTO, only the allowed tools are declared.
  const allowed = choice?.mode === 'auto' && names ? tools.filter(({ name }) => names.includes(name)) : tools
  if (allowed.length === 0) return {}
  const functionDeclarations = allowed.map(({ name, description, parameters }) => ({
    name,
    ...(description ? { description } : {}),
    parametersJsonSchema: parameters,
  }))
  if (choice === null) return { tools: [{ functionDeclarations }] }
  const some = choice.mode === 'required' && names ? { allowedFunctionNames: names } : {}
  return {
    tools: [{ functionDeclarations }],
    toolConfig: { functionCallingConfig: { mode: choice.isValidated ? 'VALIDATED' : MODES[choice.mode], ...some } },
  }
}

function configOf(chat: Chat, traits: Traits, platform: Platform): object {
  const { body, cap, choices } = chat
  const stop = readStop(body)
  const seed = numberOf(body, 'seed')
  const penalties = traits.penalties.includes(platform)
  const thinking = thinkingConfig(traits, readEffort(body), chat)
  return {
    // Includes reasoning.
    maxOutputTokens: cap,
    ...(choices > 1 ? { candidateCount: choices } : {}),
    ...given('temperature', numberOf(body, 'temperature')),
    ...given('topP', numberOf(body, 'top_p')),
    ...given('topK', readTopK(body)),
    // 32 bits here, 64 at OpenAI: the same seed must stay the same.
    ...given('seed', seed === undefined ? undefined : seed | 0),
    ...(penalties ? given('presencePenalty', numberOf(body, 'presence_penalty')) : {}),
    ...(penalties ? given('frequencyPenalty', numberOf(body, 'frequency_penalty')) : {}),
    ...(stop.length > 0 ? { stopSequences: stop } : {}),
    ...(thinking === null ? {} : { thinkingConfig: thinking }),
  }
}

function given(name: string, value: number | undefined): object {
  return value === undefined ? {} : { [name]: value }
}

function formatOf(format: ResponseFormat, lostKeywords: string[]): object {
  if (format.kind === 'text') return {}
  const responseMimeType = 'application/json'
  if (format.kind === 'json') return { responseMimeType }
  const { schema, lost } = schemaForGemini(format.schema)
  lostKeywords.push(...lost.map(keyword => `response_format.json_schema.schema.${keyword}`))
  return { responseMimeType, responseJsonSchema: schema }
}
