/** The request: `generateContent` for a whole answer, `streamGenerateContent` for a stream. */
import { type Chat, type ChatRequest, type EncodedRequest, refuse, type Target } from '#contract'
import { lostIn, readConversation } from '../translate/conversation.ts'
import {
  droppedOf,
  numberOf,
  readEffort,
  readResponseFormat,
  readStop,
  readToolChoice,
  readTools,
  type Tool,
  type ToolChoice,
} from '../translate/parameters.ts'
import { type Content, contentsOf } from './contents.ts'
import { type Platform, type Traits, thinkingConfig, traitsOf } from './traits.ts'

/** Carried whatever the model; `n`, `modalities` and `web_search_options` are carried or refused. */
const CARRIED = [
  ...['n', 'temperature', 'top_p', 'seed', 'stop', 'response_format', 'modalities', 'web_search_options'],
  ...['tools', 'functions', 'tool_choice', 'function_call'],
]
const PENALTIES = ['presence_penalty', 'frequency_penalty']
/** Google's own limit for `candidateCount`. */
const MOST_CHOICES = 8

export function encodeRequest(chat: Chat, target: Target, platform: Platform): EncodedRequest {
  const { body } = chat
  refuseImpossible(chat)
  const model = target.model.slice(target.model.lastIndexOf('/') + 1)
  const traits = traitsOf(model)
  const { system, turns } = readConversation(body)
  const { contents, dropped } = contentsOf(turns, platform, traits.wantsSignatures)
  const tools = readTools(body)
  const wire = {
    ...conversationOf(system, contents),
    ...toolsOf(tools, readToolChoice(body)),
    generationConfig: configOf(chat, traits, platform),
  }
  const carried = [
    ...CARRIED,
    ...(traits.penalties.includes(platform) ? PENALTIES : []),
    ...(traits.thinking === null ? [] : ['reasoning_effort']),
  ]
  const strict = tools.some(tool => tool.strict) ? ['strict'] : []
  return {
    path: `/models/${encodeURIComponent(model)}${chat.stream ? ':streamGenerateContent?alt=sse' : ':generateContent'}`,
    headers: {
      accept: chat.stream ? 'text/event-stream' : 'application/json',
      'content-type': 'application/json',
    },
    body: bytesOf(wire),
    dropped: [...droppedOf(body, carried), ...lostIn(body), ...strict, ...dropped],
  }
}

/** What could only be left out by giving a wrong answer. */
function refuseImpossible({ body, choices, stream }: Chat): void {
  if (choices > 1 && stream) {
    const message = `'n' is ${choices}, but this model's provider streams one choice only. Leave out 'stream', or send n: 1.`
    throw refuse('unsupported_parameter', { message, param: 'n' })
  }
  if (choices > MOST_CHOICES) {
    const message = `Invalid value for 'n': ${choices} is more than the ${MOST_CHOICES} choices that this model's provider gives.`
    throw refuse('invalid_value', { message, param: 'n' })
  }
  const modalities = body['modalities'] as readonly string[] | null | undefined
  if (modalities?.includes('audio')) {
    const message = "'modalities' asks for audio, which this model's provider cannot give in this format."
    throw refuse('unsupported_parameter', { message, param: 'modalities' })
  }
  if (body['web_search_options'] != null) {
    const message = "'web_search_options' asks for a search, which the gateway cannot ask of this model's provider."
    throw refuse('unsupported_parameter', { message, param: 'web_search_options' })
  }
}

/** There must be a turn: a system text that stands alone becomes the user's. */
function conversationOf(system: readonly string[], contents: readonly Content[]): object {
  const parts = system.map(text => ({ text }))
  if (contents.length > 0) return { ...(parts.length > 0 ? { systemInstruction: { parts } } : {}), contents }
  if (parts.length > 0) return { contents: [{ role: 'user', parts }] }
  const message = "Invalid value for 'messages': there is no text in them, and this model's provider wants some."
  throw refuse('invalid_value', { message, param: 'messages' })
}

const MODES = { none: 'NONE', auto: 'AUTO', required: 'ANY' } as const

function toolsOf(tools: readonly Tool[], choice: ToolChoice | null): object {
  const names = choice?.names ?? null
  // Names go with ANY only. With AUTO, what is not declared is not called.
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
    toolConfig: { functionCallingConfig: { mode: MODES[choice.mode], ...some } },
  }
}

function configOf({ body, cap, choices }: Chat, traits: Traits, platform: Platform): object {
  const stop = readStop(body)
  const seed = numberOf(body, 'seed')
  const penalties = traits.penalties.includes(platform)
  const thinking = thinkingConfig(traits, readEffort(body), cap)
  return {
    // Thoughts are part of it.
    maxOutputTokens: cap,
    ...(choices > 1 ? { candidateCount: choices } : {}),
    ...given('temperature', numberOf(body, 'temperature')),
    ...given('topP', numberOf(body, 'top_p')),
    // 32 bits here, 64 there: what matters is that the same one stays the same.
    ...given('seed', seed === undefined ? undefined : seed | 0),
    ...(penalties ? given('presencePenalty', numberOf(body, 'presence_penalty')) : {}),
    ...(penalties ? given('frequencyPenalty', numberOf(body, 'frequency_penalty')) : {}),
    ...(stop.length > 0 ? { stopSequences: stop } : {}),
    ...formatOf(body),
    ...(thinking === null ? {} : { thinkingConfig: thinking }),
  }
}

function given(name: string, value: number | undefined): object {
  return value === undefined ? {} : { [name]: value }
}

function formatOf(body: ChatRequest): object {
  const format = readResponseFormat(body)
  if (format.kind === 'text') return {}
  const responseMimeType = 'application/json'
  return format.kind === 'json' ? { responseMimeType } : { responseMimeType, responseJsonSchema: format.schema }
}

/** Arguments of earlier calls are JSON inside of JSON, whose depth nobody has looked at before. */
function bytesOf(wire: object): Buffer {
  try {
    return Buffer.from(JSON.stringify(wire))
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    const message = "The arguments of a tool call in 'messages' are nested too deeply."
    throw refuse('request_too_complex', { message, param: 'messages' })
  }
}
