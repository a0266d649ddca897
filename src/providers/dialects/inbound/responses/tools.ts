/** Converts tools and the tool choice: flat here, nested in the canonical format. */
import { canBeStrict } from '../closed.ts'
import { type ClientTool, functionFor, isClientTool } from './client-tools.ts'
import { flatName, SEARCH, ToolNames } from './names.ts'
import {
  at,
  type Fields,
  fieldsOf,
  listOf,
  notOneOf,
  optionalFieldsOf,
  optionalTextOf,
  textOf,
  unsupported,
} from './read.ts'
import { isWebSearch, lostSetting, searchOptions } from './searches.ts'

export interface ReadTools {
  readonly tools: readonly Fields[]
  /** The place of each tool in the client's body. */
  readonly places: readonly string[]
  readonly names: ToolNames
  /** `web_search_options`, and the place of its tool; null without a search. */
  readonly search: { readonly options: Fields; readonly place: string } | null
  /** Dropped tools by their reported names, with their places. */
  readonly dropped: ReadonlyMap<string, string>
}

/** A list of tools: in `tools`, or in an item of the conversation. */
export interface ToolList {
  readonly tools: unknown
  readonly place: string
}

/**
 * Drops each tool that the provider would have to run, because clients offer such tools by default (Codex, Cline). Web search
 * is sent to models that search.
 * @param searches whether the model supports web search in chat completions
 */
export function readTools(lists: readonly ToolList[], searches = false): ReadTools {
  const read: Reading = { tools: [], places: [], names: new ToolNames(), search: null, dropped: new Map(), searches }
  for (const [order, { tools, place }] of lists.entries()) {
    for (const [index, entry] of listOf(tools, place).entries()) {
      const where = `${place}[${index}]`
      const tool = fieldsOf(entry, where)
      if (tool['type'] !== 'namespace') addTool(tool, where, null, order > 0, read)
      else addNamespace(tool, where, order > 0, read)
    }
  }
  return read
}

interface Reading {
  readonly tools: Fields[]
  readonly places: string[]
  readonly names: ToolNames
  search: ReadTools['search']
  readonly dropped: Map<string, string>
  readonly searches: boolean
}

interface Namespace {
  readonly name: string
  readonly description: string | null
}

function addNamespace(tool: Fields, place: string, isLater: boolean, read: Reading): void {
  const space = {
    name: textOf(tool['name'], at(place, 'name')),
    description: optionalTextOf(tool['description'], at(place, 'description')),
  }
  for (const [index, entry] of listOf(tool['tools'] ?? [], at(place, 'tools')).entries()) {
    const where = `${place}.tools[${index}]`
    addTool(fieldsOf(entry, where), where, space, isLater, read)
  }
}

/** @param isLater whether an item of the conversation has the tool, which may repeat an earlier one */
function addTool(tool: Fields, place: string, space: Namespace | null, isLater: boolean, read: Reading): void {
  const type = textOf(tool['type'], at(place, 'type'))
  if (isWebSearch(type)) {
    addSearch(tool, type, place, read)
    return
  }
  const isSearch = type === 'tool_search' && tool['execution'] === 'client'
  if (isClientTool(tool)) {
    addClientTool(type as ClientTool, place, isLater, read)
    return
  }
  if (type !== 'function' && type !== 'custom' && !isSearch) {
    if (!isHosted(type)) throw notOneOf(at(place, 'type'), type, SUPPORTED)
    read.dropped.set(`tools.${type}`, at(place, 'type'))
    return
  }
  const namespace = space?.name ?? null
  const named = isSearch ? SEARCH : { name: textOf(tool['name'], at(place, 'name')), namespace }
  if (isLater && read.names.has(named)) return
  const name = read.names.add(named, at(place, isSearch ? 'type' : 'name'))
  const described = [space?.description, optionalTextOf(tool['description'], at(place, 'description'))]
  const description = described.filter(Boolean).join('\n\n')
  const common = { name, ...(description === '' ? {} : { description }) }
  read.tools.push(type === 'custom' ? customTool(tool, common, place) : functionTool(tool, common))
  read.places.push(place)
}

function addSearch(tool: Fields, type: string, place: string, read: Reading): void {
  const lost = lostSetting(tool)
  if (!read.searches) read.dropped.set(`tools.${type}`, at(place, 'type'))
  else if (lost !== undefined) read.dropped.set(`tools.${type}.${lost}`, at(place, lost))
  else read.search ??= { options: searchOptions(tool, place), place }
}

