/** Converts the deployments of one name to a model, with targets, price, sizes, and the targets of its fallbacks. */

import type { Price } from '#contract'
import { fitsPattern } from '#contract'
import { dearest } from '../../catalog/dearest.ts'
import { scaled, wholeOf } from '../../catalog/decimal.ts'
import { familyOf } from '../../catalog/families.ts'
import type { Deployment } from './deployments.ts'
import { type KnownPrices, knownPricesOf, type ModelParts } from './known-prices.ts'
import { literal } from './references.ts'
import type { Remarks } from './remarks.ts'
import { priceYaml, refusePrices, ruleIn } from './row-prices.ts'
import { hasStar, idsAt } from './wildcard-rows.ts'

/** A model in gateway.yaml. */
export type ModelYaml = Record<string, unknown> & { targets: TargetYaml[] }
export type TargetYaml = Record<string, unknown> & { provider: string; model: string; priority?: number }

/** The deployments of a model, and those of its fallbacks in their order. */
export interface Group {
  readonly own: readonly Deployment[]
  readonly fallbacks: readonly (readonly Deployment[])[]
}

interface TargetPlace {
  readonly deployment: Deployment
  readonly weight: number
  readonly priority: number
  readonly isFallback: boolean
}

interface Choice extends TargetPlace {
  readonly known: KnownPrices
}

/** The highest priority in gateway.yaml. */
const MAX_PRIORITY = 100

/** The model of a group; null if it cannot be converted, after a remark. */
export function modelOf(id: string, { own, fallbacks }: Group, parts: ModelParts): ModelYaml | null {
  const { remarks } = parts
  const [first] = own as [Deployment]
  if (`${id}${first.name}`.includes('*')) return wildcardOf(id, own, parts)
  const placed = placedOf(id, { own, fallbacks }, remarks)
  const choices = placed.map((each): Choice => ({ ...each, known: knownPricesOf(each.deployment, parts) }))
  const known = choices.filter(({ isFallback }) => !isFallback).map(each => each.known)
  const all = choices.map(each => each.known.by)
  const isAuto = all.includes('catalog') && all.every(by => by !== null) && known.some(({ by }) => by !== 'own')
  const price = isAuto ? 'auto' : priceOf(known)
  const cached = known.flatMap(each => (each.price ? [ruleIn(each.price, 'cached_input') !== undefined] : []))
  if (!isAuto && cached.includes(true) && cached.includes(false))
    remarks.add('changed', first.params, 'cached tokens are priced as at the target without a price for them')
  const isOff = price === null && parts.unpriced === 'disable'
  remarkPrice(first, known, { isAuto, isOff }, parts)
  // A target that is not in the catalog needs its own cost.
  const isListed = known.every(each => each.isListed) && all.every(by => by !== null)
  const description = first.info.text('description')?.text
  const alias = first.alias
  const sizes = sizesOf(id, own, { known, isAuto, isListed }, remarks)
  for (const { params, info } of own) {
    remarks.rest(params, 'params')
    remarks.rest(info, 'info')
  }
  return {
    ...(description ? { description: literal(description) } : {}),
    targets: choices.map(choice => targetOf(choice, price, choices.length)),
    price: price === null ? 'free' : typeof price === 'string' ? price : priceYaml(price),
    ...sizes,
    ...(alias === null ? {} : { aliases: [alias] }),
    ...(isOff ? { enabled: false } : {}),
  }
}

/** `openai/*`: all models of the provider in the catalog. */
function wildcardOf(id: string, own: readonly Deployment[], parts: ModelParts): ModelYaml | null {
  const { remarks } = parts
  const usable = own.filter(deployment => {
    const { name, source, params, info } = deployment
    const ids = idsAt(deployment, parts)
    const isOne = hasStar(id) && hasStar(name)
    refusePrices(params, info, remarks)
    remarks.rest(params, 'params')
    remarks.rest(info, 'info')
    if (isOne && ids?.some(each => fitsPattern(name, each))) return true
    const message =
      ids === null
        ? 'the catalog does not have this vendor'
        : isOne
          ? 'no model of the catalog matches the wildcard'
          : 'a wildcard needs one * in its name and one in its model'
    remarks.add('lost', params, message, 'list the models of the wildcard one by one', `${id}: ${source}`)
    return false
  })
  if (usable.length === 0) return null
  remarks.add(
    'changed',
    own[0]!.params,
    'a wildcard covers the models of the price catalog',
    'add others one by one',
    id,
  )
  const placed = placedOf(id, { own: usable, fallbacks: [] }, remarks)
  return { targets: placed.map(each => ({ ...placeYaml(each), ...limitsYaml(each) })), price: 'auto' }
}

