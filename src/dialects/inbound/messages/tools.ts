/** Tools, and which of them may be called. */
import { isAnthropicClientTool } from '#contract'
import { readMark } from './cache.ts'
import {
  fieldsIn,
  isFields,
  isUnsaid,
  listIn,
  missing,
  optionalTextIn,
  shown,
  textIn,
  unsupported,
  wrongValue,
  wrongWord,
} from './fields.ts'
import { longNames, shortName } from './names.ts'

/**
 * `tools`, `tool_choice` and `parallel_tool_calls`. Every tool is one that the client runs: its own, or one that
 * Anthropic defines, whose declaration goes as it is to providers of that format. What else a tool may carry
 * (`input_examples`, `defer_loading`, `allowed_callers`, `eager_input_streaming`) does not change what it is.
 */
export function decodeTools(tools: unknown, choice: unknown): Readonly<Record<string, unknown>> {
  if (isUnsaid(tools)) return withoutTools(choice)
  return {
    tools: listIn(tools, 'tools').map((tool, index) => decodeTool(tool, `tools[${index}]`)),
    ...(isUnsaid(choice) ? {} : decodeChoice(choice)),
  }
}

/** For the answer: what the client calls the tools that are called otherwise towards the provider. */
export function toolNamesOf(tools: unknown): ReadonlyMap<string, string> {
  const names = Array.isArray(tools) ? tools.map(tool => (isFields(tool) ? tool['name'] : null)) : []
  return longNames(names.filter(name => typeof name === 'string'))
}

function decodeTool(value: unknown, place: string) {
  const tool = fieldsIn(value, place)
  const type = optionalTextIn(tool['type'], `${place}.type`)
  if (isAnthropicClientTool(type)) {
    textIn(tool['name'], `${place}.name`)
    const { cache_control: _, ...anthropic } = tool
    return { type: 'anthropic', anthropic, ...readMark(tool, place) }
  }
  if (type !== null && type !== 'custom') throw refusedType(type, place)
  const description = optionalTextIn(tool['description'], `${place}.description`)
  return {
    type: 'function',
    function: {
      name: shortName(textIn(tool['name'], `${place}.name`)),
      ...(description === null ? {} : { description }),
      parameters: fieldsIn(tool['input_schema'], `${place}.input_schema`),
      ...(tool['strict'] === true ? { strict: true } : {}),
    },
    ...readMark(tool, place),
  }
}

const TAKEN = ['custom', 'bash_YYYYMMDD', 'text_editor_YYYYMMDD', 'memory_YYYYMMDD']
/** What else the Messages API has: computer use, and what Anthropic runs. */
const NOT_CARRIED =
  /^(?:(?:web_search|web_fetch|code_execution|computer|advisor)_\d{8}|tool_search_tool_(?:regex|bm25)(?:_\d{8})?|mcp_toolset)$/

function refusedType(type: string, place: string) {
  if (!NOT_CARRIED.test(type)) return wrongWord(`${place}.type`, type, TAKEN)
  const message = `${place} has the type ${shown(type)}: the gateway carries neither tools that Anthropic runs nor computer use. Send tools that the client runs: those with an 'input_schema', and bash, text_editor and memory.`
  return unsupported(`${place}.type`, message)
}

const CHOICES = ['auto', 'any', 'tool', 'none']

function decodeChoice(value: unknown): Readonly<Record<string, unknown>> {
  const choice = fieldsIn(value, 'tool_choice')
  const single = choice['disable_parallel_tool_use'] === true ? { parallel_tool_calls: false } : {}
  switch (choice['type']) {
    case 'auto':
      return { tool_choice: 'auto', ...single }
    case 'any':
      return { tool_choice: 'required', ...single }
    case 'none':
      return { tool_choice: 'none' }
    case 'tool': {
      const name = shortName(textIn(choice['name'], 'tool_choice.name'))
      return { tool_choice: { type: 'function', function: { name } }, ...single }
    }
    default:
      throw wrongWord('tool_choice.type', choice['type'], CHOICES)
  }
}

/** Providers refuse a choice among no tools; one that asks for nothing is as good as none. */
function withoutTools(value: unknown): Readonly<Record<string, unknown>> {
  if (isUnsaid(value)) return {}
  const { type } = fieldsIn(value, 'tool_choice')
  if (type === undefined) throw missing('tool_choice.type')
  if (type === 'any' || type === 'tool') throw wrongValue('tool_choice', 'it asks for a call, but there are no tools')
  return {}
}
