/** A streamed answer: events with their type in the `event:` line and dense sequence numbers; no `[DONE]` at the end. */
import { type Chunk, envelope, type InboundView, type Refusal, type StreamEncoder, type WireUsage } from '#contract'
import { keepAnswer } from './kept.ts'
import { outputFor } from './output.ts'
import { inTheirTerms } from './places.ts'
import type { Fields } from './read.ts'
import type { ReadRequest } from './request.ts'
import { type Answered, cutOf, responseOf, type Status, statusOf } from './response.ts'

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
      // One choice is all that this format has.
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
    const response = this.#tell(`response.${status}`, answered)
    keepAnswer(this.#request, this.#view, response)
    return this.#take()
  }

  /**
   * Two events: the libraries raise at `error`, in which the envelope stands as well because some look for that alone;
   * agents that do not know it end at `response.failed`, from which they take the code.
   */
  fail(refusal: Refusal): Buffer {
    const { error } = envelope(inTheirTerms(refusal, this.#request.places))
    const { code, message, param } = error
    this.#event('error', { code, message, param, error })
    this.#tell('response.failed', { status: 'failed', output: this.#output.items(), error: { code, message } })
    return this.#take()
  }

  #begin(): void {
    if (this.#hasBegun) return
    this.#hasBegun = true
    for (const type of ['response.created', 'response.in_progress'])
      this.#tell(type, { status: 'in_progress', output: [] })
  }

  /** An event about the response as a whole. */
  #tell(type: string, answered: Omit<Answered, 'model'> & { readonly status: Status }): Fields {
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

/** The probabilities that a choice brings along with its text. */
export function logprobsOf(choice: { readonly [field: string]: unknown }): readonly unknown[] {
  const content = (choice['logprobs'] as { readonly content?: unknown } | null | undefined)?.content
  return Array.isArray(content) ? content : []
}