/** Each target once: those of the model by LiteLLM's `order`, then those of its fallbacks. */
function placedOf(id: string, { own, fallbacks }: Group, remarks: Remarks): TargetPlace[] {
  const weights = weightsOf(id, own, remarks)
  const placed: TargetPlace[] = []
  let last = 0
  const add = (group: readonly Deployment[], isFallback: boolean): void => {
    const orders = [...new Set(group.map(({ order }) => order ?? Number.POSITIVE_INFINITY))].sort((a, b) => a - b)
    for (const [index, deployment] of group.entries()) {
      const { provider, model } = deployment
      if (placed.some(each => each.deployment.provider === provider && each.deployment.model === model)) {
        const message = 'two rows with the same provider and model are one target'
        if (!isFallback) remarks.add('changed', deployment.params, message, 'increase the weight of the other one')
        continue
      }
      const priority = Math.min(MAX_PRIORITY, last + orders.indexOf(deployment.order ?? Number.POSITIVE_INFINITY) + 1)
      const weight = isFallback ? 1 : weights[index]!
      placed.push({ deployment, weight, priority, isFallback })
    }
    last += orders.length
  }
  add(own, false)
  for (const group of fallbacks) add(group, true)
  return placed
}

function targetOf(choice: Choice, price: ModelPrice, many: number): TargetYaml {
  const { by, price: own, baseModel } = choice.known
  const written = by === 'own' ? 'free' : own && priceYaml(own)
  const cost = by === 'catalog' ? (price === 'auto' ? null : 'auto') : written
  return {
    ...placeYaml(choice),
    ...(baseModel === null ? {} : { base_model: baseModel }),
    ...limitsYaml(choice),
    ...(cost !== null && many > 1 ? { cost } : {}),
  }
}

const placeYaml = ({ deployment: { provider, model } }: TargetPlace) => ({ provider, model })

function limitsYaml({ deployment: { cap, maxInflight }, weight, priority }: TargetPlace): object {
  return {
    ...(weight === 1 ? {} : { weight }),
    ...(priority === 1 ? {} : { priority }),
    ...(cap === null ? {} : { cap_field: cap }),
    ...(maxInflight === null ? {} : { max_inflight: maxInflight }),
  }
}

/** Null: no target has a known price. */
type ModelPrice = Price | 'auto' | 'free' | null

/** The price for customers, for all of the model's own targets. */
function priceOf(known: readonly KnownPrices[]): ModelPrice {
  const prices = known.flatMap(({ price }) => (price === null ? [] : [price]))
  if (prices.length > 0) return dearest(prices)
  return known.every(({ by }) => by === 'own') ? 'free' : null
}

const OFF = 'the model is off: its price is unknown'

function remarkPrice(
  { params, group }: Deployment,
  known: readonly KnownPrices[],
  { isAuto, isOff }: { readonly isAuto: boolean; readonly isOff: boolean },
  { remarks, unpriced }: ModelParts,
): void {
  const vendors = `${group}: ${[...new Set(known.flatMap(({ vendor }) => vendor ?? []))].join(', ')}`
  const has = (by: KnownPrices['by']) => known.some(each => each.by === by)
  if (isAuto)
    remarks.add('changed', params, 'price, context and longest answer are from the price catalog', null, group)
  else if (isOff) {
    const isForeign = known.some(each => each.by === null && each.isForeign)
    const message = isForeign ? 'the model is off: its host belongs to no known vendor, and no list has its price' : OFF
    remarks.add('yours', params, message, 'write its price (free on your own server), and remove enabled: false', group)
  } else if (known.every(({ by }) => by === 'own') && known.some(({ isForeign }) => isForeign))
    remarks.add('yours', params, 'the model is free: its server belongs to no known vendor', 'write its price', group)
  else if (known.every(({ by }) => by === 'own'))
    remarks.add('changed', params, 'a model on your own server is free', 'write a price to charge for it', group)
  else if (has(null) && known.every(({ price }) => price === null))
    remarks.add('yours', params, 'the model is free: its price is unknown', 'write its price', group)
  else if (has(null))
    remarks.add(
      'yours',
      params,
      'the price of a target is unknown: the price of the others is used',
      'write its cost',
      group,
    )
  else if (has('elsewhere'))
    remarks.add(
      'yours',
      params,
      'the price is that of another vendor of the model',
      'compare it with your bill',
      vendors,
    )
  else if (has('maker'))
    remarks.add('changed', params, 'the price is that of the vendor that LiteLLM names', 'write your own', vendors)
  if (!isAuto && unpriced === 'disable' && has('file'))
    remarks.add('changed', params, 'customers pay the price that LiteLLM treats as cost', 'raise it for a margin')
}

