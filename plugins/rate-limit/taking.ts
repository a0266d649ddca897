/** One request and the buckets of its limits: whose they are, what is taken, and the refusal. */
import { addressGroup, type Chat, type Exchange, type FactName, type Grant, type MeteredUsage, refuse } from '#contract'
import { type Limit, limitHeaders, limitSentence } from './limit.ts'

/** The owner of a limit. */
export type Per = 'key' | 'account' | 'caller' | 'model' | 'address' | `tag ${string}`

/** Tokens that an exchange has taken from its bucket before anybody knows how many it uses. */
export interface Lending {
  readonly limit: Limit
  readonly who: string
  readonly estimate: number
}

/**
 * What an answer may take at most, roughly: a quarter of the request's bytes for the prompt, and every choice as long as
 * it may become.
 */
export function estimateTokens({ bytes, cap, choices }: Pick<Chat, 'bytes' | 'cap' | 'choices'>): number {
  return Math.ceil(bytes.length / 4) + cap * choices
}

/**
 * The real figure; no usage means that nothing was used. One answer leaves a debt of one whole window at most, whatever a
 * provider reports: its mistake must not shut somebody out for days.
 */
export function usedOf({ limit, estimate }: Lending, usage: MeteredUsage | null): number {
  const reported = usage ? count(usage.input ?? 0) + count(usage.output ?? 0) : 0
  return Math.min(reported, estimate + limit.shape.capacity)
}

/** A provider may report anything; what is no count is none. */
function count(tokens: number): number {
  return Number.isFinite(tokens) && tokens > 0 ? tokens : 0
}

/** The fact that a limit needs; null: none. */
export function factOf(per: Per): FactName | null {
  if (per === 'address') return null
  return per === 'caller' ? 'key' : per.startsWith('tag ') ? 'tags' : (per as 'key' | 'account' | 'model')
}

/** Whose bucket it is; null: the request has no such tag, and the limit is not for it. */
export function identify(exchange: Exchange, per: Per): string | null {
  switch (per) {
    case 'address':
      return `address:${addressGroup(exchange.address)}`
    case 'caller':
      return `caller:${exchange.key!.id}`
    case 'key':
    case 'account':
    case 'model':
      return `${per}:${exchange[per]!.id}`
  }
  const value: unknown = exchange.tags?.[per.slice(TAG.length)]
  return typeof value === 'string' ? `${per}:${value}` : null
}

const TAG = 'tag '

/** The refusal carries the headers of the limit that was reached, whatever tighter ones stand in the answer. */
export function refused(limit: Limit, per: Per, grant: Grant, needed?: number) {
  const whose = per.startsWith(TAG) ? `this value of the tag ${JSON.stringify(per.slice(TAG.length))}` : `this ${per}`
  return refuse('rate_limit_exceeded', {
    message: limitSentence(limit, whose, grant, needed),
    retryAfterMs: grant.retryAfterMs,
    headers: limitHeaders(limit.kind, limit.shape, grant),
  })
}
