/**
 * The Ollama dialect: its own chat API, with a stream of JSON lines. The provider's `base_url` is the server itself:
 * `http://127.0.0.1:11434`.
 */
import type { Dialect } from '#contract'
import type { Redact } from '../failure.ts'
import { decodeAnswer } from './answer.ts'
import { errorReader } from './failures.ts'
import { encodeRequest } from './request.ts'
import { OllamaStream } from './stream.ts'

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact removes the gateway's own secrets from a provider's words
 */
export function ollamaDialect(now: () => number, redact?: Redact): Dialect {
  const errors = errorReader(now, redact)
  return {
    name: 'ollama',
    encodeRequest,
    decodeAnswer: (body, view) => decodeAnswer(body, view, errors),
    decodeStream: view => new OllamaStream(view, errors),
    decodeError: (status, headers, body) => errors.answer(status, headers, body),
  }
}