/** Weights from 1 to 1000: by `weight`, else by the limits of requests or tokens, as in LiteLLM's shuffle. */
function weightsOf(id: string, group: readonly Deployment[], remarks: Remarks): number[] {
  const written = (['weight', 'rpm', 'tpm'] as const).find(key => group.every(each => each[key] !== null))
  const even = group.map(() => 1)
  if (group.length < 2) return even
  const half = group.find(each => each.weight !== null)
  if (written !== 'weight' && half)
    remarks.add('changed', half.params, 'not every deployment has a weight: all have the same', null, id)
  if (written === undefined || (written !== 'weight' && half)) return even
  const shares = group.map(each => scaled(String(each[written]), 6)?.value ?? 0n)
  const divisor = shares.reduce(greatestCommon)
  const least = shares.map(share => (divisor === 0n ? 1n : share / divisor))
  const most = least.reduce((a, b) => (a > b ? a : b))
  for (const [index, share] of shares.entries()) {
    const at = group[index]!.params.peek(written) ?? group[index]!.params
    if (share === 0n)
      remarks.add('changed', at, 'a weight must be above 0: the target gets a small one', 'remove the target')
  }
  return least.map(share => Math.max(1, Number(most > 1000n ? (share * 1000n) / most : share)))
}

function greatestCommon(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestCommon(b, a % b)
}

/** The sizes in tokens if they are unknown. */
const ASSUMED = { context: 128 * 1024, max_output: 4096 }

interface ModelSize {
  /** For the model's own targets. */
  readonly known: readonly KnownPrices[]
  readonly isAuto: boolean
  /** Whether the gateway finds all targets in the catalog. */
  readonly isListed: boolean
}

function sizesOf(
  id: string,
  own: readonly Deployment[],
  { known, isAuto, isListed }: ModelSize,
  remarks: Remarks,
): object {
  const least = (size: 'context' | 'max_output'): number | null => {
    const tokens = known.flatMap(({ sizes }) => sizes[size]?.tokens ?? [])
    return tokens.length === 0 ? null : Math.min(...tokens)
  }
  const [input, output] = [least('context'), least('max_output')]
  const cap = capOf(own, remarks)
  const isWritten = known.some(({ sizes }) => sizes.context?.isWritten || sizes.max_output?.isWritten)
  const setsReasoning = own.some(({ info }) => info.peek('supports_reasoning') !== null)
  const reasoning = known.some(each => each.reasoning === true)
  if (isListed && !isWritten && (cap === null || cap <= output!)) {
    const auto = isAuto ? {} : { context: 'auto', max_output: 'auto', reasoning: 'auto' }
    return { ...auto, ...(cap === null ? {} : { default_output: cap }), ...(setsReasoning ? { reasoning } : {}) }
  }
  const hasOutput = known.some(({ sizes }) => sizes.max_output?.isWritten)
  const family = familyOf(own[0]!.name)?.maxOutput ?? ASSUMED.max_output
  // The list's longest answer may be a guess from the family, but LiteLLM really sent the file's cap.
  const longest = hasOutput ? output! : Math.max(cap ?? 0, output ?? (cap === null ? family : 0))
  // A window of another vendor, or an assumed one, must not be below the file's cap.
  const window = input === null || !isListed ? Math.max(input ?? ASSUMED.context, cap ?? 0) : input
  const context = Math.max(isWritten && input !== null ? input : window, hasOutput ? longest : 0)
  const maxOutput = Math.min(longest, context)
  if (input === null || (output === null && cap === null)) {
    const sizes = `${id}: ${context} and ${maxOutput} tokens`
    const message = 'context and longest answer are assumed'
    remarks.add(
      'yours',
      own[0]!.params,
      message,
      'write context and max_output of the provider: holds depend on them',
      sizes,
    )
  }
  if (cap !== null && cap > maxOutput)
    remarks.add('lost', own[0]!.params, 'max_tokens is above the longest answer', null, `${id}: ${cap}`)
  return {
    context,
    max_output: maxOutput,
    ...(cap !== null && cap <= maxOutput ? { default_output: cap } : {}),
    ...(reasoning ? { reasoning } : {}),
  }
}

/** `max_tokens` of the first deployment, the cap of requests without one; null: none. */
function capOf(own: readonly Deployment[], remarks: Remarks): number | null {
  const caps = own.map(({ params }) => params.text('max_tokens') ?? params.text('max_completion_tokens'))
  const cap = caps[0] ? wholeOf(caps[0].text) : null
  for (const each of caps) {
    const tokens = each && wholeOf(each.text)
    if (each && (tokens === null || tokens < 1 || tokens !== cap))
      remarks.wrongNumber(each, 'a model has one default_output, the integer of its first deployment')
  }
  return cap !== null && cap >= 1 ? cap : null
}
