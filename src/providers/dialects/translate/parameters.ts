/** Reads the canonical parameters for other formats: old and new names as one, with defaults. */
import { type AnthropicTool, anthropicToolIn, type Chat, type ChatRequest, refuse } from '#contract'
import { wholeOf } from './as-sent.ts'
import { type CacheMark, cacheMarkOf, markedWith } from './cache.ts'
import { functionFor, type WireCustomTool } from './custom-tools.ts'
import { allowsObject } from './tool-schema.ts'

export interface Tool {
  readonly name: string
  readonly description: string | null
  /** JSON Schema of the arguments; an object without properties if the client sent none. */
  readonly parameters: Readonly<Record<string, unknown>>
  readonly strict: boolean
  /** Additional fields of the Messages API. */
  readonly whole?: Readonly<Record<string, unknown>>
  /** A cache mark after this tool. */
  readonly cache?: CacheMark
  /** Anthropic's own declaration, which replaces the other members except the name. */
  readonly native?: AnthropicTool
}

/** `names` has one name for a named choice, several for `allowed_tools`. */
export interface ToolChoice {
  readonly mode: 'none' | 'auto' | 'required'
  /** If not null, only these may be called. */
  readonly names: readonly string[] | null
  /** Gemini's mode VALIDATED: arguments follow the schemas. At other providers it is `auto`. */
  readonly isValidated?: true
}

export type ResponseFormat =
  | { readonly kind: 'text' }
  | { readonly kind: 'json' }
  | { readonly kind: 'schema'; readonly name: string; readonly schema: Readonly<Record<string, unknown>> }

export type Effort = 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'

interface WireFunction {
  readonly name: string
  readonly description?: string | null
  readonly parameters?: Readonly<Record<string, unknown>> | null
  readonly strict?: boolean | null
}

interface WireTool {
  readonly type?: string
  readonly function?: WireFunction
  readonly custom?: WireCustomTool
}

const NO_ARGUMENTS = { type: 'object', properties: {} } as const

/**
 * Refuses parameters that change the answer and that the provider does not support.
 * @param mostChoices maximum number of choices of the provider
 */
export function refuseImpossible({ body, choices }: Chat, mostChoices = 1): void {
  if (choices > mostChoices) {
    const most = mostChoices === 1 ? 'one choice' : `${mostChoices} choices`
    const message = `This model's provider returns ${most} an answer, but 'n' is ${choices}.`
    throw refuse('unsupported_parameter', { message, param: 'n' })
  }
  const modalities = body['modalities']
  if (Array.isArray(modalities) && modalities.includes('audio')) {
    const message = "'modalities' asks for audio, which this model's provider does not produce."
    throw refuse('unsupported_parameter', { message, param: 'modalities' })
  }
  if (body['web_search_options'] != null) {
    const message = "'web_search_options' asks for a web search, which this model's provider does not support."
    throw refuse('unsupported_parameter', { message, param: 'web_search_options' })
  }
}

/** Throws a refusal for a choice of missing tools. */
export function checkChoice(tools: readonly Tool[], choice: ToolChoice | null): void {
  const wrong = (what: string) => refuse('invalid_value', { message: `'tool_choice' ${what}.`, param: 'tool_choice' })
  if (choice?.mode === 'required' && tools.length === 0) throw wrong('asks for a call, but there are no tools')
  const names = choice?.names ?? null
  if (names === null) return
  const unknown = names.find(name => !tools.some(tool => tool.name === name))
  if (unknown !== undefined) throw wrong(`names '${unknown}', which is not among the tools`)
  if (names.length === 0) throw wrong('allows no tool')
}

/** The refusal for models that cannot be forced to call a tool. */
export function choiceRefusal() {
  const message = "'tool_choice' forces a call, which this model does not support."
  return refuse('unsupported_parameter', { message, param: 'tool_choice' })
}

/** The instruction for models without a JSON mode. */
export const JSON_INSTRUCTION = 'Answer with one JSON object and nothing else: no words around it and no code fence.'

/** The refusal for models that support structured output or tools, but not both. */
export function shapeRefusal() {
  const message =
    "'response_format' asks for JSON beside 'tools', which this model's provider does not support. Leave one of them out, or set 'tool_choice' to 'none' or 'required'."
  return refuse('unsupported_parameter', { message, param: 'response_format' })
}

/** The refusal for models that need a schema without recursion and cannot be forced to call a tool instead. */
export function grammarRefusal() {
  const param = 'response_format.json_schema.schema'
  const message = `${param} refers to itself or to another document, which this model does not support.`
  return refuse('unsupported_parameter', { message, param })
}

/** The schema of an answer that must be an object, such as the arguments of a call. Throws a refusal if it allows no object. */
export function answerSchema(schema: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  if (allowsObject(schema)) return schema
  const param = `response_format.json_schema.schema${schema['type'] === undefined ? '' : '.type'}`
  throw refuse('unsupported_parameter', { message: `${param}: this model answers with objects only.`, param })
}

/** The refusal for models that do not continue an assistant message. @param place of the last message */
export function prefillRefusal(place: string) {
  const message = `${place} is an assistant message at the end: this model does not continue it. End with a user message.`
  return refuse('unsupported_parameter', { message, param: place })
}

/**
 * Reads `tools`, or the older `functions`. Throws a refusal for a tool that is neither a function nor a custom tool.
 * @param takesNative whether the provider supports the tools that Anthropic defines
 */
