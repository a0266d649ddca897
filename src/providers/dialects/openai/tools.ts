/** Wishes about tools in the words of a relative that has fewer of them (Mistral). */
import type { ChatRequest } from '#contract'
import { readToolChoice } from '../translate/parameters.ts'

type Fields = Readonly<Record<string, unknown>>

const NO_ARGUMENTS = { type: 'object', properties: {} }

/** Tools and choice as such a relative takes them; of a body in which nothing differs, the same body. */
export function plainTools(body: ChatRequest): ChatRequest {
  const choice = isAllowedTools(body['tool_choice']) ? readToolChoice(body) : null
  const tools = body.tools as readonly Fields[] | null | undefined
  if (!Array.isArray(tools)) return choice === null ? body : { ...body, tool_choice: choice.mode }
  const names = choice?.names ?? null
  const allowed = names === null ? tools : tools.filter(tool => names.includes(String(functionOf(tool)?.['name'])))
  const described = allowed.map(withParameters)
  const isSame = described.length === tools.length && described.every((tool, index) => tool === tools[index])
  if (isSame && choice === null) return body
  return {
    ...body,
    ...(isSame ? {} : { tools: described }),
    ...(choice === null ? {} : { tool_choice: choice.mode }),
  }
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
