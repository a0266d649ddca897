/** Repairs the calls of an answer for OpenAI's clients: ids, indexes, types, names and arguments. */
import type { ToolCallDelta } from '#contract'
import { parseAnswer } from '../json-exact.ts'
import { isFields as isObject } from '../translate/value.ts'

/** A call as compatible providers send it: any member may be missing, null, or of another type. */
type LooseCall = { [Name in keyof ToolCallDelta]?: unknown } & {
  [field: string]: unknown
  function?: LooseFunction | null
}
type LooseFunction = { name?: unknown; arguments?: unknown; [field: string]: unknown }

/** Creates the id of a call without one, unique among all answers. @param at the index of the call in its choice */
export type InventId = (at: number) => string

/** One call of a stream. */
interface OpenCall {
  readonly at: number
  /** The provider's id; empty if it sent none. */
  readonly givenId: string
  /** The index of its pieces; undefined if they have none. */
  readonly key: number | undefined
  readonly isFunction: boolean
  name: string
  args: string
  /** Whether the arguments are held until their end. They do not begin with an object, and may be a doubly encoded one. */
  waits: boolean
  /** Whether the rest was written. */
  isClosed: boolean
}

/** Repairs the pieces of the calls of one choice as they arrive. */
export class CallPieces {
  readonly #invent: InventId
  readonly #calls: OpenCall[] = []
  readonly #byKey = new Map<number, OpenCall>()

  constructor(invent: InventId) {
    this.#invent = invent
  }

  /** Changes pieces in place. Returns whether it changed any. */
  repair(pieces: readonly unknown[]): boolean {
    let isRepaired = false
    for (const piece of pieces) if (isObject(piece) && this.#piece(piece as LooseCall)) isRepaired = true
    return isRepaired
  }

  /**
   * The missing pieces when the choice finishes: arguments that were held, and `{}` where none arrived. Calls with a piece in
   * the finishing delta may continue, because some providers send a finish reason in every chunk.
   * @param last the pieces of the finishing delta; empty at the end of the stream
   */
  rest(last: readonly unknown[] = []): ToolCallDelta[] {
    const missing = this.#calls.filter(
      ({ at, isFunction, isClosed, waits, args }) =>
        isFunction &&
        !isClosed &&
        (waits || args === '') &&
        !last.some(piece => isObject(piece) && piece['index'] === at),
    )
    for (const call of missing) call.isClosed = true
    return missing.map(({ at, args }) => ({ index: at, function: { arguments: argumentsIn(args) } }))
  }

  get count(): number {
    return this.#calls.length
  }

  #piece(piece: LooseCall): boolean {
    const isFlat = unfold(piece)
    const made = isObject(piece.function) ? piece.function : undefined
    const key = indexIn(piece.index)
    const id = typeof piece.id === 'string' ? piece.id : ''
    const name = textIn((made ?? (piece['custom'] as LooseFunction | undefined))?.name)
    const isText = typeof made?.arguments === 'string' || made?.arguments === undefined
    const args = made === undefined ? '' : isText ? textIn(made.arguments) : encoded(made.arguments)
    const known = this.#find(key, id, name, args)
    const isRepaired = known === undefined ? this.#begin(piece, key, id, name) : continueCall(piece, known, name)
    const call = known ?? this.#calls.at(-1)!
    if (piece.index !== call.at) piece.index = call.at
    else if (isText && !isRepaired && !isFlat && !this.#waits(call, args)) {
      call.args += args
      return false
    }
    if (made !== undefined) {
      const waits = this.#waits(call, args)
      call.args += args
      if (waits) made.arguments = ''
      else if (!isText || (known === undefined && made.arguments === undefined)) made.arguments = args
    }
    return true
  }

  /** The call that a piece belongs to; undefined if it begins a new one. */
  #find(key: number | undefined, id: string, name: string, args: string): OpenCall | undefined {
    const named = id === '' ? undefined : this.#calls.findLast(({ givenId }) => givenId === id)
    const current = key === undefined ? (id === '' ? this.#calls.at(-1) : named) : this.#byKey.get(key)
    // Several calls may have the same index; then the id decides.
    if (named !== undefined && named !== current && (key === undefined || named.key === key)) return named
    return current === undefined || beginsAnother(current, id, name, args) ? undefined : current
  }

  #begin(piece: LooseCall, key: number | undefined, id: string, name: string): boolean {
    const at = this.#calls.length
    const isFree = id !== '' && !this.#calls.some(({ givenId }) => givenId === id)
    const isFunction = piece['custom'] === undefined
    const call: OpenCall = { at, givenId: id, key, isFunction, name, args: '', waits: false, isClosed: false }
    this.#calls.push(call)
    if (key !== undefined) this.#byKey.set(key, call)
    const isTyped = typeof piece.type === 'string' && piece.type !== ''
    if (!isFree) piece.id = this.#invent(at)
    if (!isTyped) piece.type = isFunction ? 'function' : 'custom'
    return !isFree || !isTyped
  }

  #waits(call: OpenCall, args: string): boolean {
    if (call.isFunction && call.args === '' && !call.waits) call.waits = /^\s*[^\s{]/.test(args)
    return call.waits
  }
}

