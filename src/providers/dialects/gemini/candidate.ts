/** Reads a candidate of a whole answer or of a piece of a stream: its parts, and its finish reason. */

import type { UpstreamFailure, WireUsage } from '#contract'
import { finishOf } from '../finish-words.ts'
import { countOf, type FinishReason, type TranslatedCall, wireUsage } from '../translate/completion.ts'
import { PartialArguments } from './partial.ts'

/** Receives the parts: a `ChunkWriter`, or the builder of a whole answer. */
export interface PartSink {
  text(text: string): void
  reasoning(text: string): void
  /** The signature of the reasoning that precedes the text. */
  signature(signature: string): void
  /** An image, as a data URL. */
  image(url: string): void
  call(call: TranslatedCall): unknown
}

/** An invalid answer; the message is for the log. */
export class CandidateError extends Error {
  override readonly name = 'CandidateError'
}

export type Fields = Readonly<Record<string, unknown>>

export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

interface OpenCall {
  readonly id: string | null
  readonly name: string
  readonly signature: string | null
  readonly args: PartialArguments
}

/** Reads the pieces of one candidate. Throws `CandidateError`. */
export class CandidateReader {
  readonly #sink: PartSink
  #open: OpenCall | null = null
  #hasCalls = false
  #hasContent = false
  #reason: string | null = null
  /** Why it was stopped, in the provider's words. */
  message: string | null = null

  constructor(sink: PartSink) {
    this.#sink = sink
  }

  /** The finish reason in Google's form; null while the candidate continues. */
  get reason(): string | null {
    return this.#reason
  }

  /** The finish reason for the client; null while the candidate continues. */
  get finish(): FinishReason | UpstreamFailure | null {
    return this.#reason === null ? null : finishOf(this.#reason, this.#hasCalls)
  }

  read(candidate: unknown): void {
    if (!isFields(candidate)) return
    const { content, finishReason, finishMessage } = candidate
    const parts = isFields(content) ? content['parts'] : null
    if (Array.isArray(parts)) for (const part of parts) if (isFields(part)) this.#part(part)
    this.finishWith(finishReason)
    if (typeof finishMessage === 'string') this.message = finishMessage
    if (this.#open && this.finish === 'tool_calls') throw new CandidateError('a tool call does not end')
  }

  /** Some clients of Vertex get the numbers of the reasons instead of their names. */
  finishWith(reason: unknown): void {
    const name = typeof reason === 'number' ? NUMBERED[reason] : reason
    if (typeof name === 'string' && name !== '' && name !== 'FINISH_REASON_UNSPECIFIED') this.#reason = name
  }

  #part(part: Fields): void {
    const { text, thoughtSignature, functionCall, inlineData } = part
    const signature = typeof thoughtSignature === 'string' && thoughtSignature !== '' ? thoughtSignature : null
    if (isFields(functionCall)) this.#call(functionCall, signature)
    else if (isFields(inlineData)) this.#media(inlineData)
    else if (typeof text !== 'string') return
    else if (part['thought'] === true) this.#sink.reasoning(text)
    else {
      this.#hasContent ||= text !== ''
      this.#sink.text(text)
      if (signature !== null) this.#sink.signature(signature)
    }
  }

