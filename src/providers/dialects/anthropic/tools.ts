/** Plans tools, tool choice and structured output: in the Messages API they depend on each other. */
import { type ChatRequest, isAnthropicSearch, refuse, usesOf } from '#contract'
import type { Conversation } from '../translate/conversation.ts'
import {
  answerSchema,
  checkChoice,
  choiceRefusal,
  grammarRefusal,
  readResponseFormat,
  readToolChoice,
  readTools,
  type Tool,
  type ToolChoice,
} from '../translate/parameters.ts'
import { hasGrammar, schemaForClaude } from '../translate/tool-schema.ts'
import { marked } from './cache.ts'
import { closedSchema } from './strict-schema.ts'
import type { Host, Traits } from './traits.ts'

/**
 * A tool whose arguments are the answer: it makes models without `output_config.format` return JSON. The client gets the arguments as
 * content.
 */
export const JSON_TOOL = 'tollgate_json_answer'

export interface ToolPlan {
  readonly tools: readonly Readonly<Record<string, unknown>>[]
  readonly choice: Readonly<Record<string, unknown>> | null
  /** For `output_config.format`. */
  readonly format: Readonly<Record<string, unknown>> | null
  /** Whether the choice forces a call. */
  readonly mustCall: boolean
  /** Whether only an instruction can ask for JSON. */
  readonly byInstruction: boolean
  readonly dropped: readonly string[]
}

export function planTools(body: ChatRequest, traits: Traits, host: Host, conversation: Conversation): ToolPlan {
  const dropped = new Set<string>()
  const chosen = readToolChoice(body)
  const offered = allowed(checked(readTools(body, true)), chosen)
  const isWithinLimit = offered.filter(({ strict }) => strict).length <= MAX_STRICT
  const rules = { traits, host, dropped, isWithinLimit }
  const tools: Record<string, unknown>[] = offered.map((tool, index) => writeTool(tool, index, rules))
  // Clients of `functions` can handle one call only.
  const isParallel = body['parallel_tool_calls'] !== false && body['functions'] == null
  const wanted = readResponseFormat(body)
  const byInstruction = wanted.kind === 'json' && !traits.forcedChoice
  const plan = (choice: ToolPlan['choice'], format: ToolPlan['format'] = null): ToolPlan => ({
    tools,
    choice,
    format,
    mustCall: choice?.['type'] === 'any' || choice?.['type'] === 'tool',
    byInstruction,
    dropped: [...dropped],
  })
  const mode = chosen?.mode ?? 'auto'
  if (mode === 'required' && !traits.forcedChoice) throw choiceRefusal()
  const hasNoTools = tools.length === 0
  // A conversation with calls needs tools, even if no tool may be called any more.
  if (hasNoTools) tools.push(...formerTools(conversation))
  const isNative = wanted.kind === 'schema' && traits.schemas && hasGrammar(wanted.schema)
  if (wanted.kind === 'text' || isNative || byInstruction || (mode === 'required' && !hasNoTools)) {
    let format: ToolPlan['format'] = null
    if (isNative) {
      const { schema, lost } = closedSchema(wanted.schema)
      for (const keyword of lost) dropped.add(`response_format.json_schema.schema.${keyword}`)
      format = { type: 'json_schema', schema }
    } else if (wanted.kind !== 'text') dropped.add('response_format')
    if (hasNoTools) return plan(tools.length > 0 ? { type: 'none' } : null, format)
    return plan(writeChoice(chosen, isParallel), format)
  }
  if (!traits.forcedChoice) throw grammarRefusal()
  const schema = wanted.kind === 'schema' ? answerSchema(wanted.schema) : { type: 'object', additionalProperties: true }
  tools.push({
    name: JSON_TOOL,
    description: 'Gives the answer to the user, as JSON. Call it once, with the complete answer.',
    input_schema: schemaForClaude(schema, tools.length).schema,
  })
  if (hasNoTools || mode === 'none') return plan({ type: 'tool', name: JSON_TOOL, disable_parallel_tool_use: true })
  return plan({ type: 'any', disable_parallel_tool_use: true })
}

function checked(tools: readonly Tool[]): readonly Tool[] {
  if (!tools.some(({ name }) => name === JSON_TOOL)) return tools
  throw refuse('invalid_value', {
    message: `A tool is called '${JSON_TOOL}', a name that the gateway reserves. Choose another name.`,
    param: 'tools',
  })
}

/** The tools that may be called. If the choice names several, omitting the others is the only way to exclude them. */
function allowed(tools: readonly Tool[], choice: ToolChoice | null): readonly Tool[] {
  checkChoice(tools, choice)
  const names = choice?.names
  const isOne = choice?.mode === 'required' && names?.length === 1
  return names && !isOne ? tools.filter(tool => names.includes(tool.name)) : tools
}

interface ToolRules {
  readonly traits: Traits
  readonly host: Host
  readonly dropped: Set<string>
  /** Whether the number of strict tools is within `MAX_STRICT`. */
  readonly isWithinLimit: boolean
}

/** The maximum number of strict tools in a request. */
const MAX_STRICT = 20

function writeTool(tool: Tool, index: number, { traits, host, dropped, isWithinLimit }: ToolRules) {
  const { name, description, parameters, strict, cache, native } = tool
  // The hold covers this many uses, so the limit is sent even if the client set none.
  if (isAnthropicSearch(native)) return marked({ ...native, max_uses: usesOf(native) }, cache)
  if (native) return marked(native, cache)
  const { schema, lost } = schemaForClaude(parameters, index)
  // A rule in the description is not enforced, so the tool is not strict.
  const isFit = traits.schemas && lost.length === 0 && hasGrammar(schema)
  const isStrict = strict && isFit && isWithinLimit
  if (strict && !isStrict) dropped.add('tools.function.strict')
  const { schema: closed, lost: unclosed } = isStrict ? closedSchema(schema) : { schema, lost }
  for (const keyword of unclosed) dropped.add(`tools.function.parameters.${keyword}`)
  const written = {
    name,
    ...(description ? { description } : {}),
    input_schema: closed,
    ...(host === 'anthropic' ? tool.whole : {}),
    ...(isStrict ? { strict: true } : {}),
  }
  return marked(written, cache)
}

function writeChoice(choice: ToolChoice | null, isParallel: boolean): ToolPlan['choice'] {
  if (choice?.mode === 'none') return { type: 'none' }
  const single = isParallel ? {} : { disable_parallel_tool_use: true }
  if (choice?.mode !== 'required') return choice || !isParallel ? { type: 'auto', ...single } : null
  if (choice.names?.length === 1) return { type: 'tool', name: choice.names[0], ...single }
  return { type: 'any', ...single }
}

function formerTools({ turns }: Conversation): Record<string, unknown>[] {
  const names = new Set<string>()
  for (const { parts } of turns) for (const part of parts) if (part.kind === 'call') names.add(part.name)
  return [...names].map(name => ({
    name,
    description: 'Was called earlier; not available any more.',
    input_schema: { type: 'object', properties: {} },
  }))
}
