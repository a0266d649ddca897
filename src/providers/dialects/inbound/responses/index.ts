/**
 * OpenAI's Responses format for clients: `POST /v1/responses` with text, images, files and tools, whole and as a stream. Each request
 * has its whole conversation, unless the route keeps earlier answers.
 */
import { type ChatCompletion, envelope, type InboundDialect, type InboundRequest, type InboundView } from '#contract'
import { keepAnswer, readAhead } from './kept.ts'
import { outputFor } from './output.ts'
import { inClientTerms } from './places.ts'
import { type ReadRequest, readRequest } from './request.ts'
import { cutOf, responseOf, statusOf } from './response.ts'
import { logprobsOf, ResponseEvents } from './stream.ts'

export const responsesInbound: InboundDialect = {
  name: 'responses',
  decodeRequest,
  readAhead,
  // Before the body is read, there are no places to translate.
  encodeError: refusal => JSON.stringify(envelope(refusal)),
}

function decodeRequest(body: unknown, view: InboundView): InboundRequest {
  const request = readRequest(body, view)
  return {
    body: request.body,
    dropped: request.dropped,
    encodeAnswer: completion => encodeAnswer(completion, request, view),
    encodeStream: () => new ResponseEvents(request, view),
    encodeError: refusal => JSON.stringify(envelope(inClientTerms(refusal, request.places))),
  }
}

/** Encodes a whole answer, like a stream with a single delta, without the events. */
function encodeAnswer(completion: ChatCompletion, request: ReadRequest, view: InboundView): Buffer {
  const { model, usage, service_tier: serviceTier } = completion
  const output = outputFor(request, view, () => {})
  const choice = completion.choices.find(choice => (choice?.index ?? 0) === 0)
  if (choice?.message) output.add(choice.message, logprobsOf(choice))
  const cut = cutOf(choice?.finish_reason)
  const items = output.end(cut !== null)
  const response = responseOf(request.asked, view, {
    status: statusOf(cut, items),
    output: items,
    model,
    usage: usage ?? null,
    cut,
    serviceTier,
  })
  keepAnswer(request, view, response)
  return Buffer.from(JSON.stringify(response))
}
