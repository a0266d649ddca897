/**
 * Anthropic's Messages API for clients, with any model of the gateway. The parameters are in request.ts. kept-reasoning.ts describes how
 * clients send reasoning and its signatures back.
 */
import type { InboundDialect, InboundRequest, InboundView, Refusal } from '#contract'
import { encodeMessage } from './answer.ts'
import { errorBody, inClientTerms } from './errors.ts'
import { decodeRequestBody } from './request.ts'
import { MessageStreamEncoder } from './stream.ts'

export const messagesInbound: InboundDialect = {
  name: 'messages',
  idHeader: 'request-id',
  decodeRequest,
  encodeError: (refusal, { exchange }) => errorBody(refusal, exchange),
}

function decodeRequest(value: unknown, view: InboundView): InboundRequest {
  const request = decodeRequestBody(value, view)
  const { model: requested, stop } = request.body as { readonly model?: unknown; readonly stop?: readonly unknown[] }
  const { showsReasoning, toolNames } = request
  const context = { exchange: view.exchange, stopSequences: stop ?? [], showsReasoning, toolNames }
  const model = typeof requested === 'string' ? requested : ''
  const sizes = { promptTokens: view.promptTokens ?? (() => 0), context: view.findModel?.(model)?.context }
  const explain = (refusal: Refusal) => inClientTerms(refusal, request, sizes)
  return {
    body: request.body,
    dropped: [...request.dropped.keys()],
    hidesReasoning: !showsReasoning,
    encodeAnswer: completion => encodeMessage(completion, context),
    encodeStream: soFar => new MessageStreamEncoder(context, model, explain, soFar),
    encodeError: refusal => errorBody(explain(refusal), view.exchange),
  }
}
