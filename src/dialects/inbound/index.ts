/** The formats beside chat completions in which clients may speak, by the kind of route on which they do. */
import type { InboundDialect, RouteKind } from '#contract'
import { messagesInbound } from './messages/index.ts'
import { responsesInbound } from './responses/index.ts'

export const INBOUND: Readonly<Partial<Record<RouteKind, InboundDialect>>> = {
  messages: messagesInbound,
  responses: responsesInbound,
}
