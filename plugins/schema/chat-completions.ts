/**
 * The JSON Schema (2020-12) of a chat-completions request, with the limits of OpenAI's description 2.3.0. Intended differences:
 *
 * - each optional field may be null: clients send null, and api.openai.com accepts it
 * - unknown names are errors at the top level only: clients send back parts of answers with further fields
 * - `longest`, our own keyword, in place of `minLength` and `maxLength`: these count the characters of megabytes
 *
 * For a value of several kinds of object, `discriminator` chooses the kind by its tag, so that an error concerns that kind only.
 */
import { MAX_CHOICES } from '#contract'

type Schema = Readonly<Record<string, unknown>>

const string = { type: 'string' }
/** A string that is not empty. */
const text = { type: 'string', not: { const: '' } }
const boolean = { type: 'boolean' }
const object = { type: 'object' }
const integer = (minimum: number, maximum?: number): Schema => ({
  type: 'integer',
  minimum,
  ...(maximum === undefined ? {} : { maximum }),
})
const number = (minimum: number, maximum: number): Schema => ({ type: 'number', minimum, maximum })
const oneOf = (...values: string[]): Schema => ({ type: 'string', enum: values })
const list = (items: Schema, limits: Schema = {}): Schema => ({ type: 'array', items, ...limits })

/** An object with these members; those in `required` must exist. */
const members = (required: string, properties: Record<string, Schema>): Schema => ({
  type: 'object',
  required: required === '' ? [] : required.split(' '),
  properties,
})

/** The schema, or null. */
function optional(schema: Schema): Schema {
  const { type, enum: values, ...rest } = schema as { type: string | string[]; enum?: unknown[] }
  return { ...rest, type: [type, 'null'].flat(), ...(values ? { enum: [...values, null] } : {}) }
}

/** An object of one of several kinds, which the member `tag` distinguishes. */
const kinds = (tag: string, ...schemas: Schema[]): Schema => ({
  type: 'object',
  discriminator: { propertyName: tag },
  required: [tag],
  properties: { [tag]: {} },
  oneOf: schemas,
})

const tagged = (tag: string, value: string, required: string, properties: Record<string, Schema>): Schema =>
  members(`${tag}${required === '' ? '' : ` ${required}`}`, { [tag]: { const: value }, ...properties })

const typed = (type: string, required: string, properties: Record<string, Schema>): Schema =>
  tagged('type', type, required, properties)

/** One of the words, or an object of one of the kinds. */
const wordOr = (words: string[], { type: _object, ...rest }: Schema): Schema => ({
  ...rest,
  type: ['string', 'object', 'null'],
  if: string,
  then: { enum: words },
})

/** Anthropic's cache hint, which clients of OpenRouter and LiteLLM send in this format. No API accepts further members in it. */
const cache_control: Schema = {
  ...optional(typed('ephemeral', '', { ttl: optional(oneOf('5m', '1h')) })),
  additionalProperties: false,
}

const textPart = typed('text', 'text', { text: string, cache_control })
const refusalPart = typed('refusal', 'refusal', { refusal: string })
const imagePart: { readonly properties?: unknown } & Schema = typed('image_url', 'image_url', {
  image_url: members('url', { url: text, detail: optional(oneOf('auto', 'low', 'high', 'original')) }),
  cache_control,
})
const audioPart = typed('input_audio', 'input_audio', {
  input_audio: members('data format', { data: text, format: oneOf('wav', 'mp3') }),
  cache_control,
})
const filePart = typed('file', 'file', {
  file: members('', { filename: optional(string), file_data: optional(string), file_id: optional(string) }),
  cache_control,
})

/** A block of an earlier answer that only the Messages API has: the results of a web search. */
const anthropicPart = typed('anthropic', 'anthropic', {
  anthropic: members('type', {
    type: oneOf('server_tool_use', 'web_search_tool_result', 'thinking', 'redacted_thinking'),
  }),
  cache_control,
})

