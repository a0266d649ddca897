/** Tools, which of them may be called, and the shape of the answer: Cohere has no answer of a shape where there are tools. */
import { type ChatRequest, refuse } from '#contract'
import {
  type ResponseFormat,
  readResponseFormat,
  readToolChoice,
  readTools,
  type Tool,
  type ToolChoice,
} from '../translate/parameters.ts'
import type { Traits } from './traits.ts'

export interface ToolPlan {
  /** What of the request's body says it. */
  readonly fields: Readonly<Record<string, unknown>>
  readonly dropped: readonly string[]
}

/** Throws a refusal for a choice that cannot be made, and for an answer of a shape beside tools that need not be called. */
export function planTools(body: ChatRequest, { choosesTools }: Traits): ToolPlan {
  const choice = readToolChoice(body)
  const format = readResponseFormat(body)
  const offered = allowed(readTools(body), choice)
  const isShaped = format.kind !== 'text'
  const dropped: string[] = []
  // Without the tools none is called either.
  const withheld = choice?.mode === 'none' && (isShaped || !choosesTools)
  if (offered.length === 0 || withheld) return { fields: formatFields(format), dropped }
  if (choice?.mode === 'required') {
    if (!choosesTools) throw refuseChoice()
    // The answer is a call, whose shape is the tool's.
    if (isShaped) dropped.push('response_format')
  } else if (isShaped) throw refuseShape()
  const strict = strictFields(offered, dropped)
  return { fields: { tools: offered.map(writeTool), ...strict, ...choiceFields(choice) }, dropped }
}

/** The tools that may be called: to leave the others out is the only way to name one. */
function allowed(tools: readonly Tool[], choice: ToolChoice | null): readonly Tool[] {
  const wrong = (what: string) => refuse('invalid_value', { message: `'tool_choice' ${what}.`, param: 'tool_choice' })
  if (choice?.mode === 'required' && tools.length === 0) throw wrong('asks for a call, but there are no tools')
  const names = choice?.names ?? null
  if (names === null) return tools
  const unknown = names.find(name => !tools.some(tool => tool.name === name))
  if (unknown !== undefined) throw wrong(`names '${unknown}', which is not among the tools`)
  if (names.length === 0) throw wrong('allows no tool')
  return tools.filter(({ name }) => names.includes(name))
}

function writeTool({ name, description, parameters }: Tool) {
  return { type: 'function', function: { name, ...(description ? { description } : {}), parameters } }
}

/** It is said of all tools at once, and tools that require nothing are refused then. */
function strictFields(tools: readonly Tool[], dropped: string[]) {
  const canBeStrict = ({ strict, parameters: { required } }: Tool) =>
    strict && Array.isArray(required) && required.length > 0
  if (tools.every(canBeStrict)) return { strict_tools: true }
  if (tools.some(({ strict }) => strict)) dropped.push('tools.function.strict')
  return {}
}

function choiceFields(choice: ToolChoice | null) {
  if (choice === null || choice.mode === 'auto') return {}
  return { tool_choice: choice.mode === 'none' ? 'NONE' : 'REQUIRED' }
}

function formatFields(format: ResponseFormat) {
  if (format.kind === 'text') return {}
  const schema = format.kind === 'schema' ? { json_schema: format.schema } : {}
  return { response_format: { type: 'json_object', ...schema } }
}

function refuseChoice() {
  const message = "'tool_choice' asks for a call, which this model cannot be made to do."
  return refuse('unsupported_parameter', { message, param: 'tool_choice' })
}

function refuseShape() {
  const message =
    "'response_format' asks for JSON beside 'tools', which this model's provider does not have. Leave one of them out, or set 'tool_choice' to 'none' or 'required'."
  return refuse('unsupported_parameter', { message, param: 'response_format' })
}
