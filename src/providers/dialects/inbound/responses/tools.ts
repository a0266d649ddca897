/** Tools and which of them may be called: flat here, nested in the canonical format. */
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
  /** Where each of them stands in the client's body. */
  readonly places: readonly string[]
  readonly names: ToolNames
  /** `web_search_options`, and the place of the tool that they were; null: nothing searches. */
  readonly search: { readonly options: Fields; readonly place: string } | null
  /** The names under which tools that were left out are told, with the places of what could not be carried. */
  readonly dropped: ReadonlyMap<string, string>
}

/** Tools as the client lists them: in `tools`, or in an item of the conversation. */
export interface ToolList {
  readonly tools: unknown
  readonly place: string
}

/**
 * Throws a refusal for every tool that somebody else than the client would have to run. But for a search of the web: clients
 * offer it unasked (Codex does), so where the model makes none a policy may have it left out (`on_dropped`).
 * @param searches whether the model searches the web as chat completions ask for it
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

/** @param isLater whether the conversation brings the tool: it may bring one again that is there already */
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
  if (type !== 'function' && type !== 'custom' && !isSearch) throw refusedType(type, at(place, 'type'))
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

function functionTool({ parameters, strict }: Fields, common: Fields): Fields {
  return {
    type: 'function',
    function: {
      ...common,
      ...(parameters == null ? {} : { parameters }),
      ...(strict == null ? {} : { strict }),
    },
  }
}

const TAKEN = ['function', 'custom', 'namespace', 'tool_search', 'shell', 'local_shell', 'apply_patch']
/** What OpenAI runs, some with a date in the name; a shell and the search for tools may run here or there. */
const HOSTED =
  /^(?:file_search|code_interpreter|image_generation|computer|computer_use_preview|mcp|tool_search|shell)(?:_\d[\d_]*)?$/

function refusedType(type: string, param: string) {
  if (!HOSTED.test(type)) return notOneOf(param, type, TAKEN)
  const message = `${param} is '${type}', a tool that the provider would run. This gateway takes tools that the client runs: 'function', 'custom', 'namespace', 'shell', 'local_shell' and 'apply_patch'. Leave it out.`
  return unsupported(param, message)
}

/** Of a custom tool's input: any text, or text by a grammar. */
function readFormat(value: unknown, place: string): Fields | null {
  const format = optionalFieldsOf(value, place)
  if (format?.['type'] !== 'grammar') return format
  const { definition, syntax } = format
  return { type: 'grammar', grammar: { definition, syntax } }
}

/**
 * Null when it says no more than the default does.
 * @param searches whether there is a search: it is made whatever the choice
 */
export function readToolChoice(value: unknown, searches = false): string | Fields | null {
  if (value == null || value === 'auto') return null
  if (typeof value === 'string') return value
  const choice = fieldsOf(value, 'tool_choice')
  if (searches && isWebSearch(choice['type'])) return null
  const type = textOf(choice['type'], 'tool_choice.type')
  if (type === 'allowed_tools') {
    const tools = listOf(choice['tools'], 'tool_choice.tools')
    const named = tools.map((tool, index) => {
      const place = `tool_choice.tools[${index}]`
      return readNamed(fieldsOf(tool, place), place)
    })
    return { type, allowed_tools: { mode: choice['mode'], tools: named } }
  }
  return readNamed(choice, 'tool_choice')
}

function readNamed(tool: Fields, place: string): Fields {
  const type = textOf(tool['type'], at(place, 'type'))
  if (isClientTool(tool)) return { type: 'function', function: { name: type } }
  if (type !== 'function' && type !== 'custom') throw notOneOf(at(place, 'type'), type, ['function', 'custom'])
  const name = flatName({
    name: textOf(tool['name'], at(place, 'name')),
    namespace: optionalTextOf(tool['namespace'], at(place, 'namespace')),
  })
  return { type, [type]: { name } }
}