/** Text, or a list of parts of the kinds. */
const content = (least: number, ...parts: Schema[]): Schema => ({
  type: ['string', 'array'],
  items: kinds('type', ...parts),
  minItems: least,
})

const toolCall = kinds(
  'type',
  typed('function', 'id function', {
    id: string,
    function: members('name arguments', { name: string, arguments: string }),
    cache_control,
  }),
  typed('custom', 'id custom', { id: string, custom: members('name input', { name: string, input: string }) }),
)

const name = optional(string)
const message = kinds(
  'role',
  tagged('role', 'developer', 'content', { content: content(1, textPart), name }),
  tagged('role', 'system', 'content', { content: content(1, textPart), name }),
  tagged('role', 'user', 'content', { content: content(1, textPart, imagePart, audioPart, filePart), name }),
  // Clients send back empty answers too.
  tagged('role', 'assistant', '', {
    content: optional(content(0, textPart, refusalPart, anthropicPart)),
    refusal: optional(string),
    name,
    tool_calls: optional(list(toolCall)),
    function_call: optional(members('name arguments', { name: string, arguments: string })),
    audio: optional(members('id', { id: string })),
  }),
  tagged('role', 'tool', 'content tool_call_id', { content: content(1, textPart), tool_call_id: string }),
  tagged('role', 'function', 'content name', { content: optional(string), name: text }),
)

const functionMembers = { name: text, description: optional(string), parameters: optional(object) }
const functionTool = members('name', { ...functionMembers, strict: optional(boolean) })
const customTool = members('name', {
  name: text,
  description: optional(string),
  format: optional(
    kinds(
      'type',
      typed('text', '', {}),
      typed('grammar', 'grammar', {
        grammar: members('definition syntax', { definition: string, syntax: oneOf('lark', 'regex') }),
      }),
    ),
  ),
})
const tool = kinds(
  'type',
  typed('function', 'function', { function: functionTool, cache_control }),
  typed('custom', 'custom', { custom: customTool, cache_control }),
  typed('anthropic', 'anthropic', { anthropic: members('type name', { type: text, name: text }), cache_control }),
)
const named = members('name', { name: text })
/** `validated` is Gemini's: GitHub Copilot sends it with every model whose name begins with gemini. */
const toolChoice = wordOr(
  ['none', 'auto', 'required', 'validated'],
  kinds(
    'type',
    typed('function', 'function', { function: named }),
    typed('custom', 'custom', { custom: named }),
    typed('allowed_tools', 'allowed_tools', {
      allowed_tools: members('mode tools', { mode: oneOf('auto', 'required'), tools: list(object) }),
    }),
  ),
)

const responseFormat = kinds(
  'type',
  typed('text', '', {}),
  typed('json_object', '', {}),
  typed('json_schema', 'json_schema', {
    json_schema: members('name', {
      name: text,
      description: optional(string),
      schema: optional(object),
      strict: optional(boolean),
    }),
  }),
)

