/**
 * Tools that OpenAI defines and the client runs. Chat formats do not have them, so each becomes a function of the same name for the
 * model. Its calls and results are converted back to the client's items.
 */
import type { Call, PlacedPart } from './content-parts.ts'
import { at, type Fields, fieldsOf, isFields, listOf, optionalTextOf, textOf } from './read.ts'

/** The types of these tools, which are also their names. */
export type ClientTool = 'shell' | 'local_shell' | 'apply_patch'

interface Form {
  /** The description of the function; the client sends none. */
  readonly description: string
  readonly parameters: Fields
  /** Prefix of item ids, before the number. */
  readonly prefix: string
  /** The item's action from the model's arguments. Invalid arguments give an action that does nothing. */
  itemOf(args: Fields): Fields
  /** The arguments from an item's action. */
  argumentsOf(item: Fields, place: string): Fields
  resultOf(item: Fields, place: string): string
}

const texts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter(each => typeof each === 'string') : typeof value === 'string' ? [value] : []
const numberOr = (value: unknown): number | null => (typeof value === 'number' ? value : null)
const textOr = (value: unknown): string => (typeof value === 'string' ? value : '')
const object = (properties: Fields, required: readonly string[]) => ({ type: 'object', properties, required })
const STRINGS = { type: 'array', items: { type: 'string' } }

const FORMS: Readonly<Record<ClientTool, Form>> = {
  shell: {
    description: 'Runs shell commands on the machine of the user and gives what they print and their exit codes.',
    parameters: object({ commands: STRINGS, timeout_ms: { type: 'integer' }, max_output_length: { type: 'integer' } }, [
      'commands',
    ]),
    prefix: 'sh',
    itemOf: ({ commands, timeout_ms, max_output_length }) => ({
      action: {
        commands: texts(commands),
        timeout_ms: numberOr(timeout_ms),
        max_output_length: numberOr(max_output_length),
      },
      environment: null,
    }),
    argumentsOf: (item, place) => fieldsOf(item['action'], at(place, 'action')),
    resultOf: (item, place) => JSON.stringify(listOf(item['output'], at(place, 'output'))),
  },
  local_shell: {
    description: 'Runs one command on the machine of the user, as a list of the program and its arguments.',
    parameters: object({ command: STRINGS, working_directory: { type: 'string' }, timeout_ms: { type: 'integer' } }, [
      'command',
    ]),
    prefix: 'lsh',
    itemOf: ({ command, working_directory, timeout_ms }) => ({
      action: {
        type: 'exec',
        command: texts(command),
        env: {},
        working_directory: typeof working_directory === 'string' ? working_directory : null,
        timeout_ms: numberOr(timeout_ms),
      },
    }),
    argumentsOf: (item, place) => fieldsOf(item['action'], at(place, 'action')),
    resultOf: (item, place) => textOf(item['output'], at(place, 'output')),
  },
  apply_patch: {
    description:
      'Creates, updates or deletes one file. The diff of an update has sections that begin with a line @@ and hold the lines around a change: unchanged ones begin with a space, removed ones with -, added ones with +. That of a new file has added lines only.',
    parameters: object(
      {
        type: { enum: ['create_file', 'update_file', 'delete_file'] },
        path: { type: 'string' },
        diff: { type: 'string' },
      },
      ['type', 'path'],
    ),
    prefix: 'apc',
    itemOf: ({ type, path, diff }) => ({
      operation: {
        type: typeof type === 'string' ? type : 'update_file',
        path: textOr(path),
        ...(type === 'delete_file' ? {} : { diff: textOr(diff) }),
      },
    }),
    argumentsOf: (item, place) => fieldsOf(item['operation'], at(place, 'operation')),
    resultOf: (item, place) => {
      const output = optionalTextOf(item['output'], at(place, 'output'))
      return [textOf(item['status'], at(place, 'status')), ...(output ? [output] : [])].join(': ')
    },
  },
}

/** Whether the client runs the tool: a shell may also run in a container of the provider. */
export function isClientTool({ type, environment }: Fields): boolean {
  if (typeof type !== 'string' || !Object.hasOwn(FORMS, type)) return false
  return !isFields(environment) || environment['type'] === 'local'
}

/** The function for a tool. */
export function functionFor(tool: ClientTool): Fields {
  const { description, parameters } = FORMS[tool]
  return { description, parameters }
}

export const prefixOf = (tool: ClientTool): string => FORMS[tool].prefix

/** The item of a call. @param args the arguments of the function; undefined while they are incomplete */
export function callItem(tool: ClientTool, args: unknown): Fields {
  return { type: `${tool}_call`, ...FORMS[tool].itemOf(isFields(args) ? args : {}) }
}

const ITEM = /^(shell|local_shell|apply_patch)_call(_output)?$/

/** The call or the result in an item of such a tool; null for an item of another type. */
export function readClientItem(
  item: Fields,
  type: string,
  place: string,
): { readonly call: Call } | { readonly id: string; readonly result: PlacedPart[] } | null {
  const [, name, isResult] = ITEM.exec(type) ?? []
  if (name === undefined) return null
  const tool = name as ClientTool
  // The result of a local shell has only the id of its call.
  const key = tool === 'local_shell' && item['call_id'] === undefined ? 'id' : 'call_id'
  const id = textOf(item[key], at(place, key))
  const form = FORMS[tool]
  if (isResult) return { id, result: [{ part: { type: 'text', text: form.resultOf(item, place) }, place }] }
  const args = JSON.stringify(form.argumentsOf(item, place))
  return { call: { id, type: 'function', function: { name: tool, arguments: args } } }
}
