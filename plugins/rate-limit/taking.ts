/** One request and the buckets of its limits: whose they are, what is taken, and the refusal. */
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

/** Tokens that an exchange takes from its bucket before its usage is known. */
export interface Lending {
  readonly limit: Limit
  readonly who: string
  readonly estimate: number
}

/**
 * A rough bound of the tokens: a quarter of the request's bytes for the prompt, and the output cap for each choice.
 */
export function estimateTokens({ bytes, cap, choices }: Pick<Chat, 'bytes' | 'cap' | 'choices'>): number {
  return Math.ceil(bytes.length / 4) + cap * choices
}

/**
 * The real figure; no usage means that nothing was used. One answer leaves a debt of one whole window at most, whatever a
 * provider reports: its mistake must not lock a client out for days.
 */
export function usedOf({ limit, estimate }: Lending, usage: MeteredUsage | null): number {
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
 * Whose bucket it is. One for each value of a tag within an account, so that no account uses up the limit of another by its
 * values. Requests without the tag share one, as they share a budget.
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

/** Empty: the request does not have the tag. */
function tagValue({ tags }: Exchange, name: string): string {
  return tags !== undefined && Object.hasOwn(tags, name) ? tags[name]! : ''
}

/** Whom the bucket is for, in the sentence of a refusal. */
export function whoseOf(exchange: Exchange, per: Per): string {
  const name = tagOf(per)
  if (name === null) return `this ${per}`
  const tag = `the tag ${JSON.stringify(name)}`
  return tagValue(exchange, name) === '' ? `the empty value of ${tag}` : `this value of ${tag}`
}

/** The refusal carries the headers of the limit that was reached, whatever tighter ones are in the answer. */
export function refused(limit: Limit, whose: string, grant: Grant, needed?: number) {
  return refuse('rate_limit_exceeded', {
    message: limitSentence(limit, whose, grant, needed),
    retryAfterMs: grant.retryAfterMs,
    headers: limitHeaders(limit.kind, limit.shape, grant),
  })
}
