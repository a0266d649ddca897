/** Deployments of one name to a model: its targets, prices, sizes, and what is tried when they fail. */

import { perMillion, scaled, wholeOf } from '../../catalog/decimal.ts'
import { formatMoney } from '../../contract/quantities.ts'
import { showMoney } from '../format.ts'
import type { Deployment } from './deployments.ts'
import { INFO, PARAMS } from './params-table.ts'
import { type Fields, isTrue, type TextValue } from './read.ts'
import type { Remarks } from './remarks.ts'
import { literal } from './secrets.ts'

/** LiteLLM's own list of prices (`--prices`): by the name of a model. */
export type PriceList = Readonly<Record<string, Readonly<Record<string, unknown>>>>

export interface ModelParts {
  readonly remarks: Remarks
  readonly prices: PriceList | null
  /** What happens to a model that nobody knows the price of. */
  readonly unpriced: 'disable' | 'free'
}

/** A model as gateway.yaml has it. */
export type ModelYaml = Record<string, unknown> & { targets: TargetYaml[] }
export type TargetYaml = Record<string, unknown> & { provider: string; model: string; priority?: number }

interface Prices {
  readonly input: bigint
  readonly output: bigint
  readonly cached_input: bigint | null
  readonly cache_write: bigint | null
}

/** The model of a group of deployments. */
export function modelOf(id: string, group: readonly Deployment[], parts: ModelParts): ModelYaml {
  const { remarks } = parts
  const [first] = group as [Deployment]
  const weights = weightsOf(id, group, remarks)
  const prices = group.map(deployment => pricesOf(deployment, parts))
  const price = dearest(prices)
  sayPartsUnknown(id, prices, price, first, remarks)
  // One without an order is LiteLLM's last choice, where another one has an order.
  const last = Math.max(0, ...group.map(({ order }) => order ?? 0)) + 1
  const targets: TargetYaml[] = []
  for (const [index, deployment] of group.entries()) {
    const { provider, model, cap, maxInflight } = deployment
    const order = deployment.order ?? last
    if (targets.some(each => each.provider === provider && each.model === model)) {
      remarks.add(
        'changed',
        deployment.params,
        `${provider}/${model} is here already: it is one target`,
        'give the other one more weight',
      )
      continue
    }
    const cost = prices[index] ?? null
    targets.push({
      provider,
      model,
      ...(weights[index] === 1 ? {} : { weight: weights[index] }),
      ...(order === 1 ? {} : { priority: order }),
      ...(cap === null ? {} : { cap_field: cap }),
      ...(maxInflight === null ? {} : { max_inflight: maxInflight }),
      ...(cost !== null && group.length > 1 ? { cost: priceYaml(cost) } : {}),
    })
  }
  const sizes = sizesOf(id, group, parts)
  const description = first.info.text('description')?.text
  const reasoning = isReasoning(group, parts)
  if (price === null) sayUnpriced(id, first, parts)
  else
    for (const [index, { params, source }] of group.entries())
      if (prices[index] === null) sayOthers('price', id, source, params, remarks)
  for (const { params, info } of group) {
    remarks.rest(params.rest(), PARAMS)
    remarks.rest(info.rest(), INFO)
  }
  return {
    ...(description ? { description: literal(description) } : {}),
    targets,
    price: price === null ? 'free' : priceYaml(price),
    ...sizes,
    ...(reasoning ? { reasoning: true } : {}),
    ...(price === null && parts.unpriced === 'disable' ? { enabled: false } : {}),
  }
}

function sayUnpriced(id: string, { params }: Deployment, { remarks, unpriced }: ModelParts): void {
  const done = unpriced === 'disable' ? 'it is switched off' : 'it is free'
  remarks.add(
    'yours',
    params,
    `the price of ${id} is not in the file: ${done}`,
    `write its price${unpriced === 'disable' ? ' and take "enabled: false" away' : ''}, or import with --prices FILE: LiteLLM's own list, model_prices_and_context_window.json in the root of its repository`,
  )
}

/** A deployment that says nothing of its own, beside others of the same name that do. */
function sayOthers(what: string, id: string, source: string, params: Deployment['params'], remarks: Remarks): void {
  const said = `the ${what} of ${source} is not in the file: ${id} has that of its other deployments`
  remarks.add('yours', params, said, 'see that it fits all of them')
}

