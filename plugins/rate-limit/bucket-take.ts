/** One request and the buckets of its limits: their owners, the amounts, and the refusal. */
import {
  addressGroup,
  type Chat,
  type Exchange,
  type FactName,
  type Grant,
  type MeteredUsage,
  refuse,
  tagOf,
} from '#contract'
import { type Limit, limitHeaders, limitSentence } from './limit.ts'

/** The owner of a limit. */
export type Per = 'key' | 'account' | 'caller' | 'model' | 'address' | `tag ${string}`

/** The amount that an exchange takes from a bucket. For tokens it is an estimate until the usage is known. */
export interface BucketTake {
  readonly limit: Limit
  readonly who: string
  readonly estimate: number
}

/** An estimate of the tokens: a quarter of the request's bytes for the prompt, and the output cap for each choice. */
export function estimateTokens({ bytes, cap, choices }: Pick<Chat, 'bytes' | 'cap' | 'choices'>): number {
  return Math.ceil(bytes.length / 4) + cap * choices
}

/**
 * The tokens of the usage; 0 without one. At most twice a window, so that an answer leaves a debt
 * of one window at most. A mistake of the provider must not lock out a client for days.
 */
export function usedOf({ limit, estimate }: BucketTake, usage: MeteredUsage | null): number {
  const reported = usage ? count(usage.input ?? 0) + count(usage.output ?? 0) : 0
  return Math.min(reported, estimate + limit.shape.capacity)
}

/** A provider may report anything; a value that is not a count is 0. */
function count(tokens: number): number {
  return Number.isFinite(tokens) && tokens > 0 ? tokens : 0
}

/** The fact that a limit needs; null: none. */
export function factOf(per: Per): FactName | null {
  if (per === 'address') return null
  return per === 'caller' ? 'key' : tagOf(per) === null ? (per as 'key' | 'account' | 'model') : 'tags'
}

/**
 * The owner of a bucket. Values of a tag have one each within an account, so that no account uses up the limit of another. Requests
 * without the tag share one, as they share a budget.
 */
export function identify(exchange: Exchange, per: Per): string {
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
  return `${per}:${exchange.account?.id ?? ''}:${tagValue(exchange, tagOf(per)!)}`
}

/** Empty for a request without the tag. */
function tagValue({ tags }: Exchange, name: string): string {
  return tags !== undefined && Object.hasOwn(tags, name) ? tags[name]! : ''
}

/** The owner of the bucket, in the message of a refusal. */
export function whoseOf(exchange: Exchange, per: Per): string {
  const name = tagOf(per)
  if (name === null) return `this ${per}`
  const tag = `the tag ${JSON.stringify(name)}`
  return tagValue(exchange, name) === '' ? `the empty value of ${tag}` : `this value of ${tag}`
}

/** The refusal has the headers of the limit that was reached, even if another one is tighter. */
export function refused(limit: Limit, whose: string, grant: Grant, needed?: number) {
  return refuse('rate_limit_exceeded', {
    message: limitSentence(limit, whose, grant, needed),
    retryAfterMs: grant.retryAfterMs,
    headers: limitHeaders(limit.kind, limit.shape, grant),
  })
}
