/** Converts custom tools and their calls to functions, for compatible providers that support only those, and restores calls in answers. */
import type { AnswerView, ChatCompletion, ChatMessage, ChatRequest, Chunk, ToolCallDelta } from '#contract'
import {
  argumentsFor,
  functionFor,
  InputReader,
  inputOf,
  type WireCustomCall,
  type WireCustomTool,
} from '../translate/custom-tools.ts'
import { isObject } from './repair.ts'

type Fields = Readonly<Record<string, unknown>>

/** Returns the same body if it has no custom tools. */
export function withoutCustomTools(body: ChatRequest): ChatRequest {
  const tools = mapped(body.tools, toolFor)
  const messages = mapped(body.messages, messageFor)
  const choice = choiceFor(body['tool_choice'])
  if (tools === null && messages === null && choice === null) return body
  return {
    ...body,
    ...(tools === null ? {} : { tools }),
    ...(messages === null ? {} : { messages }),
    ...(choice === null ? {} : { tool_choice: choice }),
  } as ChatRequest
}

/** Null if nothing changes, and for a value that is not a list, which the provider refuses. */
function mapped<T>(list: unknown, change: (each: T) => T): T[] | null {
  if (!Array.isArray(list)) return null
  const made = list.map(change)
  return made.every((each, index) => each === list[index]) ? null : made
}

function toolFor(tool: unknown): unknown {
  const { custom, type: _, ...more } = Object(tool) as Fields & { readonly custom?: WireCustomTool }
  // Perplexity requires a description of each function.
  return custom ? { type: 'function', function: { description: '', ...functionFor(custom) }, ...more } : tool
}

function messageFor(message: ChatMessage): ChatMessage {
  const changed = mapped(message['tool_calls'], callFor)
  return changed === null ? message : { ...message, tool_calls: changed }
}

function callFor(call: Fields): Fields {
  const { custom, type: _, ...more } = Object(call) as Fields & { readonly custom?: WireCustomCall }
  if (!custom) return call
  return { ...more, type: 'function', function: { name: custom.name, arguments: JSON.stringify(argumentsFor(custom)) } }
}

/** Null if nothing changes. */
function choiceFor(choice: unknown): unknown {
  const { custom, allowed_tools: allowed } = Object(choice) as {
    readonly custom?: Fields
    readonly allowed_tools?: { readonly mode: string; readonly tools: unknown }
  }
  const named = (each: Fields): Fields => (each['custom'] ? { type: 'function', function: each['custom'] } : each)
  if (custom) return named({ custom })
  const tools = allowed ? mapped(allowed.tools, named) : null
  return tools === null ? null : { type: 'allowed_tools', allowed_tools: { ...allowed, tools } }
}

/** Converts calls of functions back to calls of custom tools. Returns whether it changed any. */
export function restoreCustomCalls({ choices }: ChatCompletion, { customTools }: AnswerView): boolean {
  if (customTools === undefined) return false
  let isChanged = false
  for (const { message } of choices) {
    for (const call of callsIn(message?.tool_calls)) {
      const { name, arguments: text } = call.function ?? {}
      if (name === undefined || !customTools.has(name)) continue
      becomeCustom(call, { name, input: inputOf(text ?? '') })
      isChanged = true
    }
  }
  return isChanged
}

interface CallsDelta {
  tool_calls?: readonly ToolCallDelta[] | null
}

/** Does the same for a stream. */
export class CustomCalls {
  readonly #names: ReadonlySet<string>
  /** By choice and index. */
  readonly #open = new Map<string, { readonly id: string | undefined; readonly reader: InputReader }>()

  constructor(names: ReadonlySet<string>) {
    this.#names = names
  }

  change({ choices }: Chunk): boolean {
    let isChanged = false
    for (const { index = 0, delta, finish_reason: finish } of choices) {
      if (this.#changeCalls(index, delta)) isChanged = true
      if (finish && this.#finish(index, delta)) isChanged = true
    }
    return isChanged
  }

  #changeCalls(choice: number, delta: CallsDelta): boolean {
    let isChanged = false
    let ended: { readonly before: ToolCallDelta; readonly input: string }[] | undefined
    for (const call of callsIn(delta.tool_calls)) {
      const key = `${choice} ${call.index}`
      const isNew = this.#isNew(call, key)
      // Some providers give all calls one index, so the rest of the previous call must be sent first.
      const input = isNew ? (this.#open.get(key)?.reader.end() ?? '') : ''
      if (input !== '') (ended ??= []).push({ before: call, input })
      if (this.#change(call, key, isNew)) isChanged = true
    }
    if (ended === undefined) return isChanged
    delta.tool_calls = delta.tool_calls!.flatMap(call => {
      const input = ended.find(({ before }) => before === call)?.input
      const { index } = call
      return input === undefined ? [call] : [{ ...(index === undefined ? {} : { index }), custom: { input } }, call]
    })
    return true
  }

  #isNew({ id, function: { name } = {} }: ToolCallDelta, key: string): boolean {
    const open = this.#open.get(key)
    return Boolean(name) && (open === undefined || (Boolean(id) && id !== open.id))
  }

  #change(call: ToolCallDelta, key: string, isNew: boolean): boolean {
    const { id, function: { name, arguments: text = '' } = {} } = call
    let open = this.#open.get(key)
    if (isNew && this.#names.has(name!)) {
      open = { id, reader: new InputReader() }
      this.#open.set(key, open)
      becomeCustom(call, { name, input: open.reader.push(text) })
      return true
    }
    if (isNew) this.#open.delete(key)
    if (isNew || open === undefined) return false
    becomeCustom(call, { input: open.reader.push(text) })
    return true
  }

  /** Adds inputs that could only be decoded when complete. */
  #finish(choice: number, delta: CallsDelta): boolean {
    const rest: ToolCallDelta[] = []
    for (const [key, { reader }] of this.#open) {
      const [at, index] = key.split(' ').map(Number) as [number, number]
      const input = at === choice ? reader.end() : ''
      if (input !== '') rest.push({ index, custom: { input } })
    }
    if (rest.length > 0) delta.tool_calls = [...(delta.tool_calls ?? []), ...rest]
    return rest.length > 0
  }
}

const callsIn = (calls: unknown): readonly ToolCallDelta[] =>
  Array.isArray(calls) ? (calls.filter(isObject) as ToolCallDelta[]) : []

function becomeCustom(
  call: ToolCallDelta,
  custom: { readonly name?: string | undefined; readonly input: string },
): void {
  delete call.function
  if (custom.name !== undefined) call.type = 'custom'
  else delete call.type
  call['custom'] = custom
}