const effort = optional(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'))

/** All parameters, in the order of their validation. */
export const PARAMETERS: Readonly<Record<string, Schema>> = {
  model: text,
  messages: list(message, { minItems: 1 }),
  stream: optional(boolean),
  stream_options: optional(members('', { include_usage: optional(boolean), include_obfuscation: optional(boolean) })),
  max_completion_tokens: optional(integer(1)),
  max_tokens: optional(integer(1)),
  n: optional(integer(1, MAX_CHOICES)),
  temperature: optional(number(0, 2)),
  top_p: optional(number(0, 1)),
  // An extension of vLLM; -1 and 0 mean no limit.
  top_k: optional(integer(-1)),
  frequency_penalty: optional(number(-2, 2)),
  presence_penalty: optional(number(-2, 2)),
  stop: { type: ['string', 'array', 'null'], items: string, maxItems: 64 },
  seed: optional(integer(-(2 ** 63), 2 ** 63)),
  logit_bias: optional({ type: 'object', additionalProperties: number(-100, 100) }),
  logprobs: optional(boolean),
  top_logprobs: optional(integer(0, 20)),
  tools: optional(list(tool)),
  tool_choice: toolChoice,
  parallel_tool_calls: optional(boolean),
  functions: optional(list(members('name', functionMembers), { minItems: 1, maxItems: 128 })),
  function_call: wordOr(['none', 'auto'], named),
  response_format: optional(responseFormat),
  reasoning_effort: effort,
  verbosity: optional(oneOf('low', 'medium', 'high')),
  modalities: optional(list(oneOf('text', 'audio'))),
  audio: optional(
    members('voice format', {
      voice: { type: ['string', 'object'], required: ['id'], properties: { id: string } },
      format: oneOf('wav', 'aac', 'mp3', 'flac', 'opus', 'pcm16'),
    }),
  ),
  prediction: optional(typed('content', 'content', { content: content(1, textPart) })),
  web_search_options: optional(
    members('', {
      search_context_size: optional(oneOf('low', 'medium', 'high')),
      user_location: optional(typed('approximate', 'approximate', { approximate: object })),
    }),
  ),
  service_tier: optional(oneOf('auto', 'default', 'flex', 'scale', 'priority', 'fast')),
  metadata: optional({
    type: 'object',
    maxProperties: 16,
    propertyNames: { type: 'string', longest: 64 },
    additionalProperties: { type: 'string', longest: 512 },
  }),
  store: optional(boolean),
  moderation: optional(object),
  user: optional(string),
  safety_identifier: optional({ type: 'string', longest: 64 }),
  prompt_cache_key: optional(string),
  prompt_cache_options: optional(object),
  prompt_cache_retention: optional(oneOf('in_memory', 'in-memory', '24h')),
}

/** Parameters of OpenRouter, which `openrouter.ts` reads. With `unknown_fields: pass` the provider reads them. */
export const OPENROUTER: Readonly<Record<string, Schema>> = {
  reasoning: optional(
    members('', {
      effort,
      max_tokens: optional(integer(0)),
      enabled: optional(boolean),
      exclude: optional(boolean),
      summary: optional(string),
    }),
  ),
  usage: optional(members('', { include: optional(boolean) })),
  models: optional(list(string)),
  provider: optional(object),
  transforms: optional(list(string)),
  route: optional(string),
  plugins: optional(list(object)),
  include_reasoning: optional(boolean),
}

/** @param unknownFields the setting of this name */
export function chatCompletionsSchema(unknownFields: 'refuse' | 'pass'): Schema {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    required: ['model', 'messages'],
    properties: unknownFields === 'pass' ? PARAMETERS : { ...PARAMETERS, ...OPENROUTER },
    additionalProperties: unknownFields === 'pass',
  }
  return unknownFields === 'pass' ? (lenient(schema) as Schema) : schema
}

/**
 * The same schema for clients that use extensions of a provider. Unknown kinds of objects pass (part types, tools without a type), and so
 * do unknown words and forms. Known ones are still validated.
 */
function lenient(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(lenient)
  if (typeof schema !== 'object' || schema === null) return schema
  const inner = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, lenient(value)]))
  if (schema === PARAMETERS) for (const name of ['reasoning_effort', 'service_tier']) inner[name] = optional(string)
  if (schema === imagePart.properties)
    inner['image_url'] = { ...(inner['image_url'] as object), type: ['object', 'string'] }
  const { discriminator, oneOf: known } = schema as { discriminator?: { propertyName: string }; oneOf?: Schema[] }
  if (!discriminator || !known) return inner
  const tag = discriminator.propertyName
  const tags = known.map(kind => (kind['properties'] as Record<string, { const: string }>)[tag]!.const)
  const { if: _word, then: _words, type, ...rest } = inner
  return {
    type,
    if: { type: 'object', required: [tag], properties: { [tag]: { enum: tags } } },
    then: { ...rest, type: 'object' },
  }
}
