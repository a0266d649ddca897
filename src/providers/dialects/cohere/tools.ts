/** Tools, which of them may be called, and the shape of the answer: Cohere has no answer of a shape where there are tools. */
import type { ChatRequest } from '#contract'
import {
  answerSchema,
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
import { objectSchema } from '../translate/tool-schema.ts'
import type { Traits } from './traits.ts'

export interface ToolPlan {
  /** What of the request's body says it. */
  readonly fields: Readonly<Record<string, unknown>>
  /** A text for the end of the instructions, where the form of the answer can be asked for in words only. */
  readonly words: string | null
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
  if (offered.length === 0 || withheld) return shaped(format)
  if (choice?.mode === 'required') {
    if (!choosesTools) throw choiceRefusal()
    // The answer is a call, whose shape is the tool's.
    if (isShaped) dropped.push('response_format')
  } else if (isShaped) throw shapeRefusal()
  const strict = strictFields(offered, dropped)
  return { fields: { tools: offered.map(writeTool), ...strict, ...choiceFields(choice) }, words: null, dropped }
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

function shaped(format: ResponseFormat): ToolPlan {
  if (format.kind === 'text') return { fields: {}, words: null, dropped: [] }
  if (format.kind === 'json' || isOpen(format.schema)) return json({}, null)
  const { schema } = objectSchema(answerSchema(format.schema))
  if (isTaken(schema)) return json({ json_schema: schema }, null)
  return json({}, `Answer with one JSON object by this JSON Schema: ${JSON.stringify(schema)}`)
}

const json = (schema: object, words: string | null): ToolPlan => ({
  fields: { response_format: { type: 'json_object', ...schema } },
  words,
  dropped: words === null ? [] : ['response_format'],
})

/** Any object at all. */
const isOpen = ({ type = 'object', ...others }: Schema) => type === 'object' && Object.keys(others).length === 0

type Schema = Readonly<Record<string, unknown>>

/** The provider takes objects that require something. What else it looks at is not known: such a schema goes as it is. */
function isTaken(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isTaken)
  if (typeof value !== 'object' || value === null) return true
  const { type, properties, required } = value as Schema
  const isObject = type === 'object' || (typeof properties === 'object' && properties !== null)
  if (isObject && !(Array.isArray(required) && required.length > 0)) return false
  return Object.values(value).every(isTaken)
}
