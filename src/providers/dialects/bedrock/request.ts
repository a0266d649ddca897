/** Encodes a request for Converse. */
import { type Chat, type ChatRequest, type EncodedRequest, refuse } from '#contract'
import { closedSchema } from '../anthropic/strict-schema.ts'
import { bodyOf } from '../translate/body.ts'
import { lostIn } from '../translate/conversation.ts'
import {
  answerSchema,
  checkChoice,
  choiceRefusal,
  droppedOf,
  grammarRefusal,
  isNarrowed,
  JSON_INSTRUCTION,
  numberOf,
  type ResponseFormat,
  readEffort,
  readResponseFormat,
  readStop,
  readToolChoice,
  readTools,
  readTopK,
  refuseImpossible,
  type Tool,
  type ToolChoice,
} from '../translate/parameters.ts'
import { hasGrammar, objectSchema, schemaForClaude } from '../translate/tool-schema.ts'
import { type Block, cachePoint, withFitMarks } from './cache.ts'
import { encodeMessages, type Messages } from './messages.ts'
import { encodeReasoning, type ReasoningFields } from './reasoning.ts'
import { type Traits, traitsOf } from './traits.ts'

/**
 * A tool whose arguments are the answer, for models that support schemas in no other way. Answers are recognized by its name, so that
 * decoding does not depend on the request.
 */
export const ANSWER_TOOL = 'tollgate_structured_answer'

export interface ConverseBody {
  readonly body: Readonly<Record<string, unknown>>
  readonly dropped: readonly string[]
}

/** Throws a refusal if the answer would be wrong. */
export function encodeBody(chat: Chat, model: string): ConverseBody {
  const { body } = chat
  refuseImpossible(chat)
  const traits = traitsOf(model)
  const lost = new Set<string>()
  const dropsReasoning = traits.bindsReasoning && isNarrowed(body, false)
  const messages = encodeMessages(body, dropsReasoning ? { ...traits, takesReasoning: false } : traits)
  const format = schemaFor(readResponseFormat(body), traits, model)
  const tools = encodeTools(body, traits, messages, format, lost)
  const thinking = encodeReasoning(readEffort(body), traits, {
    cap: chat.cap,
    forced: tools.forced,
    prefilled: messages.prefilled,
    lostThought: messages.lostThought,
  })
  if (!thinking.kept) lost.add('reasoning_effort')
  const fit = withFitMarks({ tools: tools.config?.tools ?? [], ...messages })
  if (fit.isCut) lost.add('cache_control')
  const system = [...fit.system]
  if (format.kind === 'json') {
    system.push({ text: JSON_INSTRUCTION })
    lost.add('response_format')
  }
  const additional = { ...thinking.fields, ...topK(body, traits, thinking, lost) }
  const sent = {
    ...messagesWith(system, fit.messages, traits),
    inferenceConfig: inferenceConfig(chat, traits, thinking, lost),
    ...(tools.config ? { toolConfig: { ...tools.config, tools: fit.tools } } : {}),
    ...(format.kind === 'schema' && schemaModeOf(format, traits) === 'native'
      ? { outputConfig: outputConfig(format, traits, lost) }
      : {}),
    ...(Object.keys(additional).length > 0 ? { additionalModelRequestFields: additional } : {}),
    ...requestMetadata(body, lost),
    ...serviceTier(body, lost),
  }
  return {
    body: sent,
    dropped: [
      ...droppedOf(
        body,
        CARRIED.filter(name => !lost.has(name)),
      ),
      ...lostIn(body),
      ...nestedLosses(lost),
    ],
  }
}

/** Parameters that are handled here. Those that this request loses are reported anyway. */
const CARRIED: readonly string[] = [
  'temperature',
  'top_p',
  'top_k',
  'stop',
  'tools',
  'tool_choice',
  'functions',
  'function_call',
  'response_format',
  'reasoning_effort',
  'metadata',
  'service_tier',
  'modalities',
  'web_search_options',
]

/** Losses inside a parameter that is itself sent. */
const nestedLosses = (lost: ReadonlySet<string>) =>
  [...lost].filter(name => name.includes('.') || name === 'cache_control')

/** For a model without system messages, the gateway's own instruction goes into the first message. */
function messagesWith(system: readonly Block[], messages: Messages['messages'], traits: Traits) {
  if (system.length === 0) return { messages }
  if (traits.system) return { messages, system }
  const [first, ...others] = messages
  return { messages: [{ ...first, content: [...system, ...first!.content] }, ...others] }
}

