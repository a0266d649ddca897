/** Tools, which of them may be called, and the shape of the answer: Cohere has no answer of a shape where there are tools. */
import type { ChatRequest } from '#contract'
import {
  checkChoice,
  choiceRefusal,
  type ResponseFormat,
  readResponseFormat,
  readToolChoice,
  readTools,
  shapeRefusal,
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
    if (!choosesTools) throw choiceRefusal()
    // The answer is a call, whose shape is the tool's.
    if (isShaped) dropped.push('response_format')
  } else if (isShaped) throw shapeRefusal()
  const strict = strictFields(offered, dropped)
  return { fields: { tools: offered.map(writeTool), ...strict, ...choiceFields(choice) }, dropped }
}

/** The tools that may be called: to leave the others out is the only way to name one. */
function allowed(tools: readonly Tool[], choice: ToolChoice | null): readonly Tool[] {
  checkChoice(tools, choice)
  const names = choice?.names
  return names ? tools.filter(({ name }) => names.includes(name)) : tools
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
