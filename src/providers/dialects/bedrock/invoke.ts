/**
 * Bedrock's older way to Claude, InvokeModel: the Messages API of Anthropic inside of AWS's framing. It carries what
 * Converse does not (one call at a time, for instance). Other models have formats of their own here: they go by Converse.
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
 * @param redact takes the gateway's own secrets out of what a provider says
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
 * CountTokens, for either way to Claude; AWS counts for no other maker's models. It takes the body of InvokeModel in base64,
 * cap included; of one of Converse it was seen to leave the tools uncounted.
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

/** Behind an ARN there may be any model: that of an application's inference profile does not say which. */
const MAY_BE_CLAUDE = /claude|^arn:/i

function encodeRequest(chat: Chat, { model }: Target): EncodedRequest {
  if (!MAY_BE_CLAUDE.test(model)) {
    const message = `The model '${model}' is none of Anthropic's, and this provider is set up for those only.`
    throw refuse('unsupported_parameter', { message, param: 'model' })
  }
  const { body, dropped } = invokeBody(chat, model)
  return modelRequest(chat, model, chat.stream ? 'invoke-with-response-stream' : 'invoke', body, dropped)
}

/** AWS hosts the models, and nothing that searches for them. */
function invokeBody(chat: Chat, model: string) {
  refuseSearches(chat.body)
  const { body, dropped } = encodeMessages(chat, model, 'cloud', marksFor(model))
  return { body: { anthropic_version: 'bedrock-2023-05-31', ...body }, dropped }
}

/** What an ARN hides takes marks, as nearly every model does by now, but perhaps no times. */
function marksFor(model: string): 'timed' | 'plain' | 'none' {
  if (!/claude/i.test(model)) return 'plain'
  const { caching, timedCaching } = traitsOf(model)
  if (caching === 'none') return 'none'
  return timedCaching ? 'timed' : 'plain'
}

/** Each frame holds one event of the Messages API, in base64. */
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