/** The cap is always sent. */
function inferenceConfig({ body, cap }: Chat, traits: Traits, thinking: ReasoningFields, lost: Set<string>) {
  const stop = readStop(body)
  const stopSequences = traits.solidStops ? stop.filter(text => text.trim() !== '') : stop
  if (stopSequences.length < stop.length) lost.add('stop')
  return {
    maxTokens: cap,
    ...sampling(body, traits, thinking, lost),
    ...(stopSequences.length > 0 ? { stopSequences } : {}),
  }
}

function sampling(body: ChatRequest, traits: Traits, thinking: ReasoningFields, lost: Set<string>) {
  const temperature = nonDefaultNumber(body, 'temperature')
  const topP = nonDefaultNumber(body, 'top_p')
  const free = traits.sampling !== 'neither' && !thinking.fixesSampling
  const takesTopP = free && !(traits.sampling === 'one' && temperature !== undefined)
  // The maximum is 1.
  if (temperature !== undefined && (!free || temperature > 1)) lost.add('temperature')
  if (topP !== undefined && !takesTopP) lost.add('top_p')
  return {
    ...(temperature !== undefined && free ? { temperature: Math.min(temperature, 1) } : {}),
    ...(topP !== undefined && takesTopP ? { topP } : {}),
  }
}

/** Claude's parameter; Converse itself does not have it. */
function topK(body: ChatRequest, traits: Traits, { fixesSampling }: ReasoningFields, lost: Set<string>) {
  const value = readTopK(body)
  if (value === undefined) return {}
  if (traits.topK && traits.sampling !== 'neither' && !fixesSampling) return { top_k: value }
  lost.add('top_k')
  return {}
}

/** A number that differs from the default, which is 1 for both. */
function nonDefaultNumber(body: ChatRequest, name: string): number | undefined {
  const value = numberOf(body, name)
  return value === 1 ? undefined : value
}

/** Whether the model gets this schema natively or as a tool. */
function schemaModeOf({ schema }: Schema, traits: Traits): Traits['schema'] {
  if (traits.schema !== 'native' || !traits.closedSchemas || hasGrammar(schema)) return traits.schema
  if (!traits.forcedChoice) throw grammarRefusal()
  return 'tool'
}

function schemaFor(format: ResponseFormat, traits: Traits, model: string): ResponseFormat {
  if (format.kind !== 'schema' || traits.schema !== 'none') return format
  const message = `'response_format' asks for an answer by a JSON Schema, which '${model}' does not support.`
  throw refuse('unsupported_parameter', { message, param: 'response_format' })
}

function outputConfig({ name, schema }: Schema, traits: Traits, lost: Set<string>) {
  const sent = strictSchema(schema, 'response_format.json_schema.schema', traits, lost)
  const structure = { jsonSchema: { name, schema: JSON.stringify(sent) } }
  return { textFormat: { type: 'json_schema', structure } }
}

type Schema = Extract<ResponseFormat, { kind: 'schema' }>

/** A schema for strict use; removed keywords are reported as lost. */
function strictSchema(schema: Tool['parameters'], place: string, traits: Traits, lost: Set<string>) {
  if (!traits.closedSchemas) return schema
  const closed = closedSchema(schema)
  for (const keyword of closed.lost) lost.add(`${place}.${keyword}`)
  return closed.schema
}

interface ToolPart {
  readonly config: { readonly tools: readonly Block[]; readonly toolChoice?: Block } | null
  /** Whether the model must call a tool. */
  readonly forced: boolean
}

function encodeTools(
  body: ChatRequest,
  traits: Traits,
  { called }: Messages,
  format: ResponseFormat,
  lost: Set<string>,
): ToolPart {
  const choice: ToolChoice = readToolChoice(body) ?? { mode: 'auto', names: null }
  const all = readTools(body)
  checkNames(all)
  const offered = choice.mode === 'none' ? [] : narrowed(all, choice, traits)
  const specs = offered.flatMap((tool, index) => toolBlocks(tool, index, traits, lost))
  if (format.kind === 'schema' && schemaModeOf(format, traits) === 'tool') {
    return {
      config: { tools: [...specs, answerTool(format, specs.length, traits)], toolChoice: { any: {} } },
      forced: true,
    }
  }
  if (specs.length === 0) {
    if (called.length === 0) return { config: null, forced: false }
    // Converse refuses calls in the conversation without tools. Forbidding another call is possible only in their description.
    if (choice.mode === 'none' && all.length > 0) lost.add('tool_choice')
    return { config: { tools: called.map(retiredTool) }, forced: false }
  }
  const forced = choice.mode === 'required'
  return { config: { tools: specs, ...(forced ? { toolChoice: toolChoice(choice, offered) } : {}) }, forced }
}

