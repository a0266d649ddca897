/**
 * The figures of steps in shadow mode: runs, would-be refusals, and the affected accounts and keys. Kept in memory since the
 * start, across reloads; also built from an exchange log. All figures are bounded, by the configuration or by number.
 */
import type { TrailEntry } from '#contract'

/** The part of a completed exchange that is counted. */
export interface ShadowExchange {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly policy: string
  readonly account: Named | null
  readonly key: Named | null
}

export interface Named {
  readonly id: string
  readonly name: string
}

/** The would-be refusals of a step with one code. */
export interface ShadowRefusals {
  /** `answered`: the step would have answered itself. */
  readonly code: string
  readonly count: number
  readonly accounts: AffectedOwners
  readonly keys: AffectedOwners
  /** The latest exchanges, newest first. */
  readonly examples: readonly { readonly id: string; readonly at: string }[]
}

/** The affected accounts or keys, the most frequent first. */
export interface AffectedOwners {
  readonly distinct: number
  /** Whether there were more than `mostOwners`. Then `distinct` and `top` cover only the first ones. */
  readonly more: boolean
  readonly top: readonly (Named & { readonly count: number })[]
}

/** The figures of a step as operators read them, also in JSON. Times are ISO 8601. */
export interface ShadowStep {
  readonly policy: string
  readonly step: string
  /** The time of its first run. */
  readonly since: string
  readonly ran: number
  readonly would_refuse: number
  readonly refusals: readonly ShadowRefusals[]
}

export interface ShadowFigures {
  /** Counts a run of a step. @param code the code of the would-be refusal; null: it would have passed the exchange */
  count(exchange: ShadowExchange, step: string, code: string | null): void
  /** Sorted by policy and step. */
  steps(): readonly ShadowStep[]
}

/** Maximum number of counted steps; each reload may add some. */
const MAX_STEPS = 500
const MAX_CODES = 50
const MAX_OWNERS = 1000
const TOP = 10
const EXAMPLES = 5

/** Returns the code of the would-be refusal in an entry of a trail; null: none; undefined: the step did not run. */
export function shadowRun({ verdict, code }: Pick<TrailEntry, 'verdict' | 'code'>): string | null | undefined {
  if (verdict === 'skipped' || verdict === 'off') return undefined
  return verdict === 'would_refuse' ? (code ?? 'answered') : null
}

/** @param mostOwners maximum number of accounts, and of keys, that are counted separately for each step and code */
export function createShadowFigures(mostOwners = MAX_OWNERS): ShadowFigures {
  const steps = new Map<string, StepFigures>()
  const figuresOf = (policy: string, step: string, at: number): StepFigures | undefined => {
    const name = `${policy}\n${step}`
    const known = steps.get(name)
    if (known || steps.size >= MAX_STEPS) return known
    const fresh: StepFigures = { policy, step, since: at, ran: 0, codes: new Map() }
    steps.set(name, fresh)
    return fresh
  }
  return {
    count(exchange, step, code) {
      const figures = figuresOf(exchange.policy, step, exchange.at)
      if (!figures) return
      figures.ran++
      if (code !== null) countRefusal(figures, code, exchange, mostOwners)
    },
    steps: () => [...steps.values()].map(shown).sort(byName),
  }
}

interface StepFigures {
  readonly policy: string
  readonly step: string
  readonly since: number
  ran: number
  readonly codes: Map<string, CodeFigures>
}

interface CodeFigures {
  count: number
  readonly accounts: OwnerCounts
  readonly keys: OwnerCounts
  readonly examples: { readonly id: string; readonly at: number }[]
}

interface OwnerCounts {
  readonly each: Map<string, { name: string; count: number }>
  more: boolean
}

function countRefusal(
  { codes }: StepFigures,
  code: string,
  { id, at, account, key }: ShadowExchange,
  most: number,
): void {
  const named = codes.has(code) || codes.size < MAX_CODES ? code : 'other'
  let figures = codes.get(named)
  if (!figures) {
    figures = { count: 0, accounts: noneYet(), keys: noneYet(), examples: [] }
    codes.set(named, figures)
  }
  figures.count++
  if (account) touch(figures.accounts, account, most)
  if (key) touch(figures.keys, key, most)
  if (figures.examples.unshift({ id, at }) > EXAMPLES) figures.examples.pop()
}

const noneYet = (): OwnerCounts => ({ each: new Map(), more: false })

function touch(counted: OwnerCounts, { id, name }: Named, most: number): void {
  const known = counted.each.get(id)
  if (known) {
    known.count++
    known.name = name
  } else if (counted.each.size < most) counted.each.set(id, { name, count: 1 })
  else counted.more = true
}

function shown({ policy, step, since, ran, codes }: StepFigures): ShadowStep {
  const refusals = [...codes]
    .map(([code, { count, accounts, keys, examples }]) => ({
      code,
      count,
      accounts: affectedOwners(accounts),
      keys: affectedOwners(keys),
      examples: examples.map(({ id, at }) => ({ id, at: timeText(at) })),
    }))
    .sort((a, b) => b.count - a.count)
  const wouldRefuse = refusals.reduce((sum, { count }) => sum + count, 0)
  return { policy, step, since: timeText(since), ran, would_refuse: wouldRefuse, refusals }
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}

function affectedOwners({ each, more }: OwnerCounts): AffectedOwners {
  const top = [...each]
    .map(([id, { name, count }]) => ({ id, name, count }))
    .sort((a, b) => b.count - a.count)
    .slice(0, TOP)
  return { distinct: each.size, more, top }
}

function byName(a: ShadowStep, b: ShadowStep): number {
  return a.policy === b.policy ? (a.step < b.step ? -1 : 1) : a.policy < b.policy ? -1 : 1
}
