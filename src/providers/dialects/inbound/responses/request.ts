/** Converts the parameters of `POST /v1/responses` to a body of chat completions. */

import { type InboundView, refuse, takesSearch } from '#contract'
import { readInput } from './input.ts'
import type { ToolNames } from './names.ts'
import type { Places } from './places.ts'
import {
  type Fields,
  isFields,
  listOf,
  missing,
  notOneOf,
  optionalFieldsOf,
  optionalTextOf,
  unsupported,
  wrongType,
} from './read.ts'
import { type ReadTools, readToolChoice, readTools, SEARCH_ONLY } from './tools.ts'

export interface ReadRequest {
  /** The canonical body. */
  readonly body: Fields
  /** The client's own body, with the effort of its items, for the parameters that answers repeat. */
  readonly asked: Fields
  /** Its own items, if they are kept. */
  readonly items: readonly Fields[]
  /** Whether the answer is a summary of the conversation. */
  readonly compacts: boolean
  readonly places: Places
  readonly names: ToolNames
  /** Names of dropped parameters, which the client is informed of. */
  readonly dropped: readonly string[]
}

/** @param value the body, unchecked; throws a refusal with the client's own places */
export function readRequest(value: unknown, view: InboundView): ReadRequest {
  if (!isFields(value)) throw refuse('invalid_type', { message: 'The body must be a JSON object.' })
  refuseUnknown(value)
  refuseImpossible(value)
  checkUnused(value)
  if (value['input'] === undefined) throw missing('input')
  const instructions = optionalTextOf(value['instructions'], 'instructions')
  const { messages, places, toolLists, items, effort, unused, compacts } = readInput(value, instructions, view)
  const model = typeof value['model'] === 'string' ? view.findModel?.(value['model']) : undefined
  const lists = [{ tools: value['tools'] ?? [], place: 'tools' }, ...toolLists]
  const read = readTools(lists, model !== undefined && takesSearch(model, 'openai'))
  const { names, dropped } = read
  const requested = optionalFieldsOf(value['reasoning'], 'reasoning')
  const reasoning = effort ? { ...requested, effort: effort.value } : requested
  const body = {
    ...same(value),
    messages,
    ...renamed('max_completion_tokens', value['max_output_tokens']),
    ...streaming(value['stream']),
    ...(compacts ? uncallableTools(read) : toolSettings(read, value)),
    ...probabilities(value),
    ...textSettings(compacts ? null : optionalFieldsOf(value['text'], 'text')),
    ...thinking(reasoning),
  }
  const named = new Map([...dropped, ...unused])
  if (effort) named.set('reasoning_effort', effort.place)
  if (read.search) named.set('web_search_options', read.search.place)
  const clientPlaces = { messages: places, tools: read.places, named }
  const asked = effort ? { ...value, reasoning } : value
  return { body, asked, items, compacts, places: clientPlaces, names, dropped: [...dropped.keys(), ...unused.keys()] }
}

/** Parameters with the same name and meaning in both formats. */
const SAME = [
  'model',
  'temperature',
  'top_p',
  'service_tier',
  'user',
  'safety_identifier',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
]

/** Parameters that the gateway does not support, and why. */
const IMPOSSIBLE: Readonly<Record<string, string>> = {
  conversation: "This gateway stores no conversations: send the whole conversation in 'input'.",
  background: 'This gateway answers at once: leave it out or send false.',
  prompt: "This gateway stores no prompt templates: send 'instructions' and 'input'.",
  context_management: 'This gateway does not shorten conversations: the client decides what it sends.',
  moderation: 'This gateway does not moderate on request.',
  image: 'This gateway does not generate images on this route.',
  access_programs: 'This gateway has no access programs.',
}

/** Handled elsewhere in this file, or without effect here (see `checkUnused`). */
const OTHER_PARAMETERS = [
  'input',
  'previous_response_id',
  'instructions',
  'max_output_tokens',
  'stream',
  'stream_options',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'max_tool_calls',
  'top_logprobs',
  'include',
  'text',
  'reasoning',
  'store',
  'truncation',
  'metadata',
  'client_metadata',
]

const KNOWN: ReadonlySet<string> = new Set([...SAME, ...Object.keys(IMPOSSIBLE), ...OTHER_PARAMETERS])

