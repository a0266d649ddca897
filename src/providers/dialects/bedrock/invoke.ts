/**
 * Bedrock's InvokeModel for Claude: Anthropic's Messages API inside AWS's framing. It supports features that Converse lacks (one call
 * at a time, for example). Other models have their own formats here, so they use Converse.
 */
import {
  type AnswerView,
  type Chat,
  type Dialect,
  type EncodedRequest,
  refuse,
  type StreamDecoder,
  type Target,
  type TokenCounting,
} from '#contract'
import { decodeMessage, type ErrorReader, encodeMessages, errorReader, MessageEvents } from '../anthropic/index.ts'
import type { Redact } from '../failure.ts'
import { ChunkWriter } from '../translate/completion.ts'
import { refuseSearches } from '../translate/native.ts'
import { awsErrorIn, awsFailures, type FailAws } from './failures.ts'
import { modelRequest } from './request.ts'
import { awsErrorOf, decodeFrames, isEvent, jsonIn } from './stream.ts'
import { traitsOf } from './traits.ts'

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact removes the gateway's own secrets from a provider's words
 */
export function bedrockInvokeDialect(now: () => number, redact?: Redact): Dialect {
  const errors = errorReader(now, redact)
  const fail = awsFailures(now, redact)
  return {
    name: 'bedrock-invoke',
    encodeRequest,
    counting: bedrockCounting,
    decodeAnswer: (body, view) => decodeMessage(body, view, errors),
    decodeStream: view => decodeInvokeStream(view, errors, fail),
    decodeError: (status, headers, body) => fail(awsErrorIn(status, headers, body)),
  }
}

/**
 * CountTokens, for Claude over Converse or InvokeModel; AWS counts for no other vendor's models. It takes the body of InvokeModel in
 * base64, cap included. With a Converse body it was seen to ignore the tools.
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CountTokens.html
 */
export const bedrockCounting: TokenCounting = {
  encodeRequest(chat, { model }) {
    if (!MAY_BE_CLAUDE.test(model)) return null
    const body = Buffer.from(JSON.stringify(invokeBody(chat, model).body)).toString('base64')
    return modelRequest({ stream: false }, model, 'count-tokens', { input: { invokeModel: { body } } }, [])
  },
  field: 'inputTokens',
}

/** An ARN may belong to any model: the ARN of an application's inference profile does not contain its name. */
const MAY_BE_CLAUDE = /claude|^arn:/i

function encodeRequest(chat: Chat, { model }: Target): EncodedRequest {
  if (!MAY_BE_CLAUDE.test(model)) {
    const message = `The model '${model}' is not Anthropic's. The dialect bedrock-invoke is for Anthropic's models only; use the dialect bedrock.`
    throw refuse('unsupported_parameter', { message, param: 'model' })
  }
  const { body, dropped } = invokeBody(chat, model)
  return modelRequest(chat, model, chat.stream ? 'invoke-with-response-stream' : 'invoke', body, dropped)
}

/** AWS hosts the models, but no web search. */
function invokeBody(chat: Chat, model: string) {
  refuseSearches(chat.body)
  const { body, dropped } = encodeMessages(chat, model, 'cloud', marksFor(model))
  return { body: { anthropic_version: 'bedrock-2023-05-31', ...body }, dropped }
}

/** The unknown model of an ARN gets marks, because nearly every model supports them, but without a TTL. */
function marksFor(model: string): 'timed' | 'plain' | 'none' {
  if (!/claude/i.test(model)) return 'plain'
  const { caching, timedCaching } = traitsOf(model)
  if (caching === 'none') return 'none'
  return timedCaching ? 'timed' : 'plain'
}

/** Each frame has one event of the Messages API, in base64. */
function decodeInvokeStream(view: AnswerView, errors: ErrorReader, fail: FailAws): StreamDecoder {
  const writer = new ChunkWriter(view)
  const machine = new MessageEvents(writer, errors)
  return decodeFrames(writer, message => {
    const { headers, payload } = message
    if (!isEvent(headers)) writer.fail(fail(awsErrorOf(message)))
    else if (headers.get(':event-type') === 'chunk') {
      const bytes = jsonIn(payload)?.['bytes']
      machine.event(typeof bytes === 'string' ? jsonIn(Buffer.from(bytes, 'base64')) : null)
    }
  })
}
