/** Wishes about tools in the words of a relative that has fewer of them. */
import type { ChatRequest } from '#contract'
import { checkChoice, choiceRefusal, readToolChoice, readTools, type ToolChoice } from '../translate/parameters.ts'
import type { Quirks } from './profile.ts'

type Fields = Readonly<Record<string, unknown>>

const NO_ARGUMENTS = { type: 'object', properties: {} }

/**
 * Tools and choice as such a relative takes them; of a body in which nothing differs, the same body. Throws a refusal for a call
 * that cannot be demanded.
 */
export function plainTools(body: ChatRequest, words: NonNullable<Quirks['tools']>): ChatRequest {
  const choice = choiceIn(body, words)
  const tools = body.tools as readonly Fields[] | null | undefined
  if (!Array.isArray(tools)) return choice === null ? body : withChoice(body, choice, words)
  if (words === 'auto' && choice?.mode === 'none') return { ...withChoice(body, choice, words), tools: null }
  const names = choice?.names ?? null
  if (words !== 'plain' && names !== null) checkChoice(readTools(body), choice)
  const allowed = names === null ? tools : tools.filter(tool => names.includes(String(functionOf(tool)?.['name'])))
  const described = allowed.map(withParameters)
  const isSame = described.length === tools.length && described.every((tool, index) => tool === tools[index])
  if (isSame && choice === null) return body
  const chosen = choice === null ? body : withChoice(body, choice, words)
  return isSame ? chosen : { ...chosen, tools: described }
}

/** Null where the choice may stay as it is. */
function choiceIn(body: ChatRequest, words: NonNullable<Quirks['tools']>): ToolChoice | null {
  const choice = body['tool_choice']
  if (isAllowedTools(choice)) return readToolChoice(body)
  if (words === 'plain' || choice == null || choice === 'auto') return null
  return words === 'auto' || typeof choice === 'object' ? readToolChoice(body) : null
}

function withChoice(body: ChatRequest, { mode }: ToolChoice, words: NonNullable<Quirks['tools']>): ChatRequest {
  if (words !== 'auto') return { ...body, tool_choice: mode }
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
