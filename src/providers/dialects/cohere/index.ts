/** The Cohere dialect: version 2 of its Chat API. The provider's `base_url` includes the version: `https://api.cohere.com/v2`. */
import type { Dialect } from '#contract'
import type { Redact } from '../failure.ts'
import { decodeAnswer } from './answer.ts'
import { errorReader } from './failures.ts'
import { encodeRequest } from './request.ts'
import { CohereStream } from './stream.ts'

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact removes the gateway's own secrets from a provider's words
 */
export function cohereDialect(now: () => number, redact?: Redact): Dialect {
  const errors = errorReader(now, redact)
  return {
    name: 'cohere',
    encodeRequest,
    decodeAnswer: (body, view) => decodeAnswer(body, view, errors),
    decodeStream: view => new CohereStream(view, errors),
    decodeError: (status, headers, body) => errors.answer(status, headers, body),
  }
}
