/** Converts tools and the tool choice. */
import { isAnthropicClientTool, isAnthropicSearchType, isCalledDirectly, MAX_SEARCHES } from '#contract'
import { keepWhole } from '../../translate/as-sent.ts'
import { readMark } from './cache.ts'
import {
  type Fields,
  fieldsIn,
  isAbsent,
  isFields,
  listIn,
  missing,
  optionalTextIn,
  shown,
  textIn,
  unknownValue,
  unsupported,
  wrongValue,
} from './fields.ts'
import { longNames, shortName } from './names.ts'

/** `tools`, `tool_choice` and `parallel_tool_calls`, and the dropped tools. */
export interface DecodedTools {
  readonly fields: Readonly<Record<string, unknown>>
  /** Dropped tools by their reported names, with their places. */
  readonly dropped: ReadonlyMap<string, string>
}

/**
 * Converts tools that the client runs: its own ones, and ones that Anthropic defines. The declaration of the latter is sent unchanged
 * to providers of that format. Web search is sent to models that search. Other tools that Anthropic runs are dropped, because
 * clients offer them by default. Other members of a tool (`input_examples`, `eager_input_streaming`) do not change it;
 * `defer_loading` goes to Anthropic itself.
 * @param searches whether the model supports this web search
 */
export function decodeTools(tools: unknown, choice: unknown, searches: boolean): DecodedTools {
  const dropped = new Map<string, string>()
  const names = new Set<unknown>()
  const deferred: { readonly tool: object; readonly fields: Fields }[] = []
  if (isAbsent(tools)) return { fields: withoutTools(choice), dropped }
  const decoded = listIn(tools, 'tools').flatMap((value, index) => {
    const place = `tools[${index}]`
    const tool = fieldsIn(value, place)
    const { type, name } = tool
    if (isAnthropicSearchType(type) ? searches : !isHosted(type)) {
      const made = decodeTool(tool, place)
      if (tool['defer_loading'] === true) deferred.push({ tool: made, fields: { defer_loading: true } })
      return [made]
    }
    dropped.set(`tools.${type}`, `${place}.type`)
    names.add(name)
    return []
  })
  refuseForced(choice, names)
  // A deferred tool is not found without a tool search.
  const searched = [...dropped.keys()].some(name => name.startsWith('tools.tool_search_tool'))
  if (!searched) for (const { tool, fields } of deferred) keepWhole(tool, { kind: 'tool', fields })
  if (decoded.length === 0) return { fields: withoutTools(choice), dropped }
  return { fields: { tools: decoded, ...(isAbsent(choice) ? {} : decodeChoice(choice)) }, dropped }
}

/** For the answer: the client's names of tools with another name at the provider. */
export function toolNamesOf(tools: unknown): ReadonlyMap<string, string> {
  const names = Array.isArray(tools) ? tools.map(tool => (isFields(tool) ? tool['name'] : null)) : []
  return longNames(names.filter(name => typeof name === 'string'))
}

function decodeTool(tool: Fields, place: string) {
  const type = optionalTextIn(tool['type'], `${place}.type`)
  const isSearch = isAnthropicSearchType(type)
  if (isSearch) refuseUnbounded(tool, place)
  if (isSearch || isAnthropicClientTool(type)) {
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

const SUPPORTED = ['custom', 'bash_YYYYMMDD', 'text_editor_YYYYMMDD', 'memory_YYYYMMDD']
/** Other tools of the Messages API: computer use, and tools that Anthropic runs. */
const HOSTED = /^(?:(?:web_fetch|code_execution|computer|advisor)_\d{8}|tool_search_tool_(?:regex|bm25)(?:_\d{8})?)$/

const isHosted = (type: unknown): boolean => typeof type === 'string' && HOSTED.test(type)

function refusedType(type: string, place: string) {
  if (type !== 'mcp_toolset') return unknownValue(`${place}.type`, type, SUPPORTED)
  const message = `${place} has the type ${shown(type)}, whose tools Anthropic calls, not this gateway. Let the client call them, and send their tools.`
  return unsupported(`${place}.type`, message)
}

/** @param names names of the dropped tools */
function refuseForced(choice: unknown, names: ReadonlySet<unknown>): void {
  if (!isFields(choice) || choice['type'] !== 'tool' || !names.has(choice['name'])) return
  const message = `tool_choice.name forces ${shown(String(choice['name']))}, a tool that this gateway does not support. Name another tool, or leave 'tool_choice' out.`
  throw unsupported('tool_choice.name', message)
}

/** The maximum cost of a search must be known in advance. */
function refuseUnbounded(tool: Fields, place: string): void {
  const { type, max_uses: uses } = tool
  if (!isCalledDirectly(tool)) {
    const message = `${place} is called by code that Anthropic runs, whose cost has no limit. Send 'allowed_callers': ['direct'] with ${shown(String(type))}.`
    throw unsupported(`${place}.allowed_callers`, message)
  }
  if (isAbsent(uses) || (Number.isSafeInteger(uses) && (uses as number) > 0)) return
  throw wrongValue(
    `${place}.max_uses`,
    `it must be an integer of at least 1; at most ${MAX_SEARCHES} searches are made`,
  )
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
      throw unknownValue('tool_choice.type', choice['type'], CHOICES)
  }
}

/** Providers refuse a choice without tools; a choice that forces nothing is dropped. */
function withoutTools(value: unknown): Readonly<Record<string, unknown>> {
  if (isAbsent(value)) return {}
  const { type } = fieldsIn(value, 'tool_choice')
  if (type === undefined) throw missing('tool_choice.type')
  if (type === 'any' || type === 'tool') throw wrongValue('tool_choice', 'it asks for a call, but there are no tools')
  return {}
}