/** Shares as whole numbers from 1 to 1000; by `weight`, else by the limits of requests or tokens, as LiteLLM shuffles. */
function weightsOf(id: string, group: readonly Deployment[], remarks: Remarks): number[] {
  const said = (['weight', 'rpm', 'tpm'] as const).find(key => group.every(each => each[key] !== null))
  const even = group.map(() => 1)
  if (group.length < 2) return even
  const half = group.find(each => each.weight !== null)
  if (said !== 'weight' && half)
    remarks.add('changed', half.params, `not every deployment of ${id} has a weight: all have the same`)
  if (said === undefined || (said !== 'weight' && half)) return even
  const shares = group.map(each => scaled(String(each[said]), 6)?.value ?? 0n)
  const divisor = shares.reduce(greatestCommon)
  const least = shares.map(share => (divisor === 0n ? 1n : share / divisor))
  const most = least.reduce((a, b) => (a > b ? a : b))
  const weights = least
    .map(share => Number(most > 1000n ? (share * 1000n) / most : share))
    .map(share => Math.max(1, share))
  for (const [index, share] of shares.entries()) {
    if (share > 0n) continue
    const at = group[index]!.params.peek(said) ?? group[index]!.params
    remarks.add(
      'changed',
      at,
      `it is no share above 0: the target has the weight ${weights[index]}`,
      'take the target out',
    )
  }
  return weights
}

function greatestCommon(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestCommon(b, a % b)
}

/** Reads a price of the row itself, of its model_info, or of the list of prices. Null: not known. */
function priceReader(deployment: Deployment, { remarks, prices }: ModelParts): (key: string) => bigint | null {
  const { params, info } = deployment
  const said = (key: string): bigint | null => {
    const value = params.text(key) ?? info.text(key)
    return value === null ? null : nanoOf(value, value, remarks)
  }
  const known = entryOf(deployment, prices)
  const listed = (key: string): bigint | null => {
    const value = known?.[key]
    return typeof value === 'number' ? (perMillion(String(value))?.value ?? null) : null
  }
  return key => said(key) ?? listed(key)
}

/** What a token of the input costs, where an answer costs nothing. */
export function inputPriceOf(deployment: Deployment, parts: ModelParts): object | null {
  const of = priceReader(deployment, parts)
  const input = of('input_cost_per_token')
  of('output_cost_per_token')
  return input === null ? null : { per: '1M tokens', input: showMoney(formatMoney(input)) }
}

function pricesOf(deployment: Deployment, parts: ModelParts): Prices | null {
  const { remarks, prices } = parts
  const { params } = deployment
  const known = entryOf(deployment, prices)
  const of = priceReader(deployment, parts)
  const [input, output] = [of('input_cost_per_token'), of('output_cost_per_token')]
  const [cached, write] = [of('cache_read_input_token_cost'), of('cache_creation_input_token_cost')]
  if (known && Object.keys(known).some(key => /_above_\d+k_tokens/.test(key))) {
    remarks.add(
      'changed',
      params,
      `${deployment.source} is dearer for long prompts, which the catalog cannot say`,
      'set the price for the longest, or a smaller context',
    )
  }
  if (input === null || output === null) {
    if (input !== null || output !== null)
      remarks.add('lost', params, 'a price for input and one for output belong together')
    return null
  }
  return { input, output, cached_input: cached, cache_write: write }
}

/** Nano-dollars per million tokens that a configuration may say at most. */
const MOST = 100_000n * 10n ** 9n

function nanoOf({ text }: TextValue, at: TextValue, remarks: Remarks): bigint | null {
  const price = perMillion(text)
  if (price !== null && price.value > MOST) {
    remarks.add('lost', at, 'a price is at most $100000 per million tokens', 'it is meant in dollars for one token')
    return null
  }
  if (price === null) remarks.add('lost', at, 'this is no price: a number of dollars that is not below 0')
  else if (!price.exact) remarks.add('changed', at, 'rounded up to nine decimals of a dollar per million tokens')
  return price?.value ?? null
}

/** By the model with its provider, without it, or as `base_model` says. */
function entryOf(
  { source, params, info }: Deployment,
  prices: PriceList | null,
): Readonly<Record<string, unknown>> | null {
  if (prices === null) return null
  const base = (params.text('base_model') ?? info.text('base_model'))?.text
  const names = [
    ...(base ? [base, base.split('/').pop()!] : []),
    source,
    source.slice(source.indexOf('/') + 1),
    source.split('/').pop()!,
  ]
  return names.map(name => (Object.hasOwn(prices, name) ? prices[name]! : null)).find(each => each !== null) ?? null
}

/** What customers pay, whichever target answers: of each part the most that is known. Null when nothing is. */
function dearest(prices: readonly (Prices | null)[]): Prices | null {
  const known = prices.filter(price => price !== null)
  if (known.length === 0) return null
  const most = (of: (price: Prices) => bigint | null): bigint | null => {
    const values = known.map(of)
    return values.some(value => value === null) ? null : values.reduce((a, b) => (a! > b! ? a : b))!
  }
  return {
    input: most(price => price.input)!,
    output: most(price => price.output)!,
    cached_input: most(price => price.cached_input),
    cache_write: most(price => price.cache_write),
  }
}

