/** One limit of a step: its bucket, its headers and its message. */
import { type BucketShape, formatSpan, type Grant, type Rate } from '#contract'

/** The unit in `x-ratelimit-*` headers and messages. */
export type Kind = 'requests' | 'tokens'

export interface Limit {
  readonly kind: Kind
  readonly rate: Rate
  readonly shape: BucketShape
  /** The prefix of the names of its buckets. */
  readonly prefix: string
}

/** The part of Koa's context that headers need. */
interface Headers {
  set(name: string, value: string): void
  readonly response: { get(name: string): string }
}

/** @param burst the amount that may come at once; default: that of one window */
export function createLimit(kind: Kind, rate: Rate, burst: number | undefined, prefix: string): Limit {
  return {
    kind,
    rate,
    shape: { capacity: burst ?? rate.amount, refillPerMs: rate.amount / rate.perMs },
    prefix: `${prefix}/${kind}/`,
  }
}

/**
 * Sets `x-ratelimit-limit-*`, `-remaining-*` and `-reset-*`, as api.openai.com does. A client sees the limit that it reaches first: a
 * tighter one of another step stays.
 */
export function showLimit(ctx: Headers, { kind, shape }: Limit, grant: Pick<Grant, 'remaining' | 'resetMs'>): void {
  const limit = ctx.response.get(`x-ratelimit-limit-${kind}`)
  if (limit !== '') {
    const remaining = Number(ctx.response.get(`x-ratelimit-remaining-${kind}`))
    // Compares the fractions that are left, without a division.
    if (remaining * shape.capacity <= grant.remaining * Number(limit)) return
  }
  const headers = limitHeaders(kind, shape, grant)
  for (const name in headers) ctx.set(name, headers[name]!)
}

export function limitHeaders(
  kind: Kind,
  shape: BucketShape,
  grant: Pick<Grant, 'remaining' | 'resetMs'>,
): Record<string, string> {
  return {
    [`x-ratelimit-limit-${kind}`]: String(shape.capacity),
    [`x-ratelimit-remaining-${kind}`]: String(grant.remaining),
    [`x-ratelimit-reset-${kind}`]: formatSpan(grant.resetMs),
  }
}

const WINDOWS: Record<number, string> = { 1000: 'second', 60000: 'minute', 3600000: 'hour', 86400000: 'day' }

/** The message of a refusal: the limit, the burst and the time of a retry. */
export function limitSentence({ kind, rate, shape }: Limit, whose: string, grant: Grant, needed?: number): string {
  const window = WINDOWS[rate.perMs] ?? formatSpan(rate.perMs)
  const need = needed === undefined ? '' : `, and this request may take ${needed}`
  const wait = formatSpan(grant.retryAfterMs)
  const what = rate.amount === 1 ? kind.slice(0, -1) : kind
  const burst = shape.capacity === rate.amount ? '' : `, and at most ${shape.capacity} at once`
  return `Rate limit reached: ${whose} has ${rate.amount} ${what} per ${window}${burst}${need}. Try again in ${wait}.`
}
