/**
 * Repairs answers of compatible providers that would break OpenAI's clients or the gateway's own steps. An answer without repairs keeps
 * its bytes.
 */
import type { AnswerView, ChatCompletion, Chunk, Delta, ToolCallDelta, UpstreamFailure } from '#contract'
import { finishOf, lacksFinishReason } from '../finish-words.ts'
import { inventedId } from '../translate/completion.ts'
import { CallPieces, type InventId, repairFunctionCall, repairWholeCalls } from './call-pieces.ts'

/** The state of one choice of a stream. */
interface KnownChoice {
  readonly calls: CallPieces
  hasBegun: boolean
  /** Whether it began with a whole message, or a text, instead of a delta. */
  readonly hasMessages: boolean
}

export function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The outcome of a repair. */
export interface RepairResult {
  readonly isChanged: boolean
  /** A finish reason that reports a failure, or an unknown one. */
  readonly failure: UpstreamFailure | null
}

const UNCHANGED: RepairResult = { isChanged: false, failure: null }
const CHANGED: RepairResult = { isChanged: true, failure: null }

/** An unchecked choice of a chunk or of a whole answer. */
interface LooseChoice {
  index?: unknown
  delta?: unknown
  message?: unknown
  text?: unknown
  finish_reason?: unknown
}

/** Repairs the chunks of one stream in place. */
export class ChunkRepair {
  readonly #view: AnswerView
  readonly #choices = new Map<number, KnownChoice>()

  constructor(view: AnswerView) {
    this.#view = view
  }

  /** Omits choices that are not objects. */
  repair(chunk: Chunk): RepairResult {
    let isChanged = false
    let failure: UpstreamFailure | null = null
    if (!chunk.choices.every(isObject)) {
      chunk.choices = chunk.choices.filter(isObject)
      isChanged = true
    }
    for (let at = 0; at < chunk.choices.length; at++) {
      const choice = chunk.choices[at]!
      const repaired = this.#choice(choice, at)
      isChanged ||= repaired.isChanged
      failure ??= repaired.failure
    }
    if (failure === null) return isChanged ? CHANGED : UNCHANGED
    return { isChanged, failure }
  }