export function readTools(body: ChatRequest, takesNative = false): Tool[] {
  const tools = (body.tools ?? []) as readonly WireTool[]
  const offered = tools.map((tool, index) => {
    if (tool.function) {
      const whole = takesNative ? wholeOf(tool, 'tool') : undefined
      return { ...toolOf(tool.function, cacheMarkOf(tool)), ...(whole && { whole: whole.fields }) }
    }
    if (tool.custom) return toolOf(functionFor(tool.custom), cacheMarkOf(tool))
    const native = anthropicToolIn(tool)
    if (native === null || !takesNative) throw toolRefusal(tool.type, native, index)
    // Marks are counted separately, so the tool must not have its own.
    const { cache_control: _, ...unmarked } = native
    return { ...toolOf(native, cacheMarkOf(tool)), native: unmarked }
  })
  return [...offered, ...((body['functions'] ?? []) as WireFunction[]).map(described => toolOf(described, undefined))]
}

function toolOf({ name, description, parameters, strict }: WireFunction, cache: CacheMark | undefined): Tool {
  return {
    name,
    description: description ?? null,
    parameters: parameters && Object.keys(parameters).length > 0 ? parameters : NO_ARGUMENTS,
    strict: strict === true,
    ...markedWith(cache),
  }
}

/** The refusal for a type of tool that the provider does not support. */
export function toolRefusal(type: string | undefined, native: AnthropicTool | null, index: number) {
  const message = `tools[${index}] has the type '${native?.type ?? type}', which this model's provider does not support.`
  return refuse('unsupported_parameter', { message, param: `tools[${index}].type` })
}

/**
 * Whether the model would not get the tools that it had when it reasoned: the choice omits some, or the client has none any
 * more.
 * @param seesAll whether the provider gets the tools even if none may be called
 */
export function isNarrowed(body: ChatRequest, seesAll: boolean): boolean {
  const { tools, messages } = body
  const offered = tools?.length ?? 0
  if (offered === 0) return messages.some(({ tool_calls: calls }) => Array.isArray(calls) && calls.length > 0)
  const choice = readToolChoice(body)
  if (choice?.mode === 'none') return !seesAll
  return choice?.names != null && new Set(choice.names).size < offered
}

/** `tool_choice`, or the older `function_call`; null if the client sent neither. */
export function readToolChoice(body: ChatRequest): ToolChoice | null {
  const choice = body['tool_choice'] ?? body['function_call']
  if (choice == null) return null
  if (choice === 'validated') return { mode: 'auto', names: null, isValidated: true }
  if (typeof choice === 'string') return { mode: choice as ToolChoice['mode'], names: null }
  const { name, allowed_tools: allowed } = choice as {
    readonly name?: string
    readonly allowed_tools?: { readonly mode: 'auto' | 'required'; readonly tools: readonly NamedTool[] }
  }
  if (allowed) return { mode: allowed.mode, names: allowed.tools.flatMap(tool => nameOf(tool) ?? []) }
  return { mode: 'required', names: [(nameOf(choice) ?? name)!] }
}

interface NamedTool {
  readonly function?: { readonly name: string }
  readonly custom?: { readonly name: string }
}

const nameOf = ({ function: called, custom }: NamedTool): string | undefined => (called ?? custom)?.name

export function readResponseFormat(body: ChatRequest): ResponseFormat {
  const format = body['response_format'] as
    | {
        readonly type: string
        readonly json_schema?: { readonly name: string; readonly schema?: Record<string, unknown> }
      }
    | null
    | undefined
  if (format?.type === 'json_schema' && format.json_schema) {
    return { kind: 'schema', name: format.json_schema.name, schema: format.json_schema.schema ?? { type: 'object' } }
  }
  return { kind: format?.type === 'json_object' ? 'json' : 'text' }
}

/** `stop` as a list, without empty texts. */
export function readStop(body: ChatRequest): string[] {
  const stop = body['stop'] as string | readonly string[] | null | undefined
  return (typeof stop === 'string' ? [stop] : [...(stop ?? [])]).filter(text => text !== '')
}

/** Refuses more stop sequences than the provider supports. */
export function refuseManyStops({ stop }: ChatRequest, most: number): void {
  if (!Array.isArray(stop) || stop.length <= most) return
  const message = `'stop' has ${stop.length} items, but the maximum is ${most} for this model's provider.`
  throw refuse('unsupported_parameter', { message, param: 'stop' })
}

export function readEffort(body: ChatRequest): Effort | null {
  return (body.reasoning_effort ?? null) as Effort | null
}

export function numberOf(body: ChatRequest, name: string): number | undefined {
  const value = body[name]
  return typeof value === 'number' ? value : undefined
}

/** `top_k`, or undefined if it sets no limit: providers that require a positive number have no value for that. */
export function readTopK(body: ChatRequest): number | undefined {
  const value = numberOf(body, 'top_k')
  return value !== undefined && value > 0 ? value : undefined
}

/** Handled by the gateway itself, or without effect upstream: never reported as dropped. */
const OURS = [
  ...['model', 'messages', 'stream', 'stream_options', 'max_tokens', 'max_completion_tokens'],
  // Hints for a cache, which have no visible effect.
  ...['prompt_cache_key', 'prompt_cache_options', 'prompt_cache_retention'],
]
/** Values that equal the default. */
const DEFAULTS: Readonly<Record<string, unknown>> = {
  n: 1,
  logprobs: false,
  presence_penalty: 0,
  frequency_penalty: 0,
  store: false,
  service_tier: 'auto',
  parallel_tool_calls: true,
}

/** Names of parameters that the client sent and this dialect does not support, so that none is dropped silently. */
export function droppedOf(body: ChatRequest, carried: Iterable<string>): string[] {
  const known = new Set([...OURS, ...carried])
  return Object.keys(body).filter(name => {
    const value = body[name]
    if (known.has(name) || value === null || value === undefined) return false
    if (Array.isArray(value) && value.length === 0) return false
    return !(Object.hasOwn(DEFAULTS, name) && DEFAULTS[name] === value)
  })
}
