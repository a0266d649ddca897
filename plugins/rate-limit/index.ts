/**
 * How fast: so many requests, and so many tokens, per key, account, model or address. Each is a token bucket that
 * refills evenly, so there is no edge of a window at which twice as much gets through.
 *
 * Tokens are only known at the end. So an estimate is taken before the request goes on, and corrected when the answer
 * is over: too much is given back, too little becomes a debt that refills first.
 */
import {
  addressGroup,
  type Buckets,
  type Chat,
  definePlugin,
  type Exchange,
  type Grant,
  type MeteredUsage,
  type Rate,
  refuse,
  unit,
} from '#contract'
import { createLimit, type Limit, limitHeaders, limitSentence, showLimit } from './limit.ts'

interface Settings {
  readonly per: 'key' | 'account' | 'model' | 'address'
  readonly requests?: Rate
  readonly burst?: number
  readonly tokens?: Rate
}

export default definePlugin({
  name: 'rate-limit',
  description: 'Limits requests and tokens per time, for each key, account, model or address.',
  dryRun: true,
  needs: (settings: Settings) => [
    ...(settings.per === 'address' ? [] : [settings.per]),
    ...(settings.tokens ? (['chat'] as const) : []),
  ],
  needsBody: false,
  uses: ['buckets'],
  settings: {
    type: 'object',
    additionalProperties: false,
    properties: {
      per: { enum: ['key', 'account', 'model', 'address'], description: 'Who has a limit of their own.' },
      requests: { ...unit('rate'), description: 'Requests per time: "60 per minute".' },
      burst: {
        type: 'integer',
        minimum: 1,
        description: 'How many requests may come at once. Default: one window of `requests`.',
      },
      tokens: { ...unit('rate'), description: 'Tokens of prompts and answers per time: "200k per minute".' },
    },
    required: ['per'],
    anyOf: [{ required: ['requests'] }, { required: ['tokens'] }],
    dependentRequired: { burst: ['requests'] },
  },
  create(settings: Settings, { buckets }, { policy, id }) {
    // A step's own, and found again after a reload.
    const prefix = `${policy}/${id}`
    const requests = settings.requests && createLimit('requests', settings.requests, settings.burst, prefix)
    const tokens = settings.tokens && createLimit('tokens', settings.tokens, undefined, prefix)
    return async (ctx, next) => {
      const { exchange } = ctx
      const who = identify(exchange, settings.per)
      const asked = requests && buckets.take(requests.prefix + who, requests.shape, 1)
      // Counted tokens reach no model.
      const counted = exchange.route.counts ? undefined : tokens
      // The loader has made sure of `chat`: it is in `needs` when there is a limit of tokens.
      const estimate = counted ? Math.min(counted.shape.capacity, estimateTokens(exchange.chat!)) : 0
      // A state server is asked for both in one round trip.
      const together =
        counted && asked instanceof Promise ? buckets.take(counted.prefix + who, counted.shape, estimate) : undefined
      const granted = await asked
      if (requests && granted && !granted.taken) {
        if (counted && (await together)?.taken) await buckets.give(counted.prefix + who, counted.shape, estimate)
        throw refused(requests, settings.per, granted)
      }
      if (!counted) {
        if (requests && granted) showLimit(ctx, requests, granted)
        return next()
      }
      const lent = await (together ?? buckets.take(counted.prefix + who, counted.shape, estimate))
      if (!lent.taken) {
        // A request that was not let through is none.
        if (requests) await buckets.give(requests.prefix + who, requests.shape, 1)
        throw refused(counted, settings.per, lent, estimate)
      }
      if (requests && granted) showLimit(ctx, requests, granted)
      showLimit(ctx, counted, lent)
      try {
        await next()
      } finally {
        await correct(buckets, counted, who, estimate, exchange.usage)
      }
    }
  },
})

/**
 * What an answer may take at most, roughly: a quarter of the request's bytes for the prompt, and every choice as long as
 * it may become.
 */
export function estimateTokens({ bytes, cap, choices }: Pick<Chat, 'bytes' | 'cap' | 'choices'>): number {
  return Math.ceil(bytes.length / 4) + cap * choices
}

/**
 * Puts the real figure in the estimate's place; no usage means that nothing was used. One answer leaves a debt of one
 * whole window at most, whatever a provider reports: its mistake must not shut somebody out for days.
 */
async function correct(buckets: Buckets, tokens: Limit, who: string, estimate: number, usage: MeteredUsage | null) {
  const reported = usage ? count(usage.input ?? 0) + count(usage.output ?? 0) : 0
  const used = Math.min(reported, estimate + tokens.shape.capacity)
  if (used !== estimate) await buckets.give(tokens.prefix + who, tokens.shape, estimate - used)
}

/** A provider may report anything; what is no count is none. */
function count(tokens: number): number {
  return Number.isFinite(tokens) && tokens > 0 ? tokens : 0
}

function identify(exchange: Exchange, per: Settings['per']): string {
  if (per === 'address') return `address:${addressGroup(exchange.address)}`
  return `${per}:${exchange[per]!.id}`
}

/** The refusal carries the headers of the limit that was reached, whatever tighter ones stand in the answer. */
function refused(limit: Limit, per: Settings['per'], grant: Grant, needed?: number) {
  return refuse('rate_limit_exceeded', {
    message: limitSentence(limit, `this ${per}`, grant, needed),
    retryAfterMs: grant.retryAfterMs,
    headers: limitHeaders(limit.kind, limit.shape, grant),
  })
}