/** Names in chat completions and other formats, and the names here. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['messages', 'input'],
  ['prompt_text', 'input'],
  ['system', 'instructions'],
  ['max_tokens', 'max_output_tokens'],
  ['max_completion_tokens', 'max_output_tokens'],
  ['response_format', 'text.format'],
  ['verbosity', 'text.verbosity'],
  ['reasoning_effort', 'reasoning.effort'],
  ['functions', 'tools'],
  ['function_call', 'tool_choice'],
  ['logprobs', 'top_logprobs'],
])

function refuseUnknown(asked: Fields): void {
  const name = Object.keys(asked).find(name => !KNOWN.has(name))
  if (name === undefined) return
  const param = /^[\w$-]{1,64}$/.test(name) ? name : `[${JSON.stringify(name.slice(0, 40))}]`
  const meant = ELSEWHERE.get(name)
  const hint = meant === undefined ? '' : ` Did you mean '${meant}'?`
  throw refuse('unknown_parameter', { message: `Unknown parameter: '${param}'.${hint}`, param })
}

function refuseImpossible(asked: Fields): void {
  for (const [name, why] of Object.entries(IMPOSSIBLE)) {
    const value = asked[name]
    const isEmpty = value == null || value === false || (Array.isArray(value) && value.length === 0)
    if (!isEmpty) throw unsupported(name, `Unsupported parameter: '${name}'. ${why}`)
  }
}

const INCLUDED = [
  'reasoning.encrypted_content',
  'message.output_text.logprobs',
  'message.input_image.image_url',
  'file_search_call.results',
  'web_search_call.results',
  'web_search_call.action.sources',
  'code_interpreter_call.outputs',
  'computer_call_output.output.image_url',
]

/**
 * Parameters that are accepted without an effect on the request. `store` is about the answer. `truncation` matters only for a
 * conversation that is too long, which is refused. `max_tool_calls` counts tools that providers run, which are dropped. `include` lists
 * members that are always present or belong to such tools. `client_metadata` is the client's own note.
 */
function checkUnused(asked: Fields): void {
  for (const name of ['store', 'parallel_tool_calls']) {
    const value = asked[name]
    if (value != null && typeof value !== 'boolean') throw wrongType(name, 'a boolean', value)
  }
  const truncation = optionalTextOf(asked['truncation'], 'truncation')
  if (truncation !== null && truncation !== 'auto' && truncation !== 'disabled') {
    throw notOneOf('truncation', truncation, ['auto', 'disabled'])
  }
  const most = asked['max_tool_calls']
  if (most != null && !Number.isInteger(most)) throw wrongType('max_tool_calls', 'an integer', most)
  for (const name of ['stream_options', 'client_metadata']) optionalFieldsOf(asked[name], name)
  for (const [key, value] of Object.entries(optionalFieldsOf(asked['metadata'], 'metadata') ?? {})) {
    if (typeof value !== 'string') throw wrongType(`metadata[${JSON.stringify(key.slice(0, 64))}]`, 'a string', value)
  }
  for (const [index, each] of (asked['include'] == null ? [] : listOf(asked['include'], 'include')).entries()) {
    if (!INCLUDED.includes(each as string)) throw notOneOf(`include[${index}]`, each, INCLUDED)
  }
}

function same(asked: Fields): Fields {
  return Object.fromEntries(SAME.filter(name => asked[name] != null).map(name => [name, asked[name]]))
}

function renamed(name: string, value: unknown): Fields {
  return value == null ? {} : { [name]: value }
}

function streaming(stream: unknown): Fields {
  if (stream === true) return { stream, stream_options: { include_usage: true } }
  return renamed('stream', stream)
}

/** Clients send tool settings without tools, but providers refuse them. */
function toolSettings(read: ReadTools, asked: Fields): Fields {
  const { tools, search } = read
  const choice = readToolChoice(asked['tool_choice'], read)
  if (choice === SEARCH_ONLY) return { web_search_options: search!.options }
  const searching = search === null || choice === 'none' ? {} : { web_search_options: search.options }
  if (tools.length === 0) {
    const isKept = choice === null || choice === 'none' || (search !== null && choice === 'required')
    return isKept ? searching : { tool_choice: choice }
  }
  return {
    tools,
    ...searching,
    ...renamed('tool_choice', choice),
    ...(asked['parallel_tool_calls'] === false ? { parallel_tool_calls: false } : {}),
  }
}

/** Providers require the tools beside earlier calls. */
const uncallableTools = ({ tools }: ReadTools): Fields => (tools.length === 0 ? {} : { tools, tool_choice: 'none' })

function probabilities({ top_logprobs: top, include }: Fields): Fields {
  const isIncluded = Array.isArray(include) && include.includes('message.output_text.logprobs')
  if (top == null || top === 0) return isIncluded ? { logprobs: true } : {}
  return { logprobs: true, top_logprobs: top }
}

function textSettings(text: Fields | null): Fields {
  if (!text) return {}
  const format = optionalFieldsOf(text['format'], 'text.format')
  return { ...renamed('verbosity', text['verbosity']), ...renamed('response_format', format && responseFormat(format)) }
}

/** Text is the default, and not every provider has a value for it. */
function responseFormat(format: Fields): Fields | null {
  if (format['type'] === 'text') return null
  if (format['type'] !== 'json_schema') return format
  const { type, name, description, schema, strict } = format
  return {
    type,
    json_schema: {
      ...renamed('name', name),
      ...renamed('description', description),
      ...renamed('schema', schema),
      ...renamed('strict', strict),
    },
  }
}

/** The form of a summary is up to the model: the client gets it if it asks for one. */
function thinking(reasoning: Fields | null): Fields {
  const mode = reasoning?.['mode']
  if (mode != null && mode !== 'standard') {
    const message = "Unsupported parameter: 'reasoning.mode'. This gateway supports the mode 'standard' only."
    throw unsupported('reasoning.mode', message)
  }
  return renamed('reasoning_effort', reasoning?.['effort'])
}
