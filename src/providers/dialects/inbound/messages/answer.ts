/** Encodes a whole answer as a message; the beginning and the end of a stream are shared. */
import type { ChatCompletion } from '#contract'
import { parseExact } from '../../json-exact.ts'
import { UNNAMED_STOP_SEQUENCE } from '../../translate/completion.ts'
import type { Block, BlockSink, Piece } from './blocks.ts'
import { type CallNamer, ContentWriter } from './content-writer.ts'
import { isFields } from './fields.ts'
import { messagesUsage, type Usage } from './usage.ts'

/** The parts of the request that the answer depends on. */
export interface AnswerContext {
  /** The exchange's id. */
  readonly exchange: string
  readonly stopSequences: readonly unknown[]
  /** Whether the client asked for reasoning. */
  readonly showsReasoning: boolean
  /** The client's names of tools by the names sent to the provider, where they differ. */
  readonly toolNames: ReadonlyMap<string, string>
}

/** The stop reason of an answer and its details. */
export interface MessageEnd {
  readonly stop_reason: string
  readonly stop_sequence: string | null
  readonly stop_details: {
    readonly type: 'refusal'
    readonly category: null
    readonly explanation: string | null
  } | null
}

export function encodeMessage(completion: ChatCompletion, context: AnswerContext): Buffer {
  const sink = new MessageSink()
  const writer = new ContentWriter(sink, namerOf(context), context.showsReasoning)
  // A client of this format asks for one choice.
  const choice = completion.choices.find(({ index }) => (index ?? 0) === 0) ?? completion.choices[0]
  if (choice) writer.add(choice.message, true)
  writer.end()
  const end = endOf(choice?.finish_reason, choice?.['stop_reason'], writer, context)
  const usage = messagesUsage(completion.usage)
  return Buffer.from(JSON.stringify(messageOf(completion.model, sink.content(), end, usage, context)))
}

/** @param end null at the beginning of a stream */
export function messageOf(
  model: string,
  content: readonly object[],
  end: MessageEnd | null,
  usage: Usage,
  { exchange }: Pick<AnswerContext, 'exchange'>,
) {
  return {
    id: `msg_${plain(exchange)}`,
    type: 'message',
    role: 'assistant',
    model,
    content,
    ...(end ?? { stop_reason: null, stop_sequence: null, stop_details: null }),
    usage,
  }
}

/** The ids of its calls are unique among all exchanges, and always the same for the same answer. */
export function namerOf({ exchange, toolNames }: AnswerContext): CallNamer {
  return {
    newId: number => `toolu_${plain(exchange)}_${number}`,
    nameOf: called => toolNames.get(called) ?? called,
  }
}

const plain = (exchange: string) => exchange.replace(/^[a-z]+_/, '').replace(/[^A-Za-z0-9]/g, '')

/**
 * @param finish the canonical finish reason, or undefined if the provider sent none
 * @param stopped the stop sequence, if the provider reports it (vLLM), or Anthropic's `pause_turn`
 */
export function endOf(
  finish: string | null | undefined,
  stopped: unknown,
  { calls, refusal }: Pick<ContentWriter, 'calls' | 'refusal'>,
  { stopSequences }: AnswerContext,
): MessageEnd {
  const end = (stop_reason: string): MessageEnd => ({ stop_reason, stop_sequence: null, stop_details: null })
  if (finish === 'content_filter' || refusal !== '') {
    const stop_details = { type: 'refusal', category: null, explanation: refusal || null } as const
    return { ...end('refusal'), stop_details }
  }
  if (finish === 'length') return end('max_tokens')
  // The client sends the answer back unchanged, and the provider continues.
  if (stopped === 'pause_turn' && calls === 0) return end(stopped)
  // Some providers send `stop` although there are calls. Without calls, `tool_use` would be wrong.
  if (calls > 0) return end('tool_use')
  // If the provider does not name the sequence, it is known only if there is just one.
  const only = stopped === UNNAMED_STOP_SEQUENCE && stopSequences.length === 1 ? stopSequences[0] : null
  const sequence = stopSequences.includes(stopped) ? stopped : only
  if (typeof sequence === 'string') return { ...end('stop_sequence'), stop_sequence: sequence }
  return end('end_turn')
}

/** Builds the blocks of a whole answer. */
class MessageSink implements BlockSink {
  readonly #blocks: { readonly block: Block; readonly pieces: Piece[] }[] = []

  start(_index: number, block: Block): void {
    this.#blocks.push({ block, pieces: [] })
  }

  add(index: number, piece: Piece): void {
    this.#blocks[index]!.pieces.push(piece)
  }

  stop(): void {}

  content(): object[] {
    return this.#blocks.map(({ block, pieces }) => {
      let text = ''
      let signature = ''
      const citations: unknown[] = []
      for (const piece of pieces) {
        if (piece.type === 'signature_delta') ({ signature } = piece)
        else if (piece.type === 'citations_delta') citations.push(piece.citation)
        else if (piece.type === 'text_delta') ({ text } = { text: text + piece.text })
        else text += piece.type === 'thinking_delta' ? piece.thinking : piece.partial_json
      }
      if (block.type === 'text') return { ...block, text, ...(citations.length > 0 ? { citations } : {}) }
      if (block.type === 'thinking') return { ...block, thinking: text, signature }
      return /tool_use$/.test(block.type) ? { ...block, input: inputOf(text) } : block
    })
  }
}

/** Input that is not a JSON object is wrapped in one, so that the tool fails instead of running without arguments. */
function inputOf(text: string): object {
  try {
    const value = parseExact(text)
    // Deeply nested input can be parsed but not written again. The answer adds a few levels, so the test does too.
    if (isFields(value) && JSON.stringify([[[[[[[[value]]]]]]]]) !== '') return value
  } catch {
    // Handled below, like JSON that is not an object.
  }
  return { INVALID_JSON: text }
}
