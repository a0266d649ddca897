/** A whole answer as a message, and what of a message a stream says at its beginning and its end. */
import type { ChatCompletion } from '#contract'
import { parseExact } from '../../json-exact.ts'
import { AT_A_SEQUENCE } from '../../translate/completion.ts'
import type { Block, BlockSink, Piece } from './blocks.ts'
import { type CallNamer, ContentWriter } from './content-writer.ts'
import { isFields } from './fields.ts'
import { messagesUsage, type Usage } from './usage.ts'

/** What the answer must know of its request. */
export interface AnswerContext {
  /** The exchange's id. */
  readonly exchange: string
  readonly stopSequences: readonly unknown[]
  /** Whether the client asked for thinking. */
  readonly showsThoughts: boolean
  /** The client's own names of tools, by those that the provider knows; of the others both are the same. */
  readonly toolNames: ReadonlyMap<string, string>
}

/** How an answer ended. */
export interface Ending {
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
  const writer = new ContentWriter(sink, namerOf(context), context.showsThoughts)
  // A client of this format asks for one choice.
  const choice = completion.choices.find(({ index }) => (index ?? 0) === 0) ?? completion.choices[0]
  if (choice) writer.add(choice.message, true)
  writer.end()
  const ending = endingOf(choice?.finish_reason, choice?.['stop_reason'], writer, context)
  const usage = messagesUsage(completion.usage)
  return Buffer.from(JSON.stringify(messageOf(completion.model, sink.content(), ending, usage, context)))
}

/** @param ending null at the beginning of a stream */
export function messageOf(
  model: string,
  content: readonly object[],
  ending: Ending | null,
  usage: Usage,
  { exchange }: Pick<AnswerContext, 'exchange'>,
) {
  return {
    id: `msg_${plain(exchange)}`,
    type: 'message',
    role: 'assistant',
    model,
    content,
    ...(ending ?? { stop_reason: null, stop_sequence: null, stop_details: null }),
    usage,
  }
}

/** Its ids are unique among all exchanges, and the same however often the answer is written. */
export function namerOf({ exchange, toolNames }: AnswerContext): CallNamer {
  return {
    newId: number => `toolu_${plain(exchange)}_${number}`,
    nameOf: called => toolNames.get(called) ?? called,
  }
}

const plain = (exchange: string) => exchange.replace(/^[a-z]+_/, '').replace(/[^A-Za-z0-9]/g, '')

/**
 * @param finish the canonical reason, or nothing where the provider gave none
 * @param stopped the sequence at which it stopped, where the provider names it beside the reason (vLLM does); `pause_turn` of
 * Anthropic's own
 */
export function endingOf(
  finish: string | null | undefined,
  stopped: unknown,
  { calls, refusal }: Pick<ContentWriter, 'calls' | 'refusal'>,
  { stopSequences }: AnswerContext,
): Ending {
  const ending = (stop_reason: string): Ending => ({ stop_reason, stop_sequence: null, stop_details: null })
  if (finish === 'content_filter' || refusal !== '') {
    const stop_details = { type: 'refusal', category: null, explanation: refusal || null } as const
    return { ...ending('refusal'), stop_details }
  }
  if (finish === 'length') return ending('max_tokens')
  // The client sends it back as it is, for the provider to go on.
  if (stopped === 'pause_turn' && calls === 0) return ending(stopped)
  // Some providers say `stop` although there are calls; without any there is nothing that the client could run.
  if (calls > 0) return ending('tool_use')
  // Where the provider does not say at which it stopped, one alone is known.
  const only = stopped === AT_A_SEQUENCE && stopSequences.length === 1 ? stopSequences[0] : null
  const sequence = stopSequences.includes(stopped) ? stopped : only
  if (typeof sequence === 'string') return { ...ending('stop_sequence'), stop_sequence: sequence }
  return ending('end_turn')
}

/** Puts the blocks of a whole answer together. */
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

/** What is no JSON object comes wrapped in one, where a tool will stumble over it in place of running without arguments. */
function inputOf(text: string): object {
  try {
    const value = parseExact(text)
    // What is nested too deeply can be read, and not written again: tried a few levels deeper than it will stand.
    if (isFields(value) && JSON.stringify([[[[[[[[value]]]]]]]]) !== '') return value
  } catch {
    // Said below: it is the same to the client.
  }
  return { INVALID_JSON: text }
}
