/**
 * Limits requests and tokens per time for each key, account, model or address. Each limit is a token bucket that refills evenly. A fixed
 * window would let twice as much pass at its edge.
 *
 * The tokens of a request are known at its end only. So the step takes an estimate first, and corrects it after the answer: it gives back
 * the rest, or the bucket has a debt.
 */
import {
  asksModel,
  definePlugin,
  type FactName,
  type Grant,
  LIMIT_SETTINGS,
  PER_TAG,
  type Rate,
  type StepContext,
} from '#contract'
import { type BucketTake, estimateTokens, factOf, identify, type Per, refused, usedOf, whoseOf } from './bucket-take.ts'
import { createLimit, showLimit } from './limit.ts'
import { createPlanLimits } from './plan-limits.ts'

/** Either a limit of its own, or those of the plans. */
interface Settings {
  readonly per?: Per
  readonly requests?: Rate
  readonly burst?: number
  readonly tokens?: Rate
  readonly limits?: 'plan'
  readonly only?: 'requests' | 'tokens'
}

const PER = `^(key|account|caller|model|address|${PER_TAG})$`
const OF_PLAN = { refused: 'with limits: plan, the plans in gateway.yaml have the limits' }

export default definePlugin({
  name: 'rate-limit',
  description: 'Limits requests and tokens per time, for each key, account, caller, model, address or value of a tag.',
  dryRun: true,
  needs: (settings: Settings, kind): readonly FactName[] => {
    const { per, tokens, limits, only } = settings
    if (limits === 'plan')
      return ['account', 'key', ...(only !== 'requests' && asksModel(kind) ? (['chat'] as const) : [])]
    const fact = factOf(per!)
    return [...(fact === null ? [] : [fact]), ...(tokens ? (['chat'] as const) : [])]
  },
  needsBody: false,
  uses: ['buckets', 'plans'],
  settings: {
    type: 'object',
    additionalProperties: false,
    properties: {
      per: {
        type: 'string',
        pattern: PER,
        examples: ['key', 'account', 'caller', 'model', 'address'],
        sentence: 'must be key, account, caller, model, address or "tag NAME"',
        description:
          'The owner of a limit: key, account, caller (a key, or the subject of a token), model, address, or tag NAME (each value of that tag within an account).',
      },
      ...LIMIT_SETTINGS,
      limits: {
        enum: ['plan'],
        description: "plan: enforces the limits of the account's plan, which gateway.yaml has under `plans`.",
      },
      only: {
        enum: ['requests', 'tokens'],
        description: 'With `limits: plan`, the only kind of limits that this step enforces. Default: both.',
      },
    },
    if: { required: ['limits'] },
    then: { properties: { per: OF_PLAN, requests: OF_PLAN, burst: OF_PLAN, tokens: OF_PLAN } },
    else: {
      required: ['per'],
      anyOf: [{ required: ['requests'] }, { required: ['tokens'] }],
      dependentRequired: { burst: ['requests'], only: ['limits'] },
    },
  },
  create(settings: Settings, { buckets, plans }, { policy, id }) {
    if (settings.limits === 'plan') return createPlanLimits(settings.only, { buckets, plans })
    const per = settings.per!
    // The same names after a reload, so the levels stay.
    const prefix = `${policy}/${id}`
    const requests = settings.requests && createLimit('requests', settings.requests, settings.burst, prefix)
    const tokens = settings.tokens && createLimit('tokens', settings.tokens, undefined, prefix)
    const show = (ctx: StepContext, granted: Grant | undefined) => {
      if (requests && granted) showLimit(ctx, requests, granted)
    }
    /** Takes from both buckets of a state server in one round trip. */
    const overNetwork = async (ctx: StepContext, tokenTake: BucketTake | null, asking: Promise<Grant>) => {
      const [granted, tokenGrant] = await Promise.all([asking, tokenTake && take(tokenTake)])
      if (!granted.taken) {
        if (tokenTake && tokenGrant!.taken) await give(tokenTake, tokenTake.estimate)
        throw refused(requests!, whoseOf(ctx.exchange, per), granted)
      }
      if (tokenTake) return finish(ctx, tokenTake, granted, tokenGrant!)
      show(ctx, granted)
      return null
    }
    const finish = (ctx: StepContext, tokenTake: BucketTake, granted: Grant | undefined, tokenGrant: Grant) => {
      if (!tokenGrant.taken) {
        const refusal = refused(tokenTake.limit, whoseOf(ctx.exchange, per), tokenGrant, tokenTake.estimate)
        // A refused request does not count.
        const given = requests && buckets.give(requests.prefix + tokenTake.who, requests.shape, 1)
        if (!(given instanceof Promise)) throw refusal
        return given.then(() => Promise.reject(refusal))
      }
      show(ctx, granted)
      showLimit(ctx, tokenTake.limit, tokenGrant)
      return tokenTake
    }
    const take = ({ limit, who, estimate }: BucketTake) => buckets.take(limit.prefix + who, limit.shape, estimate)
    const give = ({ limit, who }: BucketTake, amount: number) => buckets.give(limit.prefix + who, limit.shape, amount)
    return {
      decide(ctx) {
        const { exchange } = ctx
        const who = identify(exchange, per)
        // Counting tokens uses none. The loader has checked `chat`: it is in `needs` with a limit of tokens.
        const tokenTake =
          tokens && !exchange.route.counts
            ? { limit: tokens, who, estimate: Math.min(tokens.shape.capacity, estimateTokens(exchange.chat!)) }
            : null
        const granted = requests && buckets.take(requests.prefix + who, requests.shape, 1)
        if (granted instanceof Promise) return overNetwork(ctx, tokenTake, granted)
        if (granted && !granted.taken) throw refused(requests!, whoseOf(exchange, per), granted)
        if (tokenTake) {
          const tokenGrant = take(tokenTake)
          return tokenGrant instanceof Promise
            ? tokenGrant.then(each => finish(ctx, tokenTake, granted, each))
            : finish(ctx, tokenTake, granted, tokenGrant)
        }
        show(ctx, granted)
        return null
      },
      after({ exchange }, _outcome, tokenTake: BucketTake | null) {
        if (tokenTake === null) return
        const used = usedOf(tokenTake, exchange.usage)
        if (used !== tokenTake.estimate) return give(tokenTake, tokenTake.estimate - used)
      },
    }
  },
})
