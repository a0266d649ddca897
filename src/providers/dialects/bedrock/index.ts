/**
 * The dialect of Amazon Bedrock's Converse, one format for the models of many vendors. Requests are signed elsewhere (sigv4.ts).
 * Streams consist of binary frames (event-stream.ts).
 */
import type { Chat, Dialect, EncodedRequest, Target } from '#contract'
import type { Redact } from '../failure.ts'
import { decodeAnswer } from './answer.ts'
import { awsErrorIn, awsFailures } from './failures.ts'
import { bedrockCounting } from './invoke.ts'
import { encodeBody, modelRequest } from './request.ts'
import { decodeConverseStream } from './stream.ts'

export { bedrockInvokeDialect } from './invoke.ts'
export { type AwsCredentials, authorizeBedrock, type SignedRequest, signRequest } from './sigv4.ts'

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact removes the gateway's own secrets from a provider's words
 */
export function bedrockDialect(now: () => number, redact?: Redact): Dialect {
  const fail = awsFailures(now, redact)
  return {
    name: 'bedrock',
    encodeRequest,
    counting: bedrockCounting,
    decodeAnswer,
    decodeStream: view => decodeConverseStream(view, fail),
    decodeError: (status, headers, body) => fail(awsErrorIn(status, headers, body)),
  }
}

function encodeRequest(chat: Chat, { model }: Target): EncodedRequest {
  const { body, dropped } = encodeBody(chat, model)
  return modelRequest(chat, model, chat.stream ? 'converse-stream' : 'converse', body, dropped)
}
