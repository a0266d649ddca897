/** The limits of the account's plan. A plan's buckets are the same in all policies. */
import type { Buckets, DecidingStep, Exchange, Grant, Plan, Plans, StepContext } from '#contract'
import { type BucketTake, estimateTokens, identify, type Per, refused, usedOf, whoseOf } from './bucket-take.ts'
import { createLimit, type Limit, showLimit } from './limit.ts'

/** A limit with its owner. */
interface PlanLimit {
  readonly per: Per
  readonly limit: Limit
}

/** The part of one bucket. */
interface PlanTake extends BucketTake {
  readonly per: Per
}

interface PlanServices {
  readonly buckets: Buckets
  readonly plans: Plans
}

/** The step with `limits: plan`. Takes from all buckets of a request, or from none. */
export function createPlanLimits(
  only: 'requests' | 'tokens' | undefined,
  { buckets, plans }: PlanServices,
): DecidingStep {
  const known = new WeakMap<Plan, readonly PlanLimit[]>()
  const limitsOf = (plan: Plan): readonly PlanLimit[] => {
    let limits = known.get(plan)
    if (limits === undefined) known.set(plan, (limits = limitsIn(plan, only)))
    return limits
  }
  const take = ({ limit, who, estimate }: PlanTake) => buckets.take(limit.prefix + who, limit.shape, estimate)
  const give = ({ limit, who }: PlanTake, amount: number) => buckets.give(limit.prefix + who, limit.shape, amount)

  /** Takes from all buckets of a state server in one round trip. */
  async function takeOverNetwork(ctx: StepContext, takes: readonly PlanTake[], first: Promise<Grant>) {
    const grants = await Promise.all([first, ...takes.slice(1).map(take)])
    const reached = grants.findIndex(grant => !grant.taken)
    if (reached < 0) return granted(ctx, takes, grants)
    await Promise.all(takes.filter((_, i) => grants[i]!.taken).map(each => give(each, each.estimate)))
    throw refusalOf(ctx.exchange, takes[reached]!, grants[reached]!)
  }

  return {
    decide(ctx) {
      const { exchange } = ctx
      const plan = plans.of(exchange.account!)
      const limits = plan === undefined ? [] : limitsOf(plan)
      if (limits.length === 0) return null
      const takes = takesOf(exchange, limits)
      const grants: Grant[] = []
      for (const [i, each] of takes.entries()) {
        const grant = take(each)
        if (grant instanceof Promise) return takeOverNetwork(ctx, takes, grant)
        if (!grant.taken) {
          for (const other of takes.slice(0, i)) void give(other, other.estimate)
          throw refusalOf(exchange, each, grant)
        }
        grants.push(grant)
      }
      return granted(ctx, takes, grants)
    },
    after({ exchange }, _outcome, takes: readonly PlanTake[] | null) {
      const given: (void | Promise<void>)[] = []
      for (const each of takes ?? []) {
        if (each.limit.kind === 'requests') continue
        const used = usedOf(each, exchange.usage)
        if (used !== each.estimate) given.push(give(each, each.estimate - used))
      }
      if (given.some(each => each instanceof Promise)) return Promise.all(given).then(() => {})
    },
  }
}

/** The name of a bucket has the plan, the owner and the time, so that it keeps its level if the amount changes. */
function limitsIn(plan: Plan, only: 'requests' | 'tokens' | undefined): readonly PlanLimit[] {
  return plan.limits.flatMap(({ per, burst, ...rates }) =>
    (['requests', 'tokens'] as const).flatMap(kind => {
      const rate = rates[kind]
      if (rate === undefined || (only !== undefined && only !== kind)) return []
      // Never the name of a policy.
      const prefix = `plan:${plan.name}/${rate.perMs}`
      return [{ per, limit: createLimit(kind, rate, kind === 'requests' ? burst : undefined, prefix) }]
    }),
  )
}

/** Counting tokens uses none, and a raw route has no tokens. */
function takesOf(exchange: Exchange, limits: readonly PlanLimit[]): readonly PlanTake[] {
  const { chat, route } = exchange
  const tokens = chat === undefined || route.counts ? null : estimateTokens(chat)
  return limits.flatMap(({ per, limit }) => {
    if (limit.kind === 'tokens' && tokens === null) return []
    const who = identify(exchange, per)
    return [{ per, limit, who, estimate: limit.kind === 'requests' ? 1 : Math.min(limit.shape.capacity, tokens!) }]
  })
}

function granted(ctx: StepContext, takes: readonly PlanTake[], grants: readonly Grant[]): readonly PlanTake[] {
  for (const [i, { limit }] of takes.entries()) showLimit(ctx, limit, grants[i]!)
  return takes
}

function refusalOf(exchange: Exchange, { limit, per, estimate }: PlanTake, grant: Grant) {
  return refused(limit, whoseOf(exchange, per), grant, limit.kind === 'tokens' ? estimate : undefined)
}
