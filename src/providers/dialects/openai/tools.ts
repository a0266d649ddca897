/** Converts tools and tool choice for a compatible provider with fewer forms of them. */
import type { ChatRequest } from '#contract'
import { checkChoice, choiceRefusal, readToolChoice, readTools, type ToolChoice } from '../translate/parameters.ts'
import type { Quirks } from './profile.ts'

type Fields = Readonly<Record<string, unknown>>

const NO_ARGUMENTS = { type: 'object', properties: {} }

/** Tools and choice in the provider's form; the same body if nothing changes. Throws a refusal for a call that cannot be forced. */
export function plainTools(body: ChatRequest, form: NonNullable<Quirks['tools']>): ChatRequest {
  const choice = choiceIn(body, form)
  const tools = body.tools as readonly Fields[] | null | undefined
  if (!Array.isArray(tools)) return choice === null ? body : withChoice(body, choice, form)
  if (form === 'auto' && choice?.mode === 'none') return { ...withChoice(body, choice, form), tools: null }
  const names = choice?.names ?? null
  if (form !== 'plain' && names !== null) checkChoice(readTools(body), choice)
  const allowed = names === null ? tools : tools.filter(tool => names.includes(String(functionOf(tool)?.['name'])))
  const described = allowed.map(withParameters)
  const isSame = described.length === tools.length && described.every((tool, index) => tool === tools[index])
  if (isSame && choice === null) return body
  const chosen = choice === null ? body : withChoice(body, choice, form)
  return isSame ? chosen : { ...chosen, tools: described }
}

/** Null if the choice may stay unchanged. */
function choiceIn(body: ChatRequest, form: NonNullable<Quirks['tools']>): ToolChoice | null {
  const choice = body['tool_choice']
  if (isAllowedTools(choice)) return readToolChoice(body)
  if (form === 'plain' || choice == null || choice === 'auto') return null
  return form === 'auto' || typeof choice === 'object' ? readToolChoice(body) : null
}

function withChoice(body: ChatRequest, { mode }: ToolChoice, form: NonNullable<Quirks['tools']>): ChatRequest {
  if (form !== 'auto') return { ...body, tool_choice: mode }
  if (mode === 'required') throw choiceRefusal()
  return { ...body, tool_choice: null }
}

function isAllowedTools(choice: unknown): boolean {
  return typeof choice === 'object' && choice !== null && (choice as Fields)['type'] === 'allowed_tools'
}

function functionOf({ function: described }: Fields): Fields | null {
  return typeof described === 'object' ? (described as Fields | null) : null
}

function withParameters(tool: Fields): Fields {
  const described = functionOf(tool)
  if (described === null || described['parameters'] != null) return tool
  return { ...tool, function: { ...described, parameters: NO_ARGUMENTS } }
}
