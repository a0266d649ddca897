/** Warnings about limits and identifying steps that run too late, and about limits that can never refuse. */

import { type Rate, tagOf } from '#contract'
import { factsIn } from '../conditions/when.ts'
import type { LoadedPolicy, LoadedStep } from './loaded-policy.ts'
import { alwaysGiven } from './order.ts'

interface Settings {
  /** Undefined: the step enforces the limits of plans. */
  readonly per?: string
  readonly limit?: number
  readonly requests?: Rate
  readonly burst?: number
  readonly tokens?: Rate
}

const OF_KEYS = ['key', 'caller', 'account', 'everybody']
/** For each `per`, the values of `per` whose limits it shares: a key belongs to an account. */
const WIDER: Readonly<Record<string, readonly string[]>> = {
  key: OF_KEYS,
  caller: OF_KEYS,
  account: ['account', 'everybody'],
  model: ['model', 'everybody'],
  address: ['address', 'everybody'],
  everybody: ['everybody'],
}

/** Adds the warnings to the policy's source. */
export function warnOfLimits({ source, steps }: LoadedPolicy, maxInflight: number): void {
  const acting = steps.filter(step => step.mode === 'enforce')
  for (const [index, step] of acting.entries()) {
    if (!isLimit(step) && !identifies(step)) continue
    const before = acting.slice(0, index)
    const money = before.find(each => each.gives.includes('hold'))
    const reader = before.find(readsBody)
    const early = reader && beforeReader(step, reader, alwaysGiven(before.slice(0, before.indexOf(reader))))
    if (money !== undefined && step.plugin.name === 'concurrency') {
      const message = `"${step.id}" comes after "${money.id}" (line ${money.position.line}): requests that wait or are refused here already hold money`
      const suggestion = early ?? `move "${step.id}" before "${money.id}"`
      source.warn(`${step.address}/use`, message, { rule: 'late-limit', suggestion })
    } else if (reader && early) {
      const isCounted = isLimit(step) && reader.gives.includes('chat')
      const why = isCounted
        ? `requests that "${reader.id}" refuses are parsed but do not count`
        : `Tollgate reads the bodies of requests that "${step.id}" refuses`
      const message = `"${step.id}" comes after "${reader.id}" (line ${reader.position.line}): ${why}`
      source.warn(`${step.address}/use`, message, { rule: 'late-limit', suggestion: early })
    }
    if (!isLimit(step)) continue
    const { limit } = settingsOf(step)
    if (step.plugin.name === 'concurrency' && limit !== undefined && limit >= maxInflight) {
      const message = `"${step.id}" never refuses: limit is ${limit}, but limits.max_inflight is ${maxInflight}`
      source.warn(`${step.address}/with/limit`, message, { rule: 'no-effect', suggestion: 'lower it' })
      continue
    }
    const tighter = before.find(each => isLimit(each) && each.weakness === null && isWithin(step, each))
    if (tighter === undefined) continue
    const message = `"${step.id}" never refuses: the step "${tighter.id}" (line ${tighter.position.line}) is at least as strict`
    source.warn(`${step.address}/with`, message, {
      rule: 'no-effect',
      suggestion: 'remove one of the two, or lower this one',
    })
  }
}

/** For an external plugin, `needsBody` may only be the default. */
function readsBody({ gives, plugin, builtIn, settings }: LoadedStep): boolean {
  const { needsBody } = plugin
  return gives.includes('chat') || (builtIn && typeof needsBody === 'function' && needsBody(settings as never))
}

const identifies = ({ gives }: LoadedStep) => gives.includes('key') || gives.includes('account')

/** How to move a step before the one that reads the body; null if it needs the body or a fact of that step. */
function beforeReader(step: LoadedStep, reader: LoadedStep, given: ReadonlySet<string>): string | null {
  if (!isLimit(step)) {
    const needed = [...step.needs.values(), step.when === null ? [] : factsIn(step.when)].flat()
    return needed.every(fact => given.has(fact)) ? `move "${step.id}" before "${reader.id}"` : null
  }
  const { per, requests, tokens } = settingsOf(step)
  const inHead = (fact: string) => fact === 'address' || given.has(fact)
  if (per === undefined || ![factOf(per), ...(step.when === null ? [] : factsIn(step.when))].every(inHead)) return null
  if (tokens === undefined) return `move "${step.id}" before "${reader.id}"`
  if (requests === undefined) return null
  return `split it: put a step with requests before "${reader.id}", and keep only tokens in "${step.id}"`
}

/** The fact of `per`; `address` is not a fact. */
function factOf(per: string): string {
  return per === 'caller' ? 'key' : tagOf(per) === null ? per : 'tags'
}

function isLimit({ plugin, builtIn }: LoadedStep): boolean {
  return builtIn && (plugin.name === 'rate-limit' || plugin.name === 'concurrency')
}

const settingsOf = ({ settings }: LoadedStep) => settings as Settings

/** Whether an earlier limit is at least as strict as this one in all respects. */
function isWithin(step: LoadedStep, earlier: LoadedStep): boolean {
  if (step.plugin.name !== earlier.plugin.name) return false
  const [here, there] = [settingsOf(step), settingsOf(earlier)]
  if (!WIDER[here.per ?? '']?.includes(there.per ?? '')) return false
  if (step.plugin.name === 'concurrency') return there.limit! <= here.limit!
  // An estimate of tokens is capped at its bucket's size, so a smaller bucket may admit more.
  if (here.tokens !== undefined || !there.requests || !here.requests) return false
  const slower = there.requests.amount * here.requests.perMs <= here.requests.amount * there.requests.perMs
  return slower && burstOf(there) <= burstOf(here)
}

/** A bucket without a burst holds one window. */
function burstOf({ requests, burst }: Settings): number {
  return burst ?? requests?.amount ?? 0
}
