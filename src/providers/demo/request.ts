/** Parses a chat-completions body, and refuses what api.openai.com refuses. Unknown fields are ignored: the policy checks those. */
import { hash } from 'node:crypto'
import { DemoRefusal, unsupported, wrongType, wrongValue } from './refusal.ts'
import { countTokens } from './tokens.ts'

export interface DemoTool {
  readonly name: string
  readonly description: string
  readonly parameters: unknown
}

/** Which tools may or must be called. `required` with one tool is a call by name. */
export interface ToolMode {
  readonly mode: 'none' | 'auto' | 'required'
  readonly tools: readonly DemoTool[]
  /** Whether one answer may hold several calls. */
  readonly parallel: boolean
}

export interface DemoRequest {
  readonly model: string
  /** A hash of the messages and `seed`: the same conversation gets the same answer. */
  readonly seed: number
  /** Number of user messages. */
  readonly turn: number
  readonly lastUserText: string
  readonly earlierUserText: string | null
  /** Images in the last user message. */
  readonly images: number
  /** The tool results after the last assistant message; empty if the user wrote last. */
  readonly toolResults: readonly { readonly name: string; readonly text: string }[]
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly choices: number
  /** Maximum tokens per choice, reasoning included; null if the request has no cap. */
  readonly cap: number | null
  readonly stop: readonly string[]
  readonly tools: ToolMode
  readonly format: { readonly kind: 'text' } | { readonly kind: 'json'; readonly schema: unknown }
  /** Number of alternatives for each token; null without `logprobs`. */
  readonly topLogprobs: number | null
  /** Reasoning tokens; 0 for a model without reasoning. */
  readonly reasoningTokens: number
  readonly promptTokens: number
}

type Fields = Readonly<Record<string, unknown>>

/** Number of characters of a user message that the demo uses. The rest is only counted. */
export const MAX_EXCERPT = 10_000

/** Parses and checks a body. Throws a `DemoRefusal` that names the parameter. */
export function readRequest(body: Buffer): DemoRequest {
  const fields = parse(body)
  const model = text(fields, 'model')
  if (!model) throw new DemoRefusal(400, 'missing_required_parameter', 'model', "Missing required parameter: 'model'.")
  const messages = readMessages(fields)
  const users = messages.filter(message => message['role'] === 'user')
  const lastUser = users.at(-1)
  const modalities = fields['modalities']
  if (Array.isArray(modalities) && modalities.includes('audio'))
    throw unsupported('modalities', 'the demo has no voice')
  return {
    model,
    seed: seedOf(fields),
    turn: users.length,
    lastUserText: lastUser ? beginning(lastUser) : '',
    earlierUserText: users.length > 1 ? beginning(users.at(-2)!) : null,
    images: lastUser ? countParts(lastUser['content'], 'image_url') : 0,
    toolResults: readToolResults(messages),
    stream: flag(fields, 'stream') ?? false,
    includeUsage: isRecord(fields['stream_options']) && fields['stream_options']['include_usage'] === true,
    choices: integer(fields, 'n', 1, 128) ?? 1,
    cap: readCap(fields),
    stop: readStop(fields),
    tools: readTools(fields),
    format: readFormat(fields),
    topLogprobs: flag(fields, 'logprobs') ? (integer(fields, 'top_logprobs', 0, 20) ?? 0) : null,
    reasoningTokens: readReasoning(fields, model),
    promptTokens: countPrompt(fields, messages),
  }
}

function parse(body: Buffer): Fields {
  let value: unknown
  try {
    value = JSON.parse(body.toString('utf8'))
  } catch {
    throw new DemoRefusal(400, 'invalid_json', null, 'We could not parse the JSON body of your request.')
  }
  if (!isRecord(value)) throw new DemoRefusal(400, 'invalid_json', null, 'The JSON body must be an object.')
  return value
}

