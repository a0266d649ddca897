/** Limits that stand where they cost money, and limits that can never refuse anybody. */

import type { Rate } from '#contract'
import type { LoadedPolicy, LoadedStep } from './loaded-policy.ts'

interface Settings {
  readonly per: string
  readonly limit?: number
  readonly requests?: Rate
  readonly burst?: number
  readonly tokens?: Rate
}

/** Those who share the limit of each kind: a key is one of an account's, and everybody is all of them. */
const WIDER: Readonly<Record<string, readonly string[]>> = {
  key: ['key', 'account', 'everybody'],
  account: ['account', 'everybody'],
  model: ['model', 'everybody'],
  address: ['address', 'everybody'],
  everybody: ['everybody'],
}

/** Leaves the warnings at the policy's file. */
export function warnOfLimits({ source, steps }: LoadedPolicy, maxInflight: number): void {
  const acting = steps.filter(step => step.mode === 'enforce')
  for (const [index, step] of acting.entries()) {
    if (!isLimit(step)) continue
    const before = acting.slice(0, index)
    const money = before.find(each => each.gives.includes('hold'))
    if (money !== undefined && step.plugin.name === 'concurrency') {
      const message = `"${step.id}" stands behind "${money.id}" (line ${money.position.line}): who waits or is refused here has money on hold meanwhile`
      const suggestion = `move "${step.id}" before "${money.id}"`
      source.warn(`${step.address}/use`, message, { rule: 'late-limit', suggestion })
    }
    const { limit } = settingsOf(step)
    if (step.plugin.name === 'concurrency' && limit !== undefined && limit >= maxInflight) {
      const message = `"${step.id}" never refuses: limit is ${limit}, and limits.max_inflight is ${maxInflight}`
      source.warn(`${step.address}/with/limit`, message, { rule: 'no-effect', suggestion: 'lower it' })
      continue
    }
    const tighter = before.find(each => isLimit(each) && each.weakness === null && isWithin(step, each))
    if (tighter === undefined) continue
    const message = `"${step.id}" never refuses: the step "${tighter.id}" (line ${tighter.position.line}) lets no more through`
    source.warn(`${step.address}/with`, message, {
      rule: 'no-effect',
      suggestion: 'remove one of the two, or lower this one',
    })
  }
}

function isLimit({ plugin, builtIn }: LoadedStep): boolean {
  return builtIn && (plugin.name === 'rate-limit' || plugin.name === 'concurrency')
}

const settingsOf = ({ settings }: LoadedStep) => settings as Settings

/** Whether whatever an earlier limit lets through is within this one, for each way in which this one limits. */
function isWithin(step: LoadedStep, earlier: LoadedStep): boolean {
  if (step.plugin.name !== earlier.plugin.name) return false
  const [here, there] = [settingsOf(step), settingsOf(earlier)]
  if (!WIDER[here.per]?.includes(there.per)) return false
  if (step.plugin.name === 'concurrency') return there.limit! <= here.limit!
  // An estimate of tokens is cut to what its bucket holds, so that the smaller bucket may let more through.
  if (here.tokens !== undefined || !there.requests || !here.requests) return false
  const slower = there.requests.amount * here.requests.perMs <= here.requests.amount * there.requests.perMs
  return slower && burstOf(there) <= burstOf(here)
}

/** A bucket without a burst holds one window. */
function burstOf({ requests, burst }: Settings): number {
  return burst ?? requests?.amount ?? 0
}
