/**
 * How fast: so many requests, and so many tokens, per key, account, model or address. Each is a token bucket that
 * refills evenly, so there is no edge of a window at which twice as much gets through.
 *
 * Tokens are only known at the end. So an estimate is taken before the request goes on, and corrected when the answer
 * is over: too much is given back, too little becomes a debt that refills first.
 */
import {
  addressGroup,
  type Chat,
  definePlugin,
  type Exchange,
  type Grant,
  type MeteredUsage,
  type Rate,
  refuse,
  type StepContext,
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
    const show = (ctx: StepContext, granted: Grant | undefined) => {
      if (requests && granted) showLimit(ctx, requests, granted)
    }
    /** Takes what a state server grants: it is asked for both limits in one round trip. */
    const overNetwork = async (ctx: StepContext, lending: Lending | null, asking: Promise<Grant>) => {
      const together = lending && take(lending)
      const granted = await asking
      if (!granted.taken) {
        if (lending && (await together)!.taken) await give(lending, lending.estimate)
        throw refused(requests!, settings.per, granted)
      }
      if (lending) return lend(ctx, lending, granted, await together!)
      show(ctx, granted)
      return null
    }
    const lend = (ctx: StepContext, lending: Lending, granted: Grant | undefined, lent: Grant) => {
      if (!lent.taken) {
        const refusal = refused(lending.limit, settings.per, lent, lending.estimate)
        // A request that was not let through is none.
        const given = requests && buckets.give(requests.prefix + lending.who, requests.shape, 1)
        if (!(given instanceof Promise)) throw refusal
        return given.then(() => Promise.reject(refusal))
      }
      show(ctx, granted)
      showLimit(ctx, lending.limit, lent)
      return lending
    }
    const take = ({ limit, who, estimate }: Lending) => buckets.take(limit.prefix + who, limit.shape, estimate)
    const give = ({ limit, who }: Lending, amount: number) => buckets.give(limit.prefix + who, limit.shape, amount)
    return {
      decide(ctx) {
        const { exchange } = ctx
        const who = identify(exchange, settings.per)
        // Counted tokens reach no model. The loader has made sure of `chat`: it is in `needs` when there is a limit of tokens.
        const lending =
          tokens && !exchange.route.counts
            ? { limit: tokens, who, estimate: Math.min(tokens.shape.capacity, estimateTokens(exchange.chat!)) }
            : null
        const granted = requests && buckets.take(requests.prefix + who, requests.shape, 1)
        if (granted instanceof Promise) return overNetwork(ctx, lending, granted)
        if (granted && !granted.taken) throw refused(requests!, settings.per, granted)
        if (lending) {
          const lent = take(lending)
          return lent instanceof Promise
            ? lent.then(each => lend(ctx, lending, granted, each))
            : lend(ctx, lending, granted, lent)
        }
        show(ctx, granted)
        return null
      },
      after({ exchange }, _outcome, lending: Lending | null) {
        if (lending === null) return
        const used = usedOf(lending, exchange.usage)
        if (used !== lending.estimate) return give(lending, lending.estimate - used)
      },
    }
  },
})

/** Tokens that an exchange has taken from its bucket before anybody knows how many it uses. */
interface Lending {
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
function usedOf({ limit, estimate }: Lending, usage: MeteredUsage | null): number {
  const reported = usage ? count(usage.input ?? 0) + count(usage.output ?? 0) : 0
  return Math.min(reported, estimate + limit.shape.capacity)
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
