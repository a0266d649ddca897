/**
 * The Gemini dialect: `generateContent` of Google's Gemini API (AI Studio) and of Vertex AI. The provider's `base_url`
 * ends before `/models`: `https://generativelanguage.googleapis.com/v1beta`, or on Vertex
 * `https://aiplatform.googleapis.com/v1/projects/PROJECT/locations/global/publishers/google`.
 */
import type { Dialect } from '#contract'
import { detailsOf, errorDetails, type Redact } from '../failure.ts'
import { decodeAnswer } from './answer.ts'
import { failures } from './failures.ts'
import { encodeCount, encodeRequest } from './request.ts'
import { GeminiStream } from './stream.ts'
import type { Platform } from './traits.ts'

export type { Platform } from './traits.ts'

export interface GeminiOptions {
  /** The platforms differ in what models support and in how files are named. */
  readonly platform: Platform
}

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact removes the gateway's own secrets from a provider's words
 */
export function geminiDialect(
  now: () => number,
  redact?: Redact,
  { platform }: GeminiOptions = { platform: 'studio' },
): Dialect {
  const fail = failures(now, redact)
  return {
    name: platform === 'vertex' ? 'vertex' : 'gemini',
    encodeRequest: (chat, target) => encodeRequest(chat, target, platform),
    counting: { encodeRequest: (chat, target) => encodeCount(chat, target, platform), field: 'totalTokens' },
    decodeAnswer: (body, view) => decodeAnswer(body, view, fail),
    decodeStream: view => new GeminiStream(view, fail),
    decodeError(status, headers, body) {
      const parsed = parse(body)
      return fail(status, headers, parsed === undefined ? errorDetails(body) : detailsOf(parsed), parsed)
    },
  }
}

/** The headers that authenticate at the Gemini API. The key is never in the URL. */
export function geminiHeaders(apiKey: string): Record<string, string> {
  return { 'x-goog-api-key': apiKey }
}

/** The headers that authenticate at Vertex. @param token an OAuth access token, which the caller must get */
export function vertexHeaders(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` }
}

function parse(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}