  #media({ mimeType, data }: Fields): void {
    if (typeof mimeType !== 'string' || typeof data !== 'string' || !mimeType.startsWith('image/')) return
    this.#hasContent = true
    this.#sink.image(`data:${mimeType};base64,${data}`)
  }

  /** A call comes whole, or its name first and its arguments in pieces until a piece without `willContinue`. */
  #call({ id, name, args, partialArgs, willContinue }: Fields, signature: string | null): void {
    if (args != null && !isFields(args)) throw new CandidateError('the arguments of a tool call are not an object')
    if (typeof name === 'string' && name !== '') {
      if (this.#open) throw new CandidateError('a tool call begins before the last one ends')
      this.#hasCalls = true
      const callId = typeof id === 'string' ? id : null
      if (willContinue !== true && partialArgs === undefined) {
        this.#sink.call({ id: callId, name, arguments: JSON.stringify(args ?? {}), signature })
        return
      }
      this.#open = { id: callId, name, signature, args: new PartialArguments() }
    }
    const open = this.#open
    if (!open) {
      if (args == null && partialArgs === undefined) return
      throw new CandidateError('a tool call has no name')
    }
    if (args != null) open.args.merge(args)
    if (Array.isArray(partialArgs) && !partialArgs.every(piece => open.args.add(piece))) {
      throw new CandidateError('a piece of the arguments of a tool call has no valid path')
    }
    if (willContinue === true) return
    this.#open = null
    const { args: collected, ...call } = open
    this.#sink.call({ ...call, arguments: collected.toString() })
  }
}

/** The reason for a blocked prompt, which has no candidate. */
export const BLOCKED_PROMPT = 'BLOCKED_PROMPT'

const NUMBERED: readonly string[] = [
  ...['FINISH_REASON_UNSPECIFIED', 'STOP', 'MAX_TOKENS', 'SAFETY', 'RECITATION', 'OTHER', 'BLOCKLIST'],
  ...['PROHIBITED_CONTENT', 'SPII', 'MALFORMED_FUNCTION_CALL', 'MODEL_ARMOR', 'IMAGE_SAFETY'],
  ...['IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'IMAGE_OTHER', 'UNEXPECTED_TOOL_CALL', 'NO_IMAGE'],
]

/** Why the prompt was blocked, in the provider's words; undefined if it was not. */
export function blockedPrompt(feedback: unknown): string | null | undefined {
  if (!isFields(feedback) || !feedback['blockReason']) return undefined
  const message = feedback['blockReasonMessage']
  return typeof message === 'string' ? message : null
}

/** The usage of a blocked prompt without counts. */
export const NOTHING_USED: WireUsage = wireUsage({ prompt: 0, completion: 0 })

/**
 * Converts `usageMetadata` to OpenAI's counting: tokens from tools count as prompt, reasoning as completion. Null without a count
 * (Vertex sends only the traffic type until the end).
 */
export function usageOf(metadata: unknown): WireUsage | null {
  if (!isFields(metadata)) return null
  const count = (name: string) => countOf(metadata[name])
  const reasoning = count('thoughtsTokenCount')
  const answered = count('candidatesTokenCount')
  const listed = (answered ?? 0) + (reasoning ?? 0)
  const total = count('totalTokenCount')
  const used = count('promptTokenCount')
  const byTools = count('toolUsePromptTokenCount') ?? 0
  if (used === undefined && total === undefined && answered === undefined && reasoning === undefined) return null
  // Without its own count (seen twice) the prompt is the rest of the total.
  const prompt = used === undefined ? Math.max(0, (total ?? 0) - listed) : used + byTools
  // The total beyond the prompt is output, whether or not all its parts are listed.
  const completion = Math.max(listed, (total ?? 0) - prompt)
  const cached = count('cachedContentTokenCount')
  return wireUsage({
    prompt,
    completion,
    ...(cached === undefined ? {} : { cached }),
    audio: byModality(metadata['promptTokensDetails'], 'AUDIO'),
    cachedAudio: byModality(metadata['cacheTokensDetails'], 'AUDIO'),
    image: byModality(metadata['promptTokensDetails'], 'IMAGE'),
    ...(reasoning === undefined ? {} : { reasoning }),
    outputAudio: byModality(metadata['candidatesTokensDetails'], 'AUDIO'),
    outputImage: byModality(metadata['candidatesTokensDetails'], 'IMAGE'),
  })
}

function byModality(details: unknown, modality: string): number {
  if (!Array.isArray(details)) return 0
  const counts = details.filter(isFields).filter(each => each['modality'] === modality)
  return counts.reduce((sum, each) => sum + (countOf(each['tokenCount']) ?? 0), 0)
}
