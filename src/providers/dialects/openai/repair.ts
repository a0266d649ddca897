/**
 * What answers of relatives have that OpenAI's clients, and the gateway's own steps, would trip over: repaired where it
 * is met, whoever sent it. An answer in which nothing is repaired keeps its bytes.
 */
import type { ChatCompletion, Chunk, Delta, ToolCallDelta } from '#contract'
import { FINISHES } from './quirks.ts'

/** What is known of the calls of one choice. */
interface KnownCalls {
  /** The ids of those that came without an index, in their order. */
  readonly ids: string[]
  /** The indexes of those that have told their id. */
  readonly named: Set<number>
}

/** By the choice. */
export type CallPlaces = Map<number, KnownCalls>

/** Whether a value is an object and no array. */
export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * A choice that is none is left out, and a missing delta is empty. Returns whether anything was changed.
 * @param places of this stream, filled as calls come
 */
export function repairChunk(chunk: Chunk, places: CallPlaces): boolean {
  let isRepaired = false
  if (!chunk.choices.every(choice => isObject(choice) && isObject(choice.delta))) {
    chunk.choices = chunk.choices.filter(isObject)
    for (const choice of chunk.choices) if (!isObject(choice.delta)) choice.delta = {}
    isRepaired = true
  }
  for (const choice of chunk.choices) {
    if (repairFinish(choice)) isRepaired = true
    if (repairContent(choice.delta)) isRepaired = true
    if (Array.isArray(choice.delta.tool_calls) && repairCalls(choice.delta.tool_calls, choice.index, places)) {
      isRepaired = true
    }
  }
  return isRepaired
}

/** A missing message is empty: a filter took it away and left the finish reason. Returns whether anything was changed. */
export function repairCompletion({ choices }: ChatCompletion): boolean {
  let isRepaired = false
  for (const choice of choices) {
    if (choice.message == null) {
      choice.message = { role: 'assistant', content: null }
      isRepaired = true
    }
    if (choice.finish_reason === '') {
      choice.finish_reason = hasCalls(choice.message) ? 'tool_calls' : 'stop'
      isRepaired = true
    } else if (repairFinish(choice)) isRepaired = true
    if (repairContent(choice.message)) isRepaired = true
  }
  return isRepaired
}

function hasCalls({ tool_calls: calls }: Delta): boolean {
  return Array.isArray(calls) && calls.length > 0
}

function repairFinish(choice: { finish_reason?: string | null }): boolean {
  const { finish_reason: finish } = choice
  if (typeof finish !== 'string' || !Object.hasOwn(FINISHES, finish)) return false
  choice.finish_reason = FINISHES[finish]!
  return true
}

interface Part {
  readonly type?: unknown
  readonly text?: unknown
  readonly thinking?: unknown
}

/** Mistral's models that think answer in parts: text, and thinking that has parts itself. */
function repairContent(delta: Delta): boolean {
  const { content } = delta as { readonly content?: unknown }
  if (!Array.isArray(content)) return false
  const parts = content.filter(isObject) as readonly Part[]
  const text = textOf(parts)
  const thoughts = parts.map(({ type, thinking }) => (type === 'thinking' ? thoughtOf(thinking) : '')).join('')
  if (thoughts !== '') delta.reasoning_content = (delta.reasoning_content ?? '') + thoughts
  delta.content = text === '' && thoughts !== '' ? null : text
  return true
}

function textOf(parts: readonly Part[]): string {
  return parts.map(({ type, text }) => (type === 'text' && typeof text === 'string' ? text : '')).join('')
}

function thoughtOf(thinking: unknown): string {
  if (typeof thinking === 'string') return thinking
  return Array.isArray(thinking) ? textOf(thinking.filter(isObject) as readonly Part[]) : ''
}

/**
 * Whole calls may come without their index (Mistral), by which clients put the pieces of a call together. An index that
 * is there stays, whatever it is. Later pieces may say that their id is empty (Alibaba), and clients would believe that.
 */
function repairCalls(calls: readonly ToolCallDelta[], choice: number, places: CallPlaces): boolean {
  let isRepaired = false
  let known = places.get(choice)
  if (known === undefined) {
    known = { ids: [], named: new Set() }
    places.set(choice, known)
  }
  for (const call of calls) {
    if (!isObject(call)) continue
    if (call.index === undefined) {
      call.index = placeOf(call.id, known.ids)
      if (call.id) call.type ??= 'function'
      isRepaired = true
    }
    if (call.id) known.named.add(call.index)
    else if (call.id === '' && known.named.has(call.index)) {
      delete call.id
      isRepaired = true
    }
  }
  return isRepaired
}

/** Of a call that is known by its id; without an id, of the last one; else the next. */
function placeOf(id: string | undefined, ids: string[]): number {
  const known = id ? ids.indexOf(id) : ids.length - 1
  if (known >= 0) return known
  ids.push(id ?? '')
  return ids.length - 1
}