/** The tools that the model may call: all, or those that the client allows. */
function narrowed(tools: readonly Tool[], { mode, names }: ToolChoice, traits: Traits): readonly Tool[] {
  checkChoice(tools, { mode, names })
  if (mode === 'required' && !traits.forcedChoice) throw choiceRefusal()
  if (names === null) return tools
  if (mode === 'required' && names.length === 1 && traits.namedChoice) return tools
  return tools.filter(tool => names.includes(tool.name))
}

/** `auto` is never sent: it is the default, and some models refuse it. */
function toolChoice({ names }: ToolChoice, offered: readonly Tool[]) {
  const isOneOfMany = names?.length === 1 && offered.length > 1
  return isOneOfMany ? { tool: { name: names[0] } } : { any: {} }
}

/** A tool, followed by its mark. */
function toolBlocks(tool: Tool, index: number, traits: Traits, lost: Set<string>): Block[] {
  const marks = traits.caching === 'prompt and tools' ? cachePoint(tool.cache, traits) : []
  return [toolSpec(tool, index, traits, lost), ...marks]
}

/** Converse requires an object. Claude has further requirements. */
const fitting = (schema: Tool['parameters'], index: number, { closedSchemas }: Traits) =>
  closedSchemas ? schemaForClaude(schema, index) : objectSchema(schema)

function toolSpec(tool: Tool, index: number, traits: Traits, lost: Set<string>) {
  const { name, description, strict } = tool
  const { schema, lost: keywords } = fitting(tool.parameters, index, traits)
  for (const keyword of keywords) lost.add(`tools.function.parameters.${keyword}`)
  const isEnforced = !traits.closedSchemas || (keywords.length === 0 && hasGrammar(schema))
  const isStrict = strict && traits.schema === 'native' && isEnforced
  if (strict && !isStrict) lost.add('tools.function.strict')
  return {
    toolSpec: {
      name,
      ...(description?.trim() ? { description } : {}),
      inputSchema: {
        json: isStrict ? strictSchema(schema, 'tools.function.parameters', traits, lost) : schema,
      },
      ...(isStrict ? { strict: true } : {}),
    },
  }
}

function answerTool({ name, schema }: Schema, index: number, traits: Traits) {
  const description = `Gives the final answer (${name}). Call it as soon as the answer is known, and only once.`
  return {
    toolSpec: {
      name: ANSWER_TOOL,
      description,
      inputSchema: { json: fitting(answerSchema(schema), index, traits).schema },
    },
  }
}

function retiredTool(name: string) {
  const description = 'No longer available: do not call it.'
  return { toolSpec: { name, description, inputSchema: { json: { type: 'object', properties: {} } } } }
}

function checkNames(tools: readonly Tool[]): void {
  for (const [index, { name }] of tools.entries()) {
    const rule =
      name === ANSWER_TOOL ? 'the gateway reserves this name' : /^[A-Za-z0-9_-]{1,64}$/.test(name) ? null : NAMES
    if (rule === null) continue
    const shown = JSON.stringify(name.length > 80 ? `${name.slice(0, 80)}…` : name)
    const message = `Invalid value for 'tools[${index}].function.name': ${shown}: ${rule}.`
    throw refuse('invalid_value', { message, param: `tools[${index}].function.name` })
  }
}

const NAMES = "a name must have 1 to 64 letters, digits, '_' and '-' for this model's provider"

/** AWS logs the metadata with the call: up to 16 entries of at most 256 plain characters. */
function requestMetadata(body: ChatRequest, lost: Set<string>) {
  const metadata = body['metadata'] as Readonly<Record<string, string>> | null | undefined
  if (!metadata || Object.keys(metadata).length === 0) return {}
  const fits = Object.entries(metadata).every(([name, value]) => name !== '' && PLAIN.test(name) && PLAIN.test(value))
  if (!fits) lost.add('metadata')
  return fits ? { requestMetadata: metadata } : {}
}

const PLAIN = /^[a-zA-Z0-9\s:_@$#=/+,.-]{0,256}$/

function serviceTier(body: ChatRequest, lost: Set<string>) {
  const tier = body['service_tier']
  if (tier === 'default' || tier === 'flex' || tier === 'priority') return { serviceTier: { type: tier } }
  lost.add('service_tier')
  return {}
}

/** A request to one model. The path contains its id, percent-encoded including the last colon. */
export function modelRequest(
  { stream }: Pick<Chat, 'stream'>,
  model: string,
  verb: string,
  body: Readonly<Record<string, unknown>>,
  dropped: readonly string[],
): EncodedRequest {
  return {
    path: `/model/${encodeURIComponent(model)}/${verb}`,
    headers: { accept: stream ? 'application/vnd.amazon.eventstream' : 'application/json' },
    body: bodyOf(body),
    dropped,
  }
}
