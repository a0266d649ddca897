/** Builds the choices of an answer as pieces of one token each, and applies the output cap. */
import { seeded } from './chance.ts'
import { wrongValue } from './refusal.ts'
import type { DemoRequest } from './request.ts'
import { SampleError, sample } from './sample.ts'
import { answerText, hintsOf, reasoningText } from './sample-text.ts'
import { countTokens, splitTokens } from './tokens.ts'
import { chooseCalls } from './tools.ts'

/** The content of one delta. The head of a call costs the tokens of its name, every other piece one token. */
export type Piece =
  | { readonly kind: 'reasoning'; readonly text: string; readonly tokens: 1 }
  | { readonly kind: 'content'; readonly text: string; readonly tokens: 1 }
  | {
      readonly kind: 'call'
      readonly index: number
      readonly id: string
      readonly name: string
      readonly tokens: number
    }
  | { readonly kind: 'arguments'; readonly index: number; readonly text: string; readonly tokens: 1 }

export interface Choice {
  readonly pieces: readonly Piece[]
  readonly finish: 'stop' | 'length' | 'tool_calls'
  readonly tokens: number
  readonly reasoningTokens: number
}

/** Output tokens of a choice when the request sets no cap. */
const DEFAULT_CAP = 4096

/** Builds all choices. Each has its own random numbers. Throws a `DemoRefusal`. */
export function compose(request: DemoRequest): Choice[] {
  return Array.from({ length: request.choices }, (_, index) => composeOne(request, seeded(request.seed + index)))
}

function composeOne(request: DemoRequest, random: () => number): Choice {
  const hints = hintsOf(request)
  const reasoning = request.reasoningTokens
  const pieces: Piece[] = []
  if (reasoning > 0) {
    const thoughts = splitTokens(reasoningText(request, reasoning, random)).slice(0, reasoning)
    pieces.push(...thoughts.map(text => ({ kind: 'reasoning', text, tokens: 1 }) as const))
  }
  const calls = chooseCalls(request, hints, random)
  for (const [index, { id, name, arguments: text }] of calls.entries()) {
    pieces.push({ kind: 'call', index, id, name, tokens: countTokens(name) })
    pieces.push(...splitTokens(text).map(part => ({ kind: 'arguments', index, text: part, tokens: 1 }) as const))
  }
  if (calls.length === 0) {
    const text = request.format.kind === 'json' ? jsonText(request, random) : answerText(request, random)
    pieces.push(
      ...splitTokens(untilStop(text, request.stop)).map(part => ({ kind: 'content', text: part, tokens: 1 }) as const),
    )
  }
  return cut(pieces, request.cap ?? DEFAULT_CAP, calls.length > 0 ? 'tool_calls' : 'stop')
}

/** Structured output. Refuses a schema that the demo cannot follow, so that no answer violates its schema. */
function jsonText(request: DemoRequest, random: () => number): string {
  if (request.format.kind !== 'json' || request.format.schema === null) {
    return JSON.stringify({ answer: answerText(request, random), turn: request.turn })
  }
  try {
    return JSON.stringify(sample(request.format.schema, hintsOf(request), true))
  } catch (error) {
    if (!(error instanceof SampleError)) throw error
    throw wrongValue('response_format.json_schema.schema', error.message)
  }
}

/** The text before the first stop sequence. */
function untilStop(text: string, stop: readonly string[]): string {
  const found = stop.map(sequence => text.indexOf(sequence)).filter(at => at >= 0)
  return found.length > 0 ? text.slice(0, Math.min(...found)) : text
}

function cut(pieces: readonly Piece[], cap: number, finish: Choice['finish']): Choice {
  let tokens = 0
  let reasoningTokens = 0
  let kept = 0
  for (const piece of pieces) {
    if (tokens + piece.tokens > cap) break
    tokens += piece.tokens
    if (piece.kind === 'reasoning') reasoningTokens++
    kept++
  }
  const whole = kept === pieces.length
  return { pieces: pieces.slice(0, kept), finish: whole ? finish : 'length', tokens, reasoningTokens }
}