  /** At the end of the stream: choices with missing pieces of calls. */
  rest(): Chunk['choices'] {
    return [...this.#choices].flatMap(([index, { calls }]) => {
      const rest = calls.rest()
      return rest.length === 0 ? [] : [{ index, delta: { tool_calls: rest }, finish_reason: null }]
    })
  }

  #choice(choice: Chunk['choices'][number], at: number): RepairResult {
    let isChanged = repairIndex(choice, at)
    const { index } = choice
    let known = this.#choices.get(index)
    if (known === undefined) {
      const invent: InventId = call => inventedId(this.#view, call, index)
      known = { calls: new CallPieces(invent), hasBegun: false, hasMessages: isMissing(choice.delta) }
      this.#choices.set(index, known)
    }
    if (known.hasMessages && isMissing(choice.delta)) {
      takeContent(choice, 'delta', 'message')
      // A whole call has all of its arguments, also if they are empty.
      const whole = choice.delta.tool_calls
      if (Array.isArray(whole)) repairWholeCalls(whole, call => inventedId(this.#view, call, index))
      isChanged = true
    } else if (!isObject(choice.delta)) {
      // Perplexity's message beside the deltas repeats all of them.
      choice.delta = {}
      isChanged = true
    }
    const delta: Delta = choice.delta
    if (repairRole(delta, known.hasBegun)) isChanged = true
    known.hasBegun = true
    if (repairDelta(delta)) isChanged = true
    if (Array.isArray(delta.tool_calls) && known.calls.repair(delta.tool_calls)) isChanged = true
    const finish = repairFinish(choice, known.calls.count > 0)
    if (choice.finish_reason && known.calls.count > 0) {
      const rest = known.calls.rest(delta.tool_calls ?? [])
      if (rest.length > 0) {
        delta.tool_calls = [...(delta.tool_calls ?? []), ...rest]
        isChanged = true
      }
    }
    return finish === UNCHANGED ? (isChanged ? CHANGED : UNCHANGED) : finish
  }
}

/** Members of the outermost object that SDKs require. */
type Head = Pick<Chunk, 'id' | 'object' | 'created'> & { error?: unknown }

/**
 * Repairs the head of a chunk or of a whole answer in place: Snowflake and some relays send an empty head, or none.
 * @param head has `error` only if it is empty: SDKs throw if the member exists
 * @param right values for missing or wrong members
 * @param changes receives the same changes as JSON texts
 */
export function repairHead(
  head: Head,
  right: { readonly id: string; readonly object: string; readonly created: number },
  changes: Record<string, string | undefined>,
): void {
  if (typeof head.id !== 'string' || head.id === '') {
    head.id = right.id
    changes['id'] = JSON.stringify(right.id)
  }
  if (head.object !== right.object) {
    head.object = right.object
    changes['object'] = JSON.stringify(right.object)
  }
  if (typeof head.created !== 'number') {
    head.created = right.created
    changes['created'] = JSON.stringify(right.created)
  }
  if (head.error !== undefined) {
    delete head.error
    changes['error'] = undefined
  }
}

/** Repairs a whole answer in place. A missing message becomes empty: a filter removed it and left the finish reason. */
export function repairCompletion({ choices }: ChatCompletion, view: AnswerView): RepairResult {
  let isChanged = false
  let failure: UpstreamFailure | null = null
  for (let at = 0; at < choices.length; at++) {
    const choice = choices[at]!
    if (repairIndex(choice, at)) isChanged = true
    if (isMissing(choice.message)) {
      takeContent(choice, 'message', 'delta')
      isChanged = true
    }
    const message: Delta = choice.message
    if (message.content === undefined) {
      message.content = null
      isChanged = true
    }
    if (repairRole(message, false)) isChanged = true
    if (repairDelta(message)) isChanged = true
    const calls = Array.isArray(message.tool_calls) ? message.tool_calls : []
    if (repairWholeCalls(calls, call => inventedId(view, call, choice.index))) isChanged = true
    // An empty finish reason: the answer has ended, for an unknown reason.
    if (choice.finish_reason === '') {
      choice.finish_reason = calls.length > 0 ? 'tool_calls' : 'stop'
      isChanged = true
    }
    const finish = repairFinish(choice, calls.length > 0)
    isChanged ||= finish.isChanged
    failure ??= finish.failure
  }
  return { isChanged, failure }
}

function repairIndex(choice: LooseChoice, at: number): boolean {
  if (Number.isSafeInteger(choice.index) && (choice.index as number) >= 0) return false
  const index = typeof choice.index === 'string' && choice.index !== '' ? Number(choice.index) : at
  choice.index = Number.isSafeInteger(index) && index >= 0 ? index : at
  return true
}

/** Whether a value has no members. */
function isMissing(value: unknown): boolean {
  return !isObject(value) || Object.keys(value).length === 0
}

/** Moves the content of a choice from the member of whole answers, of chunks, or of the older completions. */
function takeContent(choice: LooseChoice, to: 'delta' | 'message', from: 'delta' | 'message'): void {
  const { text } = choice
  choice[to] = isObject(choice[from]) ? choice[from] : typeof text === 'string' ? { content: text } : {}
  delete choice[from]
  delete choice.text
}

/** The first piece of an answer has the role; later pieces may only repeat it. */
function repairRole(delta: Delta, hasBegun: boolean): boolean {
  if (delta.role === 'assistant' || (hasBegun && delta.role === undefined)) return false
  delta.role = 'assistant'
  return true
}

export const OPENAI_FINISH_REASONS: ReadonlySet<string> = new Set([
  'stop',
  'length',
  'tool_calls',
  'content_filter',
  'function_call',
])

function repairFinish(choice: { finish_reason?: string | null }, hasCalls: boolean): RepairResult {
  const { finish_reason: word } = choice
  if (word === null || word === undefined || OPENAI_FINISH_REASONS.has(word)) return UNCHANGED
  if (lacksFinishReason(word)) {
    choice.finish_reason = null
    return CHANGED
  }
  const finish = finishOf(word, hasCalls)
  if (typeof finish === 'string') {
    choice.finish_reason = finish
    return CHANGED
  }
  choice.finish_reason = null
  return { isChanged: true, failure: finish }
}

/** Other names of `reasoning_content`: vLLM, OpenRouter, Groq; Copilot; relays. */
const REASONING_NAMES = ['reasoning', 'reasoning_text', 'thinking', 'thought'] as const

function repairDelta(delta: Delta): boolean {
  const isContentRepaired = repairContent(delta)
  const isCallRepaired = delta['function_call'] !== undefined && repairFunctionCall(delta['function_call'])
  const isListRepaired = repairCallList(delta)
  return repairThoughts(delta) || isContentRepaired || isCallRepaired || isListRepaired
}

/** Makes a single call a list. */
function repairCallList(delta: Delta): boolean {
  const { tool_calls: calls } = delta as { readonly tool_calls?: unknown }
  if (calls === undefined || calls === null) return false
  if (Array.isArray(calls)) {
    if (calls.every(isObject)) return false
    delta.tool_calls = calls.filter(isObject) as ToolCallDelta[]
    return true
  }
  if (isObject(calls)) delta.tool_calls = [calls as ToolCallDelta]
  else delete delta.tool_calls
  return true
}

function repairThoughts(delta: Delta): boolean {
  if (delta.reasoning_content) return false
  for (const name of REASONING_NAMES) {
    const text = delta[name]
    if (typeof text !== 'string' || text === '') continue
    delta.reasoning_content = text
    return true
  }
  return false
}

interface Part {
  readonly type?: unknown
  readonly text?: unknown
  readonly refusal?: unknown
  readonly thinking?: unknown
  readonly summary?: unknown
}

/** Mistral's reasoning models answer in parts: text, and reasoning that has parts itself. Databricks sends a summary of it. */
function repairContent(delta: Delta): boolean {
  const { content } = delta as { readonly content?: unknown }
  if (content === undefined || content === null || typeof content === 'string') return false
  const list = Array.isArray(content) ? content : [content]
  const parts = list.map(
    (part): Part => (isObject(part) ? (part as Part) : { text: typeof part === 'number' ? String(part) : part }),
  )
  const thoughts = parts
    .map(({ type, text, thinking, summary }) => thoughtOf(thinking ?? summary ?? (type === 'reasoning' ? text : '')))
    .join('')
  const text = parts
    .map(({ type, text: said }) => (type !== 'reasoning' && typeof said === 'string' ? said : ''))
    .join('')
  const refusal = parts.map(({ refusal: said }) => (typeof said === 'string' ? said : '')).join('')
  if (thoughts !== '') delta.reasoning_content = (delta.reasoning_content ?? '') + thoughts
  if (refusal !== '') delta.refusal = (delta.refusal ?? '') + refusal
  delta.content = text === '' && (thoughts !== '' || refusal !== '') ? null : text
  return true
}

function thoughtOf(thinking: unknown): string {
  if (typeof thinking === 'string') return thinking
  if (!Array.isArray(thinking)) return ''
  return thinking.map((part: Part | null) => (typeof part?.text === 'string' ? part.text : '')).join('')
}
