/**
 * The demo's answers as bytes, as OpenAI's schema of chat completions requires. `refusal` and `logprobs` are always present,
 * `system_fingerprint` never. Chunks have `usage` only if the request asked for it.
 */
import type { ChatCompletion, Chunk, Delta, WireUsage } from '#contract'
import type { Choice, Piece } from './answer.ts'
import type { DemoRequest } from './request.ts'
import { splitTokens } from './tokens.ts'

/** The fields that all chunks of an answer share. */
export interface AnswerHead {
  readonly id: string
  /** Seconds since the epoch. */
  readonly created: number
  readonly model: string
}

/** An event of a stream, and the delay before it. */
export interface WireEvent {
  readonly bytes: Buffer
  readonly waitMs: number
}

export function wholeAnswer(head: AnswerHead, request: DemoRequest, choices: readonly Choice[]): Buffer {
  const completion: ChatCompletion = {
    id: head.id,
    object: 'chat.completion',
    created: head.created,
    model: head.model,
    choices: choices.map((choice, index) => ({
      index,
      message: messageOf(choice),
      logprobs: logprobsOf(choice.pieces, request.topLogprobs),
      finish_reason: choice.finish,
    })),
    usage: usageOf(request, choices),
  }
  return Buffer.from(JSON.stringify(completion))
}

/**
 * The events of a stream, generated lazily. All choices advance together, one token each per pace. The role comes first, then the
 * deltas, and the finish follows the last one. The usage, if requested, and [DONE] end the stream.
 */
export function* streamEvents(
  head: AnswerHead,
  request: DemoRequest,
  choices: readonly Choice[],
  paceMs: number,
): Generator<WireEvent, void> {
  const event = (choices: Chunk['choices'], waitMs: number) => ({ bytes: chunkBytes(head, request, choices), waitMs })
  for (const [index, { pieces }] of choices.entries()) {
    if (pieces[0]?.kind !== 'call') yield event([choiceOf(index, { ...OPENING, content: '' })], 0)
  }
  const longest = Math.max(...choices.map(choice => choice.pieces.length))
  for (let round = 0; round <= longest; round++) {
    // Only the first event of a round waits, because the choices are generated at the same time.
    let waitMs = paceMs
    for (const [index, { pieces, finish }] of choices.entries()) {
      const piece = pieces[round]
      if (piece) {
        const opening = round === 0 && piece.kind === 'call' ? { ...OPENING, content: null } : {}
        const logprobs = logprobsOf([piece], request.topLogprobs)
        yield event([{ ...choiceOf(index, { ...opening, ...deltaOf(piece) }), logprobs }], waitMs)
        waitMs = 0
      }
      if (round === Math.max(0, pieces.length - 1)) yield event([{ ...choiceOf(index, {}), finish_reason: finish }], 0)
    }
  }
  if (request.includeUsage) yield { bytes: chunkBytes(head, request, [], usageOf(request, choices)), waitMs: 0 }
  yield { bytes: Buffer.from('data: [DONE]\n\n'), waitMs: 0 }
}

const OPENING = { role: 'assistant', refusal: null }

function choiceOf(index: number, delta: Delta): Chunk['choices'][number] {
  return { index, delta, logprobs: null, finish_reason: null }
}

function chunkBytes(
  { id, created, model }: AnswerHead,
  request: DemoRequest,
  choices: Chunk['choices'],
  usage: WireUsage | null = null,
): Buffer {
  const chunk: Chunk = { id, object: 'chat.completion.chunk', created, model, choices }
  if (request.includeUsage) chunk.usage = usage
  return Buffer.from(`data: ${JSON.stringify(chunk)}\n\n`)
}

/** The tokens that were sent, over all choices. */
function usageOf(request: DemoRequest, choices: readonly Choice[]): WireUsage {
  const completion = choices.reduce((sum, choice) => sum + choice.tokens, 0)
  const reasoning = choices.reduce((sum, choice) => sum + choice.reasoningTokens, 0)
  return {
    prompt_tokens: request.promptTokens,
    completion_tokens: completion,
    total_tokens: request.promptTokens + completion,
    prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: reasoning,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  }
}

function messageOf({ pieces, reasoningTokens }: Choice): Delta {
  const join = (kind: 'reasoning' | 'content') => pieces.map(piece => (piece.kind === kind ? piece.text : '')).join('')
  const calls = pieces.flatMap(piece =>
    piece.kind !== 'call'
      ? []
      : [
          {
            id: piece.id,
            type: 'function',
            function: { name: piece.name, arguments: argumentsOf(pieces, piece.index) },
          },
        ],
  )
  return {
    role: 'assistant',
    content: calls.length > 0 ? null : join('content'),
    ...(reasoningTokens > 0 ? { reasoning_content: join('reasoning') } : {}),
    refusal: null,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  }
}

function argumentsOf(pieces: readonly Piece[], index: number): string {
  return pieces.map(piece => (piece.kind === 'arguments' && piece.index === index ? piece.text : '')).join('')
}

function deltaOf(piece: Piece): Delta {
  switch (piece.kind) {
    case 'content':
      return { content: piece.text }
    case 'reasoning':
      return { reasoning_content: piece.text }
    case 'call': {
      const { index, id, name } = piece
      return { tool_calls: [{ index, id, type: 'function', function: { name, arguments: '' } }] }
    }
    case 'arguments':
      return { tool_calls: [{ index: piece.index, function: { arguments: piece.text } }] }
  }
}

interface TokenLogprob {
  readonly token: string
  readonly logprob: number
  readonly bytes: readonly number[]
}

/** The demo is almost certain of each token. The alternatives are its letters reversed, far less likely. */
function logprobsOf(pieces: readonly Piece[], alternatives: number | null): object | null {
  if (alternatives === null) return null
  const content = pieces.filter(piece => piece.kind === 'content')
  if (content.length === 0) return null
  return {
    content: content.map(({ text }) => {
      const ranked = Array.from({ length: Math.max(1, alternatives) }, (_, rank) => alternative(text, rank))
      return { ...ranked[0]!, top_logprobs: ranked.slice(0, alternatives) }
    }),
    refusal: null,
  }
}

function alternative(text: string, rank: number): TokenLogprob {
  const token = rank === 0 ? text : `${splitTokens([...text].toReversed().join(''))[0]}${rank}`
  return { token, logprob: -0.01 - rank * 1.5, bytes: [...Buffer.from(token)] }
}