function addClientTool(type: ClientTool, place: string, isLater: boolean, read: Reading): void {
  const named = { name: type, namespace: null, clientTool: type }
  if (isLater && read.names.has(named)) return
  const name = read.names.add(named, at(place, 'type'))
  read.tools.push({ type: 'function', function: { name, ...functionFor(type) } })
  read.places.push(place)
}

function customTool(tool: Fields, common: Fields, place: string): Fields {
  const format = readFormat(tool['format'], at(place, 'format'))
  return { type: 'custom', custom: { ...common, ...(format ? { format } : {}) } }
}

/** A missing `strict` means true in this format if the schema allows it, but false in chat completions. */
function functionTool({ parameters, strict: requested }: Fields, common: Fields): Fields {
  const strict = requested ?? (canBeStrict(parameters) ? true : null)
  return {
    type: 'function',
    function: {
      ...common,
      ...(parameters == null ? {} : { parameters }),
      ...(strict == null ? {} : { strict }),
    },
  }
}

const SUPPORTED = ['function', 'custom', 'namespace', 'tool_search', 'shell', 'local_shell', 'apply_patch']
/** Tools that OpenAI runs, some with a date in the name; a shell and the search for tools may also run at the client. */
const HOSTED =
  /^(?:file_search|code_interpreter|image_generation|computer|computer_use_preview|mcp|tool_search|shell)(?:[-_]\d[\d_-]*)?$/

const isHosted = (type: string): boolean => HOSTED.test(type) || isWebSearch(type)

/** The format of a custom tool's input: any text, or text by a grammar. */
function readFormat(value: unknown, place: string): Fields | null {
  const format = optionalFieldsOf(value, place)
  if (format?.['type'] !== 'grammar') return format
  const { definition, syntax } = format
  return { type: 'grammar', grammar: { definition, syntax } }
}

/** The client allows only the search. The functions are omitted then, because the canonical choice names functions only. */
export const SEARCH_ONLY: Fields = { type: 'web_search' }

/** Null if the choice equals the default. Throws if it forces a dropped tool. */
export function readToolChoice(value: unknown, read: ReadTools): string | Fields | null {
  if (value == null || value === 'auto') return null
  const isEmpty = read.tools.length === 0 && read.search === null && read.dropped.size > 0
  if (value === 'required' && isEmpty) throw forcedRefusal('tool_choice', 'only tools')
  if (typeof value === 'string') return value
  const choice = fieldsOf(value, 'tool_choice')
  // A model with web search always searches, whatever the choice.
  const isMade = (tool: Fields) => read.search !== null && isWebSearch(tool['type'])
  if (isMade(choice)) return null
  const type = textOf(choice['type'], 'tool_choice.type')
  if (type !== 'allowed_tools') return readForced(choice, type, read)
  const { mode } = choice
  const tools = listOf(choice['tools'], 'tool_choice.tools').map((each, index) => {
    const place = `tool_choice.tools[${index}]`
    const tool = fieldsOf(each, place)
    return isMade(tool) ? SEARCH_ONLY : readNamed(tool, place, read)
  })
  const named = tools.filter(tool => tool !== null && tool !== SEARCH_ONLY)
  if (named.length > 0 || tools.length === 0) return { type, allowed_tools: { mode, tools: named } }
  if (tools.includes(SEARCH_ONLY)) return SEARCH_ONLY
  if (mode === 'required' || read.search !== null) throw forcedRefusal('tool_choice.tools', 'only tools')
  return 'none'
}

/** Null for a dropped tool. */
function readNamed(tool: Fields, place: string, { dropped, names }: ReadTools): Fields | null {
  const type = textOf(tool['type'], at(place, 'type'))
  // The client may have a shell beside a dropped one.
  if (names.find(type).clientTool === type && isClientTool(tool)) return { type: 'function', function: { name: type } }
  if (dropped.has(`tools.${type}`)) return null
  if (isClientTool(tool)) return { type: 'function', function: { name: type } }
  if (isHosted(type)) return null
  if (type !== 'function' && type !== 'custom') throw notOneOf(at(place, 'type'), type, ['function', 'custom'])
  const name = flatName({
    name: textOf(tool['name'], at(place, 'name')),
    namespace: optionalTextOf(tool['namespace'], at(place, 'namespace')),
  })
  return { type, [type]: { name } }
}

function readForced(choice: Fields, type: string, read: ReadTools): Fields {
  const named = readNamed(choice, 'tool_choice', read)
  if (named === null) throw forcedRefusal('tool_choice.type', `'${type}', a tool`)
  return named
}

function forcedRefusal(param: string, what: string) {
  const message = `${param} forces ${what} that the provider would run, which this gateway does not support. Name a tool that the client runs, or leave 'tool_choice' out.`
  return unsupported(param, message)
}
