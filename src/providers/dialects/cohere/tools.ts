/** Plans tools, tool choice and structured output: Cohere does not support structured output together with tools. */
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
  /** The members of the request's body. */
  readonly fields: Readonly<Record<string, unknown>>
  /** A text at the end of the instructions, if only an instruction can ask for the form of the answer. */
  readonly instruction: string | null
  readonly dropped: readonly string[]
}

/** Throws a refusal for an impossible choice, and for structured output beside tools that need not be called. */
export function planTools(body: ChatRequest, { choosesTools }: Traits): ToolPlan {
  const choice = readToolChoice(body)
  const format = readResponseFormat(body)
  const offered = allowed(readTools(body), choice)
  const isShaped = format.kind !== 'text'
  const dropped: string[] = []
  // The tools are not sent, so none is called.
  const withheld = choice?.mode === 'none' && (isShaped || !choosesTools)
  if (offered.length === 0 || withheld) return shaped(format)
  if (choice?.mode === 'required') {
    if (!choosesTools) throw choiceRefusal()
    // The answer is a call, which has the tool's schema.
    if (isShaped) dropped.push('response_format')
  } else if (isShaped) throw shapeRefusal()
  const strict = strictFields(offered, dropped)
  return { fields: { tools: offered.map(writeTool), ...strict, ...choiceFields(choice) }, instruction: null, dropped }
}

/** The tools that may be called. Omitting the others is the only way to name one. */
function allowed(tools: readonly Tool[], choice: ToolChoice | null): readonly Tool[] {
  checkChoice(tools, choice)
  const names = choice?.names
  return names ? tools.filter(({ name }) => names.includes(name)) : tools
}

function writeTool({ name, description, parameters }: Tool) {
  return { type: 'function', function: { name, ...(description ? { description } : {}), parameters } }
}

/** `strict_tools` applies to all tools, and the provider then refuses tools without required properties. */
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
  if (format.kind === 'text') return { fields: {}, instruction: null, dropped: [] }
  if (format.kind === 'json' || isOpen(format.schema)) return json({}, null)
  const { schema } = objectSchema(answerSchema(format.schema))
  if (isAccepted(schema)) return json({ json_schema: schema }, null)
  return json({}, `Answer with one JSON object by this JSON Schema: ${JSON.stringify(schema)}`)
}

const json = (schema: object, instruction: string | null): ToolPlan => ({
  fields: { response_format: { type: 'json_object', ...schema } },
  instruction,
  dropped: instruction === null ? [] : ['response_format'],
})

/** A schema that allows any object. */
const isOpen = ({ type = 'object', ...others }: Schema) => type === 'object' && Object.keys(others).length === 0

type Schema = Readonly<Record<string, unknown>>

/** The provider accepts objects with required properties only. Its other rules are unknown: such schemas are sent unchanged. */
function isAccepted(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isAccepted)
  if (typeof value !== 'object' || value === null) return true
  const { type, properties, required } = value as Schema
  const isObject = type === 'object' || (typeof properties === 'object' && properties !== null)
  if (isObject && !(Array.isArray(required) && required.length > 0)) return false
  return Object.values(value).every(isAccepted)
}
