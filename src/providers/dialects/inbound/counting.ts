/**
 * Requests that count the tokens of a prompt: the format's own body with fewer fields, answered by a number. The number is the
 * `usage.prompt_tokens` of the completion that represents the answer.
 */
import type { InboundDialect, RouteKind } from '#contract'

/** More than any model's maximum: a count needs no output, so the cap must not limit the prompt. */
const ANY_CAP = Number.MAX_SAFE_INTEGER

const STREAMING = ['stream', 'stream_options']

interface Counting {
  /** Added to the body if missing, because the format requires it in a normal request. */
  readonly added: Readonly<Record<string, unknown>>
  /** Removed from the body: only counts have these fields, and they do not affect the size. */
  readonly ignored: readonly string[]
  encodeCount(tokens: number): object
}

function counting(inbound: InboundDialect, { added, ignored, encodeCount }: Counting): InboundDialect {
  return {
    ...inbound,
    decodeRequest(body, view) {
      const request = inbound.decodeRequest(isObject(body) ? without(ignored, { ...added, ...body }) : body, view)
      return {
        ...request,
        // A count is never a stream. Other invalid fields are refused as in a normal request.
        body: request.body['stream'] === true ? without(STREAMING, request.body) : request.body,
        encodeAnswer: ({ usage }) => Buffer.from(JSON.stringify(encodeCount(usage?.prompt_tokens ?? 0))),
      }
    },
  }
}

/** The formats of the counting routes. */
export function countingDialects(
  messages: InboundDialect,
  responses: InboundDialect,
): Readonly<Partial<Record<RouteKind, InboundDialect>>> {
  return {
    messages: counting(messages, {
      added: { max_tokens: ANY_CAP },
      ignored: [],
      encodeCount: tokens => ({ input_tokens: tokens }),
    }),
    responses: counting(responses, {
      added: {},
      ignored: ['personality'],
      encodeCount: tokens => ({ object: 'response.input_tokens', input_tokens: tokens }),
    }),
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function without(names: readonly string[], body: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(body).filter(([name]) => !names.includes(name)))
}