function readMessages(fields: Fields): readonly Fields[] {
  const messages = fields['messages']
  if (messages === undefined || messages === null) {
    throw new DemoRefusal(400, 'missing_required_parameter', 'messages', "Missing required parameter: 'messages'.")
  }
  if (!Array.isArray(messages)) throw wrongType('messages', 'an array')
  if (messages.length === 0) throw wrongValue('messages', 'at least one message is needed')
  return messages.map((message: unknown, index) => {
    if (!isRecord(message)) throw wrongType(`messages[${index}]`, 'an object')
    if (typeof message['role'] !== 'string') throw wrongType(`messages[${index}].role`, 'a string')
    return message
  })
}

/** The results with the name of their tool, which only the call has. */
function readToolResults(messages: readonly Fields[]): { name: string; text: string }[] {
  const results: { name: string; text: string }[] = []
  for (let at = messages.length - 1; at >= 0 && messages[at]!['role'] === 'tool'; at--) {
    const { tool_call_id: id, content } = messages[at]!
    results.unshift({ name: toolOfCall(messages, id), text: textOf(content) })
  }
  return results
}

function toolOfCall(messages: readonly Fields[], id: unknown): string {
  for (const { tool_calls: calls } of messages) {
    for (const call of Array.isArray(calls) ? (calls as unknown[]) : []) {
      if (!isRecord(call) || call['id'] !== id || !isRecord(call['function'])) continue
      if (typeof call['function']['name'] === 'string') return call['function']['name']
    }
  }
  return 'tool'
}

/** The smaller one of the two caps. */
function readCap(fields: Fields): number | null {
  const caps = ['max_tokens', 'max_completion_tokens'].map(name => integer(fields, name, 1, Number.MAX_SAFE_INTEGER))
  const given = caps.filter(cap => cap !== null)
  return given.length > 0 ? Math.min(...given) : null
}

function readStop(fields: Fields): readonly string[] {
  const stop = fields['stop'] ?? []
  const list = (Array.isArray(stop) ? stop : [stop]) as unknown[]
  if (!list.every(item => typeof item === 'string')) throw wrongType('stop', 'a string or an array of strings')
  if (list.length > 4) throw wrongValue('stop', 'at most 4 sequences are allowed')
  return list.filter(item => item !== '')
}

function readTools(fields: Fields): ToolMode {
  if (fields['functions']) throw unsupported('functions', "it was replaced by 'tools'")
  const listed = fields['tools'] ?? []
  if (!Array.isArray(listed)) throw wrongType('tools', 'an array')
  const tools = listed.map((tool: unknown, index) => readTool(tool, `tools[${index}]`))
  const parallel = flag(fields, 'parallel_tool_calls') ?? true
  const choice = fields['tool_choice'] ?? (tools.length > 0 ? 'auto' : 'none')
  if (choice === 'none' || choice === 'auto' || choice === 'required') {
    if (choice === 'required' && tools.length === 0) throw wrongValue('tool_choice', "it needs 'tools'")
    return { mode: choice, tools, parallel }
  }
  if (!isRecord(choice)) throw wrongValue('tool_choice', 'it must be none, auto, required or a tool')
  if (choice['type'] === 'allowed_tools' && isRecord(choice['allowed_tools'])) {
    const { mode, tools: allowed } = choice['allowed_tools']
    const named = (Array.isArray(allowed) ? (allowed as unknown[]) : []).map(item => findTool(tools, item))
    return { mode: mode === 'required' ? 'required' : 'auto', tools: named, parallel }
  }
  return { mode: 'required', tools: [findTool(tools, choice)], parallel: false }
}

function readTool(tool: unknown, place: string): DemoTool {
  if (!isRecord(tool)) throw wrongType(place, 'an object')
  if (tool['type'] !== 'function') throw unsupported(`${place}.type`, 'the demo calls function tools only')
  const definition = tool['function']
  if (!isRecord(definition)) throw wrongType(`${place}.function`, 'an object')
  const { name, description, parameters } = definition
  if (typeof name !== 'string' || name === '') throw wrongType(`${place}.function.name`, 'a string')
  return { name, description: typeof description === 'string' ? description : '', parameters: parameters ?? null }
}

