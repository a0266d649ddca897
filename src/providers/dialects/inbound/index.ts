/** The inbound formats besides chat completions, by the kind of route. */
import type { InboundDialect, RouteKind, RouteView } from '#contract'
import { countingDialects } from './counting.ts'
import { messagesInbound } from './messages/index.ts'
import { responsesInbound } from './responses/index.ts'

const FORMATS: Readonly<Partial<Record<RouteKind, InboundDialect>>> = {
  messages: messagesInbound,
  responses: responsesInbound,
}
const COUNTING = countingDialects(messagesInbound, responsesInbound)

/** The format of a route; undefined for chat completions and for routes without a format. */
export function inboundOf({ kind, counts }: Pick<RouteView, 'kind' | 'counts'>): InboundDialect | undefined {
  return counts ? COUNTING[kind] : FORMATS[kind]
}