/** Whether a piece with the index of a call begins another call: only the first piece has a name. */
function beginsAnother(
  { givenId, name: known, args: before }: OpenCall,
  id: string,
  name: string,
  args: string,
): boolean {
  if (name === '' || known === '') return false
  if (id !== '' && givenId !== '') return id !== givenId
  if (name !== known) return true
  return /^\s*\{/.test(args) && objectIn(before) !== undefined
}

/** Removes from a later piece what clients would append to the first one. Returns whether it changed. */
function continueCall(piece: LooseCall, call: OpenCall, name: string): boolean {
  let isRepaired = false
  if ('id' in piece) {
    delete piece.id
    isRepaired = true
  }
  if (piece.type === null || piece.type === '') {
    delete piece.type
    isRepaired = true
  }
  const made = piece.function
  if (!isObject(made)) return isRepaired
  if (call.name === '') call.name = name
  else if (made.name === null || (name !== '' && name === call.name)) {
    delete made.name
    isRepaired = true
  }
  if (made.arguments === null) {
    made.arguments = ''
    isRepaired = true
  }
  return isRepaired
}

/** Repairs the calls of a whole message in place. Returns whether it changed any. */
export function repairWholeCalls(calls: readonly unknown[], invent: InventId): boolean {
  let isRepaired = false
  const ids = new Set<unknown>()
  for (const [at, call] of calls.entries())
    if (isObject(call) && wholeCall(call as LooseCall, ids, at)) isRepaired = true
  return isRepaired

  function wholeCall(call: LooseCall, taken: Set<unknown>, at: number): boolean {
    let isChanged = unfold(call)
    if (typeof call.id !== 'string' || call.id === '' || taken.has(call.id)) {
      call.id = invent(at)
      isChanged = true
    }
    taken.add(call.id)
    if (typeof call.type !== 'string' || call.type === '') {
      call.type = call['custom'] === undefined ? 'function' : 'custom'
      isChanged = true
    }
    if (!isObject(call.function)) return isChanged
    const { arguments: args } = call.function
    const fit = typeof args === 'string' ? argumentsIn(args) : encoded(args ?? {})
    if (fit !== args) call.function.arguments = fit
    return isChanged || fit !== args
  }
}

/** Parses a provider's answer. Arguments that are an object instead of a text keep the digits of their numbers. */
export function parseWithCalls(text: string): unknown {
  return /"arguments"\s*:\s*\{/.test(text) ? parseAnswer(text, 'arguments') : JSON.parse(text)
}

/** Wraps a name and arguments beside the id in a member `function`, as OpenAI has it. */
function unfold(call: LooseCall): boolean {
  const { name, arguments: args } = call
  if (call.function === null) delete call.function
  if (call.function !== undefined || call['custom'] !== undefined || typeof name !== 'string') return false
  call.function = { name, arguments: args }
  delete call['name']
  delete call['arguments']
  return true
}

function indexIn(value: unknown): number | undefined {
  const index = typeof value === 'string' && value !== '' ? Number(value) : value
  return Number.isSafeInteger(index) && (index as number) >= 0 ? (index as number) : undefined
}

const textIn = (value: unknown) => (typeof value === 'string' ? value : '')

const encoded = (value: unknown) => (value == null ? '' : JSON.stringify(value))

/** Arguments as a text with an object: decodes a doubly encoded text; missing arguments become `{}`. */
function argumentsIn(text: string): string {
  const begin = /\S/.exec(text)?.[0]
  if (begin === '{') return text
  if (begin === undefined || text.trim() === 'null') return '{}'
  try {
    const inner: unknown = JSON.parse(text)
    return typeof inner === 'string' && objectIn(inner) !== undefined ? inner : text
  } catch {
    return text
  }
}

function objectIn(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Repairs the older form of a call, which has no id. Returns whether it changed. */
export function repairFunctionCall(call: unknown): boolean {
  if (!isObject(call)) return false
  const made = call as LooseFunction
  if (typeof made.arguments === 'string' || made.arguments === undefined) return false
  made.arguments = encoded(made.arguments)
  return true
}
