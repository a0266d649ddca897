/** A refusal as bytes: the JSON error in the client's format, with the headers that client libraries look for. */
import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http'
import type { Context } from 'koa'
import { envelope, type Refusal, type RouteKind, retryHeaders } from '#contract'
import { inboundOf } from '../../providers/dialects/inbound/index.ts'
import { FRAMING } from '../answer/client.ts'
import { lingerAtEnd } from '../http/linger.ts'
import { decisionHeader } from './decision.ts'

/**
 * The body of an error in the format of the client.
 * @param kind of the route; undefined: none was found, and the path alone says what the client speaks
 */
export function errorBody(
  request: Pick<IncomingMessage, 'url' | 'headers'>,
  kind: RouteKind | undefined,
  refusal: Refusal,
  exchange: string,
): string {
  const inbound = inboundOf({ kind: isForAnthropic(request, kind) ? 'messages' : (kind ?? 'chat') })
  return inbound ? inbound.encodeError(refusal, { exchange }) : JSON.stringify(envelope(refusal))
}

/** Everything at and below `/v1/messages`, behind any prefix. */
const MESSAGES_PATH = /^[^?#]*\/v1\/messages(?:[/?#]|$)/

/**
 * Whether the client speaks Anthropic's API: it asks below the path of Messages, whatever the route there is, or says a
 * version of that API where both makers have the same path, or without a route.
 */
export function isForAnthropic(
  { url = '', headers }: Pick<IncomingMessage, 'url' | 'headers'>,
  kind: RouteKind | undefined,
): boolean {
  const saysVersion = headers['anthropic-version'] !== undefined
  if (kind === 'models' || kind === 'model') return saysVersion
  return MESSAGES_PATH.test(url) || (kind === undefined && saysVersion)
}

/**
 * The JSON error with the headers that client libraries look for; also used before there is an exchange.
 * @param body see `errorBody`
 * @param of who decided (left out: the gateway itself, where a route was found); told the names of headers that cannot be
 * sent, and are left out
 */
export function sendRefusal(
  ctx: Context,
  refusal: Refusal,
  body: string,
  send: (status: number, headers: Record<string, string>, body: string) => void,
  of: { readonly decidedBy?: string | null; readonly dropped?: (name: string) => void } = {},
): void {
  const decider = of.decidedBy ?? (ctx.state['kind'] === undefined ? null : 'gateway')
  const unread = !ctx.req.complete
  if (unread) lingerAtEnd(ctx.req)
  const headers: Record<string, string> = {
    ...sendableHeaders(refusal, of.dropped ?? (() => {})),
    ...retryHeaders(refusal),
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...(decider === null ? {} : { 'x-tollgate-decision': decisionHeader(decider, refusal.code) }),
    // What is still coming of the body would be taken for the next request.
    ...(unread ? { connection: 'close' } : {}),
  }
  send(refusal.status, headers, body)
}

/** A step's own headers, without those that Node would throw at, or that would break the framing. */
function sendableHeaders({ headers }: Refusal, dropped: (name: string) => void): Record<string, string> {
  const sendable: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (canBeSent(name, value) && !FRAMING.includes(name.toLowerCase())) sendable[name.toLowerCase()] = value
    else dropped(name)
  }
  return sendable
}

function canBeSent(name: string, value: string): boolean {
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return true
  } catch {
    return false
  }
}
