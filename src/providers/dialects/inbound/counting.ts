/**
 * The requests by which clients have the tokens of a prompt counted: the format's own body with less in it, and a number for
 * an answer. A completion that stands for the answer says the number in its `usage.prompt_tokens`.
 */
import type { InboundDialect, RouteKind } from '#contract'

/** More than any model gives: a count asks for no output, so no cap of its own may keep anything out of the prompt. */
const ANY_CAP = Number.MAX_SAFE_INTEGER

const STREAMING = ['stream', 'stream_options']

interface Counting {
  /** Added to the body where the client leaves it out, because the format demands it of a request for an answer. */
  readonly added: Readonly<Record<string, unknown>>
  /** Left out of the body: the format has it for counts alone, and it says nothing of the prompt's size. */
  readonly ignored: readonly string[]
  /** The body of the answer. */
  encodeCount(tokens: number): object
}

function counting(inbound: InboundDialect, { added, ignored, encodeCount }: Counting): InboundDialect {
  return {
    ...inbound,
    decodeRequest(body, view) {
      const request = inbound.decodeRequest(isObject(body) ? without(ignored, { ...added, ...body }) : body, view)
      return {
        ...request,
        // A count is never a stream. What else stands there is refused as in a request for an answer.
        body: request.body['stream'] === true ? without(STREAMING, request.body) : request.body,
        encodeAnswer: ({ usage }) => Buffer.from(JSON.stringify(encodeCount(usage?.prompt_tokens ?? 0))),
      }
    },
  }
}

/** The same formats on the routes that count. */
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
