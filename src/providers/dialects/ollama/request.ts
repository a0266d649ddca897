/** Encodes a chat request for Ollama. */
import { type Chat, type ChatRequest, type EncodedRequest, refuse, type Target } from '#contract'
import { bodyOf } from '../translate/body.ts'
import { lostIn, readConversation } from '../translate/conversation.ts'
import {
  checkChoice,
  droppedOf,
  numberOf,
  readEffort,
  readResponseFormat,
  readStop,
  readToolChoice,
  readTools,
  refuseImpossible,
  type Tool,
  type ToolChoice,
} from '../translate/parameters.ts'
import { objectSchema } from '../translate/tool-schema.ts'
import { messagesOf } from './messages.ts'
import { keepsEffort, reasoningControlOf, thinkValue } from './traits.ts'

/** Parameters that have the same name in `options`. */
const OPTIONS = ['temperature', 'top_p', 'top_k', 'seed', 'presence_penalty', 'frequency_penalty']
/** Parameters that are sent, refused, or reported as lost below. */
const CARRIED = [
  ...OPTIONS,
  ...['n', 'stop', 'tools', 'functions', 'tool_choice', 'function_call', 'response_format', 'reasoning_effort'],
  ...['modalities', 'web_search_options'],
]

/** Throws a refusal if the answer would be wrong. */
export function encodeRequest(chat: Chat, target: Target): EncodedRequest {
  const { body, stream } = chat
  refuseImpossible(chat)
  const { messages, dropped: lostParts } = messagesOf(readConversation(body, undefined, null, true))
  const tools = offered(readTools(body), readToolChoice(body))
  const thinking = reasoningControlOf(target.model)
  const effort = readEffort(body)
  const think = thinkValue(thinking, effort)
  const dropped = [...droppedOf(body, CARRIED), ...lostIn(body), ...lostParts]
  if (tools.some(({ strict }) => strict)) dropped.push('tools.function.strict')
  if (!keepsEffort(thinking, effort)) dropped.push('reasoning_effort')
  const wire = {
    model: target.model,
    messages,
    // Always sent, because the default is a stream.
    stream,
    // A conversation that is too long is an error; otherwise it would be cut silently.
    truncate: false,
    shift: false,
    ...(tools.length > 0 ? { tools: tools.map(tool => writeTool(tool, dropped)) } : {}),
    ...formatOf(body),
    ...(think === undefined ? {} : { think }),
    options: optionsOf(chat),
  }
  return {
    path: '/api/chat',
    headers: { accept: stream ? 'application/x-ndjson' : 'application/json', 'content-type': 'application/json' },
    body: bodyOf(wire),
    dropped: [...new Set(dropped)],
  }
}

/** The tools that may be called. Omitting the others is the only form of a choice. */
function offered(tools: readonly Tool[], choice: ToolChoice | null): readonly Tool[] {
  if (choice === null) return tools
  if (choice.mode === 'none') return []
  if (choice.mode === 'required') {
    const message = "'tool_choice' forces a call, which this model's provider does not support. Use 'auto' or 'none'."
    throw refuse('unsupported_parameter', { message, param: 'tool_choice' })
  }
  checkChoice(tools, choice)
  const { names } = choice
  if (names === null) return tools
  return tools.filter(({ name }) => names.includes(name))
}

function writeTool({ name, description, parameters }: Tool, dropped: string[]) {
  const { schema, lost } = objectSchema(parameters)
  const { properties, replaced } = withoutBooleans(schema['properties'])
  for (const keyword of [...lost, ...replaced]) dropped.push(`tools.function.parameters.${keyword}`)
  const written = replaced.length > 0 ? { ...schema, properties } : schema
  return { type: 'function', function: { name, ...(description ? { description } : {}), parameters: written } }
}

/** The server accepts only an object for each property, where JSON Schema also has `true` and `false`. */
function withoutBooleans(properties: unknown) {
  const entries = Object.entries(properties ?? {})
  const replaced = entries.filter(([, schema]) => typeof schema === 'boolean').map(([name]) => `properties.${name}`)
  const written = entries.map(([name, schema]) => [
    name,
    schema === true ? {} : schema === false ? { not: {} } : schema,
  ])
  return { properties: Object.fromEntries(written), replaced }
}

function formatOf(body: ChatRequest) {
  const format = readResponseFormat(body)
  if (format.kind === 'text') return {}
  return { format: format.kind === 'json' ? 'json' : format.schema }
}

function optionsOf({ body, cap }: Chat) {
  const stop = readStop(body)
  const same = OPTIONS.flatMap(name => {
    const value = numberOf(body, name)
    return value === undefined ? [] : [[name, value] as const]
  })
  // The cap includes reasoning.
  return { num_predict: cap, ...Object.fromEntries(same), ...(stop.length > 0 ? { stop } : {}) }
}