function findTool(tools: readonly DemoTool[], choice: unknown): DemoTool {
  const name = isRecord(choice) && isRecord(choice['function']) ? choice['function']['name'] : undefined
  const tool = tools.find(candidate => candidate.name === name)
  if (!tool) throw wrongValue('tool_choice', "it names a tool that is not in 'tools'")
  return tool
}

function readFormat(fields: Fields): DemoRequest['format'] {
  const format = fields['response_format']
  if (format === undefined || format === null) return { kind: 'text' }
  if (!isRecord(format)) throw wrongType('response_format', 'an object')
  if (format['type'] === 'text') return { kind: 'text' }
  if (format['type'] === 'json_object') return { kind: 'json', schema: null }
  if (format['type'] !== 'json_schema') throw wrongValue('response_format.type', 'text, json_object or json_schema')
  const definition = format['json_schema']
  if (!isRecord(definition)) throw wrongType('response_format.json_schema', 'an object')
  return { kind: 'json', schema: definition['schema'] ?? null }
}

/** Reasoning tokens for each effort. */
const EFFORTS: Readonly<Record<string, number>> = {
  none: 0,
  minimal: 8,
  low: 16,
  medium: 48,
  high: 128,
  xhigh: 256,
  max: 512,
}

function readReasoning(fields: Fields, model: string): number {
  const effort = text(fields, 'reasoning_effort') ?? 'medium'
  if (!Object.hasOwn(EFFORTS, effort)) throw wrongValue('reasoning_effort', Object.keys(EFFORTS).join(', '))
  // `thinking` is the older name of these models.
  return /reasoning|thinking/.test(model) ? EFFORTS[effort]! : 0
}

function seedOf(fields: Fields): number {
  const text = JSON.stringify([fields['messages'], fields['seed'] ?? null])
  return Number.parseInt(hash('sha256', text, 'hex').slice(0, 8), 16)
}

/** OpenAI's published formula: 3 tokens for each message and 3 for the answer. An image counts 85. */
function countPrompt(fields: Fields, messages: readonly Fields[]): number {
  let tokens = 3
  for (const message of messages) {
    tokens += 3 + countTokens(textOf(message['content'])) + 85 * countParts(message['content'], 'image_url')
    if (message['tool_calls']) tokens += countTokens(JSON.stringify(message['tool_calls']))
  }
  for (const extra of ['tools', 'response_format']) {
    if (fields[extra]) tokens += countTokens(JSON.stringify(fields[extra]))
  }
  return tokens
}

/** The text of a message whose content is a string or parts. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  const texts = (content as unknown[]).map(part => (isRecord(part) ? part['text'] : undefined))
  return texts.filter(part => typeof part === 'string').join('\n')
}

function beginning(message: Fields): string {
  return textOf(message['content']).slice(0, MAX_EXCERPT).toWellFormed()
}

function countParts(content: unknown, type: string): number {
  if (!Array.isArray(content)) return 0
  return (content as unknown[]).filter(part => isRecord(part) && part['type'] === type).length
}

function text(fields: Fields, name: string): string | null {
  const value = fields[name] ?? null
  if (value !== null && typeof value !== 'string') throw wrongType(name, 'a string')
  return value
}

function flag(fields: Fields, name: string): boolean | null {
  const value = fields[name] ?? null
  if (value !== null && typeof value !== 'boolean') throw wrongType(name, 'a boolean')
  return value
}

function integer(fields: Fields, name: string, least: number, most: number): number | null {
  const value = fields[name] ?? null
  if (value === null) return null
  if (typeof value !== 'number' || !Number.isInteger(value)) throw wrongType(name, 'an integer')
  if (value < least || value > most) throw wrongValue(name, `it must be from ${least} to ${most}`)
  return value
}

export function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
