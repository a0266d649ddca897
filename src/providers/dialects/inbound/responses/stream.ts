/** Encodes a streamed answer: events with their type in the `event:` line and consecutive sequence numbers, without `[DONE]`. */
import { type Chunk, envelope, type InboundView, type Refusal, type StreamEncoder, type WireUsage } from '#contract'
import { keepAnswer } from './kept.ts'
import { outputFor } from './output.ts'
import { inClientTerms } from './places.ts'
import type { Fields } from './read.ts'
import type { ReadRequest } from './request.ts'
import { cutOf, type ResponseState, responseOf, type Status, statusOf } from './response.ts'

export class ResponseEvents implements StreamEncoder {
  readonly #request: ReadRequest
  readonly #view: InboundView
  readonly #output: ReturnType<typeof outputFor>
  #frames: string[] = []
  #sequence = 0
  #hasBegun = false
  #model: string
  #finishReason: unknown = null
  #usage: WireUsage | null = null
  #serviceTier: unknown = null

  constructor(request: ReadRequest, view: InboundView) {
    this.#request = request
    this.#view = view
    this.#model = String(request.asked['model'] ?? '')
    this.#output = outputFor(request, view, (type, event) => this.#event(type, event))
  }

  chunk({ model, choices, usage, service_tier: tier }: Chunk): Buffer {
    this.#model = model
    this.#usage = usage ?? this.#usage
    this.#serviceTier = tier ?? this.#serviceTier
    this.#begin()
    for (const choice of choices) {
      // This format has one choice only.
      if (!choice || (choice.index ?? 0) !== 0) continue
      this.#finishReason = choice.finish_reason || this.#finishReason
      if (choice.delta) this.#output.add(choice.delta, logprobsOf(choice))
    }
    return this.#take()
  }

  finish(): Buffer {
    this.#begin()
    const cut = cutOf(this.#finishReason)
    const output = this.#output.end(cut !== null)
    const status = statusOf(cut, output)
    const answered = { status, output, cut, usage: this.#usage, serviceTier: this.#serviceTier } as const
    const response = this.#sendResponse(`response.${status}`, answered)
    keepAnswer(this.#request, this.#view, response)
    return this.#take()
  }

  /**
   * Sends two events. The libraries raise at `error`, which also contains the envelope because some look only for that. Agents that do
   * not know `error` end at `response.failed`, and take the code from it.
   */
  fail(refusal: Refusal): Buffer {
    const { error } = envelope(inClientTerms(refusal, this.#request.places))
    const { code, message, param } = error
    this.#event('error', { code, message, param, error })
    this.#sendResponse('response.failed', { status: 'failed', output: this.#output.items(), error: { code, message } })
    return this.#take()
  }

  #begin(): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    for (const type of ['response.created', 'response.in_progress'])
      this.#sendResponse(type, { status: 'in_progress', output: [] })
  }

  /** Sends an event with the response. */
  #sendResponse(type: string, answered: Omit<ResponseState, 'model'> & { readonly status: Status }): Fields {
    const response = responseOf(this.#request.asked, this.#view, { model: this.#model, ...answered })
    this.#event(type, { response })
    return response
  }

  #event(type: string, event: Fields): void {
    const data = JSON.stringify({ type, sequence_number: this.#sequence++, ...event })
    this.#frames.push(`event: ${type}\ndata: ${data}\n\n`)
  }

  #take(): Buffer {
    const frames = this.#frames
    this.#frames = []
    return Buffer.from(frames.join(''))
  }
}

/** The log probabilities of a choice. */
export function logprobsOf(choice: { readonly [field: string]: unknown }): readonly unknown[] {
  const content = (choice['logprobs'] as { readonly content?: unknown } | null | undefined)?.content
  return Array.isArray(content) ? content : []
}