/** A price for cached tokens counts only where every deployment has one. */
function sayPartsUnknown(
  id: string,
  prices: readonly (Prices | null)[],
  price: Prices | null,
  { params }: Deployment,
  remarks: Remarks,
): void {
  for (const part of ['cached_input', 'cache_write'] as const) {
    if (price === null || price[part] !== null || !prices.some(each => each !== null && each[part] !== null)) continue
    remarks.add(
      'changed',
      params,
      `only some deployments of ${id} have a price for ${part}: customers pay the input price instead`,
      `write ${part} into its price`,
    )
  }
}

function priceYaml(price: Prices): object {
  const dollars = (nano: bigint) => showMoney(formatMoney(nano))
  return {
    per: '1M tokens',
    input: dollars(price.input),
    ...(price.cached_input === null ? {} : { cached_input: dollars(price.cached_input) }),
    ...(price.cache_write === null ? {} : { cache_write: dollars(price.cache_write) }),
    output: dollars(price.output),
  }
}

/** Tokens that a configuration may say at most. */
const MAX_TOKENS = 100_000_000
const ASSUMED = { context: 128 * 1024, output: 4096 }

function sizesOf(id: string, group: readonly Deployment[], { remarks, prices }: ModelParts) {
  const read = (deployment: Deployment, key: string): number | null => {
    const value = deployment.info.text(key)
    const listed = entryOf(deployment, prices)?.[key]
    const said = value && wholeOf(value.text)
    if (said !== null && said >= 1 && said <= MAX_TOKENS) return said
    if (value) remarks.add('lost', value, `a number of tokens is a whole one from 1 to ${MAX_TOKENS}`)
    return typeof listed === 'number' && listed <= MAX_TOKENS ? listed : null
  }
  const least = (what: string, ...keys: readonly string[]): number | null => {
    const all = group.map(each => keys.map(key => read(each, key)).find(value => value !== null && value > 0) ?? null)
    const known = all.filter(value => value !== null)
    if (known.length === 0) return null
    for (const [index, { params, source }] of group.entries())
      if (all[index] === null) sayOthers(what, id, source, params, remarks)
    return Math.min(...known)
  }
  const [first] = group as [Deployment]
  const input = least('context', 'max_input_tokens')
  const output = least('longest answer', 'max_output_tokens', 'max_tokens')
  const context = Math.max(input ?? ASSUMED.context, output ?? 0)
  if (input !== null && context > input)
    remarks.add('changed', first.info, `${id} has a context of ${context}: its longest answer has to fit in`)
  if (input === null)
    remarks.add(
      'yours',
      first.params,
      `the context of ${id} is not in the file: ${context} is assumed`,
      'write what the provider says: holds depend on it',
    )
  const caps = group.map(each => each.params.text('max_tokens') ?? each.params.text('max_completion_tokens'))
  const asked = caps.map(each => each && wholeOf(each.text)).filter(each => each !== null && each >= 1)
  const maxOutput = Math.min(output ?? (asked.length > 0 ? Math.min(...(asked as number[])) : ASSUMED.output), context)
  if (output === null) {
    const taken = asked.length > 0 ? `its max_tokens, ${maxOutput}, are taken` : `${maxOutput} tokens are assumed`
    remarks.add(
      'yours',
      first.params,
      `the longest answer of ${id} is not in the file: ${taken}`,
      'write what the provider says as max_output',
    )
  }
  const cap = caps[0] && wholeOf(caps[0].text)
  for (const each of caps) {
    const own = each && wholeOf(each.text)
    if (each && (own !== cap || !own || own > maxOutput))
      remarks.add(
        'lost',
        each,
        `${id} has one default_output, that of its first deployment, from 1 to max_output (${maxOutput})`,
      )
  }
  return {
    context,
    max_output: maxOutput,
    ...(cap && cap <= maxOutput ? { default_output: cap } : {}),
  }
}

/** By the row, else by the list of prices, else by the name. */
function isReasoning(group: readonly Deployment[], { remarks, prices }: ModelParts): boolean {
  const said = group.map(each => {
    const row = each.info.text('supports_reasoning')
    const listed = entryOf(each, prices)?.['supports_reasoning']
    return row ? isTrue(row) : typeof listed === 'boolean' ? listed : null
  })
  if (said.some(each => each !== null)) return said.includes(true)
  const [first] = group as [Deployment]
  const names = group.flatMap(({ source, params, info }) => [source, baseModelOf(params), baseModelOf(info)])
  const name = names.find(each => THINKS.test(each))
  if (name === undefined) return false
  remarks.add(
    'changed',
    first.params,
    `${name} is taken for a thinking model by its name`,
    'else take "reasoning: true" away',
  )
  return true
}

const THINKS = /(^|[/.-])(o[134](-|$)|gpt-5|deepseek-reasoner|deepseek-r1)|-thinking|-reasoning/

/** What a deployment with a name of its own (Azure) is; empty where the row does not say it. */
function baseModelOf(fields: Fields): string {
  const said = fields.peek('base_model')
  return said?.kind === 'text' ? said.text : ''
}
