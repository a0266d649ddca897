/** Explains the verdict of a step, and when the verdict would differ. */

import { budgetName, type ChainedBudget, type Exchange, formatSpan, type NanoUsd, type TrailEntry } from '#contract'
import type { StepConfig } from '../../config/configuration.ts'
import { showNano } from '../format.ts'
import { remarksOf } from '../trail-words.ts'
import type { HoldRecord, StepRecording } from './recorder.ts'
import { valuesText } from './when.ts'

/** A step with its recording. */
export interface WhyParts {
  readonly step: StepConfig
  readonly seen: StepRecording
  /** Undefined: it was not reached. */
  readonly entry: TrailEntry | undefined
  readonly exchange: Exchange | null
}

/** The reason why a step refused, skipped or passed the request; empty without one. */
export function reasonOf({ step, seen, entry }: WhyParts): string {
  if (!entry) return ''
  const parts: string[] = []
  if (step.when) parts.push(conditionText(step.when.source, seen, entry.verdict === 'skipped'))
  if (entry.verdict === 'off') parts.push('mode: off')
  if (entry.verdict === 'would_refuse') parts.push('in shadow mode, so the request continues')
  if (seen.said !== null) parts.push(seen.said)
  // A false condition was reported above, with its values.
  if (entry.verdict !== 'skipped') parts.push(...remarksOf(entry))
  return joined(parts)
}

/** Joins sentences that end with or without a full stop. */
function joined(parts: readonly string[]): string {
  return parts
    .map((part, at) => (at === parts.length - 1 ? part : part.endsWith('.') ? `${part} ` : `${part}; `))
    .join('')
}

function conditionText(source: string, { values }: StepRecording, isSkipped: boolean): string {
  const details = values && values.length > 0 ? `: ${valuesText(values)}` : ''
  return `${source.replaceAll(/\s+/g, ' ').trim()} is ${isSkipped ? 'false' : 'true'}${details}`
}

/** When a step that passed the request would refuse it; null if unknown. */
export function otherwiseOf(parts: WhyParts): string | null {
  const { step, entry } = parts
  if (entry?.verdict !== 'passed') return null
  const text = OTHERWISE[step.plugin.name]?.(parts) ?? null
  return text !== null && step.mode === 'shadow' ? `in shadow mode: ${text}` : text
}

const OTHERWISE: Readonly<Record<string, (parts: WhyParts) => string | null>> = {
  'api-key': ({ exchange }) =>
    `the key is valid and can use ${modelsOf(exchange)}; refused without a key, or if the account is frozen`,
  jwt: ({ exchange }) => `the token can use ${modelsOf(exchange)}; refused without one, or if the account is frozen`,
  tags: ({ exchange }) => tagsText(exchange),
  schema: ({ exchange }) => schemaText(exchange),
  'rate-limit': ({ seen }) => seen.grants.map(grantText).join('; '),
  concurrency: ({ step }) => {
    const { limit, queue } = step.settings as { limit: number; queue?: object }
    return `refused with ${limit} in progress${queue ? ' and the queue full' : ''}; this is the first`
  },
  credits: ({ step, seen }) => creditText(step, seen),
  cache: ({ seen }) => cacheText(seen.headers['x-tollgate-cache']),
  route: ({ exchange }) => `never refuses; at most ${exchange?.attemptsAtMost ?? 1} attempts across all targets`,
  prompt: () => 'never refuses',
  guard: ({ step }) => {
    const { rules } = step.settings as { rules: readonly { readonly action: string }[] }
    const refuses = rules.some(({ action }) => action === 'refuse')
    return refuses ? 'refused if a rule with "action: refuse" matches' : 'never refuses'
  },
}

function modelsOf(exchange: Exchange | null): string {
  return exchange?.key?.models?.join(', ') ?? 'all public models'
}

function tagsText(exchange: Exchange | null): string {
  const given = Object.entries(exchange?.tags ?? {}).map(([name, value]) => `${name} is ${JSON.stringify(value)}`)
  return `${given.join(', ') || 'gives no tag'}; refused with a value that is not allowed, or without a required one`
}

function schemaText(exchange: Exchange | null): string | null {
  const { chat, model } = exchange ?? {}
  if (!chat || !model) return null
  const requested = chat.requestedCap === null ? 'none was requested' : `${chat.requestedCap} was requested`
  return `the model is ${model.id}; refused with an output cap above ${model.maxOutput} (${requested})`
}

function grantText({ bucket, shape, amount, grant }: StepRecording['grants'][number]): string {
  const kind = bucket.includes('/tokens/') ? 'tokens' : 'requests'
  const took = kind === 'tokens' ? `took ${amount} tokens (an estimate until the answer ends), ` : ''
  const left = `${grant.remaining} of ${shape.capacity} ${kind} left, full again in ${formatSpan(grant.resetMs)}`
  return `${took}${left}; refused when ${kind === 'tokens' ? 'fewer than that' : 'none'} are left`
}

function creditText({ settings }: StepConfig, { holds, cap: [requested, capped] }: StepRecording): string | null {
  const hold = holds.at(-1)
  if (!hold?.result.held) return null
  const { amount } = hold.request
  const holding = `holds ${showNano(amount)} of ${showNano(hold.result.available + amount)} available`
  if (requested !== capped)
    return `${holding}; with less credit the output cap is lowered further, until the request is refused`
  const clamps = (settings as { when_short: readonly string[] }).when_short[0] === 'clamp_output' && requested !== null
  const short = clamps ? 'the output cap is lowered, until the request is refused' : 'the request is refused'
  return `${holding}; with less than ${showNano(amount)} ${short}`
}

function cacheText(result: string | undefined): string | null {
  if (result === undefined) return null
  return result === 'skip' ? 'not looked up' : 'never refuses; the cache is empty here'
}

/** Explains the shortage if the last hold was refused for lack of money, else null. For operators. */
export function shortText(holds: readonly HoldRecord[]): string | null {
  const last = holds.at(-1)
  if (!last || last.result.held || last.result.reason !== 'short') return null
  const { of, available, onHold, budget } = last.result
  const budgets = (last.request.budgets ?? []) as readonly ChainedBudget[]
  const what = of === 'budget' ? `budget "${budgetName(budgets[budget!]!.rule)}"` : of
  const capped =
    holds.length > 1 ? `, and ${showNano(smallestOf(holds))} with the output cap lowered to ${capOf(last)}` : ''
  const first = holds[0]!.request.amount
  return `needs ${showNano(first)}${capped}; the ${what} has ${showNano(available)} available and ${showNano(onHold)} on hold`
}

function smallestOf(holds: readonly HoldRecord[]): NanoUsd {
  return holds.reduce(
    (least, { request }) => (request.amount < least ? request.amount : least),
    holds[0]!.request.amount,
  )
}

const capOf = ({ request }: HoldRecord) => `${request.bound.output ?? 0} tokens`
