/** Encodes a refusal: the JSON error in the client's format, with the headers that client libraries read. */
import { type IncomingMessage, validateHeaderName, validateHeaderValue } from 'node:http'
import type { Context } from 'koa'
import { envelope, type Refusal, type RouteKind, retryHeaders } from '#contract'
import { inboundOf } from '../../providers/dialects/inbound/index.ts'
import { FRAMING } from '../answer/client.ts'
import { lingerAtEnd } from '../http/linger.ts'
import { decisionHeader } from './decision-header.ts'

/**
 * The body of an error in the format of the client.
 * @param kind of the route; undefined: without a route, the path alone determines the format
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

/** Everything at and below `/v1/messages`, after any prefix. */
const MESSAGES_PATH = /^[^?#]*\/v1\/messages(?:[/?#]|$)/

/**
 * Whether the client uses Anthropic's API. It does if its path is at or below that of Messages, whatever the route. On paths that both
 * APIs share, and without a route, it does if it sends `anthropic-version`.
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
 * Sends the JSON error with the headers that client libraries read; also used before an exchange exists.
 * @param body see `errorBody`
 * @param of `decidedBy`: left out: the gateway, if a route was found. `dropped` is called with the names of headers that cannot be sent.
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
    // The rest of the body would be read as the next request.
    ...(unread ? { connection: 'close' } : {}),
  }
  send(refusal.status, headers, body)
}

/** A step's own headers, without those that Node rejects or that would break the framing. */
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
