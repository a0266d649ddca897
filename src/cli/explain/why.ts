/** Why a step did what it did, and when it would have done otherwise, as far as that can be known from outside of it. */

import { budgetName, type ChainedBudget, type Exchange, formatSpan, type NanoUsd, type TrailEntry } from '#contract'
import type { StepConfig } from '../../config/configuration.ts'
import { showNano } from '../format.ts'
import { remarksOf } from '../trail-words.ts'
import type { SeenHold, SeenStep } from './recorder.ts'
import { valuesText } from './when.ts'

/** A step with what became of it. */
export interface WhyParts {
  readonly step: StepConfig
  readonly seen: SeenStep
  /** Undefined: it was not reached. */
  readonly entry: TrailEntry | undefined
  readonly exchange: Exchange | null
}

/** Why it was refused, skipped or let through, in words; empty when there is nothing to say. */
export function reasonOf({ step, seen, entry }: WhyParts): string {
  if (!entry) return ''
  const parts: string[] = []
  if (step.when) parts.push(conditionText(step.when.source, seen, entry.verdict === 'skipped'))
  if (entry.verdict === 'off') parts.push('mode: off')
  if (entry.verdict === 'would_refuse') parts.push('in shadow, so it goes on')
  if (seen.said !== null) parts.push(seen.said)
  // That a condition is false is said above, with its values.
  if (entry.verdict !== 'skipped') parts.push(...remarksOf(entry))
  return joined(parts)
}

/** A sentence of a step may end in a full stop of its own. */
function joined(parts: readonly string[]): string {
  return parts
    .map((part, at) => (at === parts.length - 1 ? part : part.endsWith('.') ? `${part} ` : `${part}; `))
    .join('')
}

function conditionText(source: string, { values }: SeenStep, isSkipped: boolean): string {
  const said = values && values.length > 0 ? `: ${valuesText(values)}` : ''
  return `${source.replaceAll(/\s+/g, ' ').trim()} is ${isSkipped ? 'false' : 'true'}${said}`
}

/** When a step that let the request pass would have refused it; null where nobody knows. */
export function otherwiseOf(parts: WhyParts): string | null {
  const { step, entry } = parts
  if (entry?.verdict !== 'passed') return null
  const text = OTHERWISE[step.plugin.name]?.(parts) ?? null
  return text !== null && step.mode === 'shadow' ? `in shadow: ${text}` : text
}

const OTHERWISE: Readonly<Record<string, (parts: WhyParts) => string | null>> = {
  'api-key': ({ exchange }) =>
    `the key is live and may use ${modelsOf(exchange)}; refused without a key, or when the account is frozen`,
  jwt: ({ exchange }) => `the token may use ${modelsOf(exchange)}; refused without one, or when the account is frozen`,
  tags: ({ exchange }) => tagsText(exchange),
  schema: ({ exchange }) => schemaText(exchange),
  'rate-limit': ({ seen }) => seen.grants.map(grantText).join('; '),
  concurrency: ({ step }) => {
    const { limit, queue } = step.settings as { limit: number; queue?: object }
    return `refused with ${limit} under way${queue ? ' and the queue full' : ''}; this is the first`
  },
  credits: ({ step, seen }) => creditText(step, seen),
  cache: ({ seen }) => cacheText(seen.headers['x-tollgate-cache']),
  route: ({ exchange }) => `never refuses; at most ${exchange?.attemptsAtMost ?? 1} attempts, over all targets`,
  prompt: () => 'never refuses',
  guard: ({ step }) => {
    const { rules } = step.settings as { rules: readonly { readonly action: string }[] }
    const refuses = rules.some(({ action }) => action === 'refuse')
    return refuses ? 'refused when a rule with "action: refuse" finds its pattern' : 'never refuses'
  },
}

function modelsOf(exchange: Exchange | null): string {
  return exchange?.key?.models?.join(', ') ?? 'every public model'
}

function tagsText(exchange: Exchange | null): string {
  const given = Object.entries(exchange?.tags ?? {}).map(([name, value]) => `${name} is ${JSON.stringify(value)}`)
  return `${given.join(', ') || 'gives no tag'}; refused with a value that is not allowed, or without a required one`
}

function schemaText(exchange: Exchange | null): string | null {
  const { chat, model } = exchange ?? {}
  if (!chat || !model) return null
  const asked = chat.requestedCap === null ? 'none was asked for' : `${chat.requestedCap} was asked for`
  return `the model is ${model.id}; refused with an output cap above ${model.maxOutput} (${asked})`
}

function grantText({ bucket, shape, amount, grant }: SeenStep['grants'][number]): string {
  const kind = bucket.includes('/tokens/') ? 'tokens' : 'requests'
  const took = kind === 'tokens' ? `took ${amount} tokens (an estimate until the answer is over), ` : ''
  const left = `${grant.remaining} of ${shape.capacity} ${kind} left, full again in ${formatSpan(grant.resetMs)}`
  return `${took}${left}; refused when ${kind === 'tokens' ? 'fewer than that' : 'none'} are left`
}

function creditText({ settings }: StepConfig, { holds, cap: [asked, capped] }: SeenStep): string | null {
  const hold = holds.at(-1)
  if (!hold?.result.held) return null
  const { amount } = hold.request
  const holding = `holds ${showNano(amount)} of ${showNano(hold.result.available + amount)} available`
  if (asked !== capped) return `${holding}; with less the output cap is lower still, and at last it is refused`
  const clamps = (settings as { when_short: readonly string[] }).when_short[0] === 'clamp_output' && asked !== null
  const short = clamps ? 'the output cap is lowered, and at last it is refused' : 'it is refused'
  return `${holding}; with less than ${showNano(amount)} ${short}`
}

function cacheText(found: string | undefined): string | null {
  if (found === undefined) return null
  return found === 'skip'
    ? 'not looked for'
    : 'never refuses; nothing was asked before in here, so nothing could be found'
}

/** What a refused hold was short of, for operators; null when none was refused. */
export function shortText(holds: readonly SeenHold[]): string | null {
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

function smallestOf(holds: readonly SeenHold[]): NanoUsd {
  return holds.reduce(
    (least, { request }) => (request.amount < least ? request.amount : least),
    holds[0]!.request.amount,
  )
}

const capOf = ({ request }: SeenHold) => `${request.bound.output ?? 0} tokens`
