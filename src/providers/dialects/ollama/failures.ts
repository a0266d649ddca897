/** Reads Ollama's errors: `{error: "a sentence"}`, from its cloud also with a `StatusCode`. */
import type { UpstreamFailure } from '#contract'
import { type ErrorDetails, errorDetails, failureInside, failureOf, type Redact } from '../failure.ts'
import type { Fields } from '../translate/value.ts'

type Headers = Readonly<Record<string, string>>

export interface ErrorReader {
  /** An answer with an error status. */
  answer(status: number, headers: Headers, body: Buffer): UpstreamFailure
  /** A parsed error that came with status 200. */
  inside(value: Fields): UpstreamFailure
}

/** The registry before a model's name in Ollama's sentences, which is of no use to a client. */
const REGISTRY = /\b[\w.-]+\/library\//g

/** @param now milliseconds since the epoch, for a Retry-After that is a date */
export function errorReader(now: () => number, redact: Redact = text => text): ErrorReader {
  const clean: Redact = text => redact(text).replace(REGISTRY, '')
  const failure = (status: number, headers: Headers, details: ErrorDetails) =>
    failureOf(status, headers, details, now(), clean)
  return {
    answer: (status, headers, body) => failure(status, headers, errorDetails(body)),
    inside: value => failureInside(value, failure),
  }
}
