/** What stands in a candidate, in a whole answer or in a piece of a stream: parts, and in the end why it is over. */

import type { UpstreamFailure, WireUsage } from '#contract'
import { finishOf } from '../finish-words.ts'
import { countOf, type FinishReason, type TranslatedCall, wireUsage } from '../translate/completion.ts'
import { PartialArguments } from './partial.ts'

/** Where the parts go: a `ChunkWriter`, or what collects them for a whole answer. */
export interface PartSink {
  text(text: string): void
  reasoning(text: string): void
  /** Of the thought behind the text. */
  signature(signature: string): void
  /** A picture, as a data URL. */
  image(url: string): void
  call(call: TranslatedCall): unknown
}

/** An answer that makes no sense; the message is for the log. */
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
  #called = false
  #said = false
  #reason: string | null = null
  /** Why it was stopped, in the provider's words. */
  message: string | null = null

  constructor(sink: PartSink) {
    this.#sink = sink
  }

  /** Why it is over, in Google's word; null: it goes on. */
  get reason(): string | null {
    return this.#reason
  }

  /** The same for the client; null: it goes on. */
  get finish(): FinishReason | UpstreamFailure | null {
    return this.#reason === null ? null : finishOf(this.#reason, this.#called)
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

  /** Some clients of Vertex get the numbers of the reasons in place of their names. */
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
      this.#said ||= text !== ''
      this.#sink.text(text)
      if (signature !== null) this.#sink.signature(signature)
    }
  }

  #media({ mimeType, data }: Fields): void {
    if (typeof mimeType !== 'string' || typeof data !== 'string' || !mimeType.startsWith('image/')) return
    this.#said = true
    this.#sink.image(`data:${mimeType};base64,${data}`)
  }

  /** A call comes whole, or its name first and its arguments in pieces, until a piece says that none follows. */
  #call({ id, name, args, partialArgs, willContinue }: Fields, signature: string | null): void {
    if (args != null && !isFields(args)) throw new CandidateError('the arguments of a tool call are no object')
    if (typeof name === 'string' && name !== '') {
      if (this.#open) throw new CandidateError('a tool call begins before the last one ends')
      this.#called = true
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
      throw new CandidateError('a piece of the arguments of a tool call has no place')
    }
    if (willContinue === true) return
    this.#open = null
    const { args: collected, ...call } = open
    this.#sink.call({ ...call, arguments: collected.toString() })
  }
}

/** In place of a reason, for a prompt that was blocked: no candidate is made then. */
export const BLOCKED_PROMPT = 'BLOCKED_PROMPT'

/** Vertex's numbers (google.cloud.aiplatform.v1beta1.Candidate.FinishReason). */
const NUMBERED: readonly string[] = [
  ...['FINISH_REASON_UNSPECIFIED', 'STOP', 'MAX_TOKENS', 'SAFETY', 'RECITATION', 'OTHER', 'BLOCKLIST'],
  ...['PROHIBITED_CONTENT', 'SPII', 'MALFORMED_FUNCTION_CALL', 'MODEL_ARMOR', 'IMAGE_SAFETY'],
  ...['IMAGE_PROHIBITED_CONTENT', 'IMAGE_RECITATION', 'IMAGE_OTHER', 'UNEXPECTED_TOOL_CALL', 'NO_IMAGE'],
]

/** Why the prompt was blocked, in the provider's words; undefined: it was not. */
export function blockedPrompt(feedback: unknown): string | null | undefined {
  if (!isFields(feedback) || !feedback['blockReason']) return undefined
  const message = feedback['blockReasonMessage']
  return typeof message === 'string' ? message : null
}

/** What a blocked prompt uses where no count is given. */
export const NOTHING_USED: WireUsage = wireUsage({ prompt: 0, completion: 0 })

/**
 * `usageMetadata` on OpenAI's counting: what tools gave the model is prompt, thoughts are completion. Null where there is
 * no count (Vertex sends the kind of traffic alone until the end).
 */
export function usageOf(metadata: unknown): WireUsage | null {
  if (!isFields(metadata)) return null
  const count = (name: string) => countOf(metadata[name])
  const reasoning = count('thoughtsTokenCount')
  const answered = count('candidatesTokenCount')
  const said = (answered ?? 0) + (reasoning ?? 0)
  const total = count('totalTokenCount')
  const used = count('promptTokenCount')
  const byTools = count('toolUsePromptTokenCount') ?? 0
  if (used === undefined && total === undefined && answered === undefined && reasoning === undefined) return null
  // Without its own count (seen twice) the prompt is what the total leaves for it.
  const prompt = used === undefined ? Math.max(0, (total ?? 0) - said) : used + byTools
  // What the total holds beyond the prompt was made, whether or not the parts of it are all told.
  const completion = Math.max(said, (total ?? 0) - prompt)
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
