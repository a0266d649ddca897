/**
 * What a configuration can cost at worst: the largest hold of each model, what an account may have open at once, and what
 * the house loses where a provider bills what nobody pays. Pure arithmetic on a checked configuration, the same sums as
 * the step `credits` makes; every figure carries the formula that led to it.
 */
import type { Configuration } from '../config/configuration.ts'
import {
  MOST_CHOICES,
  type Model,
  mostOf,
  mostOutput,
  type NanoUsd,
  type Price,
  type Target,
} from '../contract/index.ts'
import { type PolicyExposure, policyExposures } from './exposure-policies.ts'
import { showNano } from './exposure-text.ts'

/** An amount and how it came about. */
export interface Figure {
  readonly amount: NanoUsd
  readonly formula: string
}

/** Ways in which the house pays what no customer does. */
export const LOSSES = ['margin', 'overrun', 'unpaid', 'unpriced'] as const
export type Loss = (typeof LOSSES)[number]

export interface ModelExposure {
  readonly id: string
  readonly largestHold: Figure
  /** Part of the hold: thinking beyond the cap that targets were said to bill. Customers pay it. */
  readonly outsideCap: Figure
  /** An answered exchange within its hold, at the target whose cost is highest above the price. */
  readonly margin: Figure
  /** One attempt at a provider that ignores the cap and the prompt that it was sent, up to the model's context. */
  readonly overrun: Figure
  /** Attempts within their cap that failed, broke off or were left: the provider may bill them in full, and nobody is charged for that. */
  readonly unpaid: Figure
  /** One exchange, all its attempts, in which every kind of loss that was asked for comes together. */
  readonly worstExchange: Figure
  /** Features that change what the provider bills and have no price here: without a bound. */
  readonly unpriced: readonly string[]
  readonly remarks: readonly string[]
}

export interface Exposure {
  readonly models: readonly ModelExposure[]
  readonly policies: readonly PolicyExposure[]
  /** The largest single hold of all, raw routes included, and whose it is. */
  readonly largestHold: Figure & { readonly of: string }
  /** What all accounts together can have on hold: as many exchanges as `max_inflight` lets in. */
  readonly openHolds: Figure
  /** How far below zero an account can get. */
  readonly overdraft: Figure
}

/**
 * The whole of it.
 * @param losses what counts in the worst exchange of each model; what has no bound (`unpriced`) is in no figure
 */
export function exposureOf(configuration: Configuration, losses: readonly Loss[] = LOSSES): Exposure {
  const offered = [...configuration.models.values()].filter(model => model.enabled)
  const models = offered.map(model => modelExposure(model, configuration, losses))
  const policies = policyExposures(configuration, models)
  const holds = [
    ...models.map(({ id, largestHold }) => ({ ...largestHold, of: `model ${id}` })),
    ...policies.flatMap(({ raw }) => raw.flatMap(({ path, hold }) => (hold ? [{ ...hold, of: `route ${path}` }] : []))),
  ]
  const none = { amount: 0n, formula: 'nothing that is served has a price', of: 'nothing' }
  const largestHold = holds.reduce((most, each) => (each.amount > most.amount ? each : most), none)
  const { maxInflight } = configuration.limits
  return {
    models,
    policies,
    largestHold,
    openHolds: {
      amount: BigInt(maxInflight) * largestHold.amount,
      formula: `limits.max_inflight ${maxInflight} x ${showNano(largestHold.amount)} (${largestHold.of})`,
    },
    overdraft: {
      amount: 0n,
      formula:
        'a hold is committed before anything is sent, and only out of what is available; a charge is never more than its hold',
    },
  }
}

const FREE: Price = { input: 0n, cachedInput: 0n, cacheWrite: 0n, output: 0n, request: 0n }

function modelExposure(model: Model, configuration: Configuration, losses: readonly Loss[]): ModelExposure {
  const price = model.price ?? FREE
  const costs = model.targets.map(target => costOfTarget(target, model, configuration))
  const output = mostOutput(model, choicesOf(model), model.maxOutput)
  const outside = mostOutput(model, 1, 0)
  const attempts = attemptsOf(configuration)
  return {
    id: model.id,
    largestHold: {
      amount: mostOf(price, model.context, output),
      formula: sum(price, `context ${model.context}`, `${choicesOf(model)} choices x ${perChoice(model, outside)}`),
    },
    outsideCap: {
      amount: mostOf({ ...FREE, output: price.output }, 0, choicesOf(model) * outside),
      formula: `${choicesOf(model)} choices x ${outside} reasoning_outside_cap x ${perMillion(price.output)} output`,
    },
    margin: worst(costs, ({ cost, target }) => margin(model, target, cost, price)),
    overrun: worst(costs, ({ cost, target }) => overrun(model, target, cost, outside)),
    unpaid: worst(costs, ({ cost, target }) => unpaid(model, target, cost, attempts)),
    worstExchange: worst(costs, cost => worstExchange(model, cost, attempts, losses)),
    unpriced: model.price === null ? [] : model.allow,
    remarks: [...new Set(costs.flatMap(({ remark }) => (remark === null ? [] : [remark])))],
  }
}

interface TargetCost {
  readonly target: Target
  readonly cost: Price
  readonly remark: string | null
}

/** What the house pays: as it is said; nothing at the embedded demo; else as much as customers do. */
function costOfTarget(target: Target, model: Model, { providers }: Configuration): TargetCost {
  if (target.cost !== null) return { target, cost: target.cost, remark: null }
  if (providers.get(target.provider)?.dialect === 'demo') return { target, cost: FREE, remark: null }
  if (model.price !== null) {
    return { target, cost: model.price, remark: `${target.id} has no "cost": taken to be the price of ${model.id}` }
  }
  return {
    target,
    cost: FREE,
    remark: `${target.id} has no "cost", and ${model.id} is free: what it costs is not known`,
  }
}

function margin(model: Model, target: Target, cost: Price, price: Price): Figure {
  const above = abovePrice(cost, price)
  const output = mostOutput(model, choicesOf(model), model.maxOutput)
  const formula = sum(above, `context ${model.context}`, `${output} tokens of output`)
  return { amount: mostOf(above, model.context, output), formula: `${target.id}, cost above price: ${formula}` }
}

/** `n`: the schema of requests refuses more than the model's targets give. */
const choicesOf = ({ maxChoices = MOST_CHOICES }: Model) => maxChoices

function abovePrice(cost: Price, price: Price): Price {
  return {
    input: beyond(cost.input, price.input),
    cachedInput: beyond(cost.cachedInput, price.cachedInput),
    cacheWrite: beyond(cost.cacheWrite, price.cacheWrite),
    output: beyond(cost.output, price.output),
    request: beyond(cost.request, price.request),
  }
}

/** The smallest request there is: a cap of one token, and a prompt of next to nothing. */
function overrun(model: Model, target: Target, cost: Price, outside: number): Figure {
  const beyondCap = Math.max(0, model.context - 1 - outside)
  const billed = { ...cost, request: 0n }
  const formula = sum(
    billed,
    `context ${model.context}`,
    `${choicesOf(model)} choices x ${beyondCap} beyond a cap of 1`,
  )
  return { amount: mostOf(billed, model.context, choicesOf(model) * beyondCap), formula: `${target.id}: ${formula}` }
}

function unpaid(model: Model, target: Target, cost: Price, attempts: number): Figure {
  const output = mostOutput(model, choicesOf(model), model.maxOutput)
  const formula = sum(cost, `context ${model.context}`, `${output} tokens of output`)
  return eachOf(attempts, target, { amount: mostOf(cost, model.context, output), formula })
}

/**
 * The kinds do not exclude each other: each attempt may ignore the cap, and of attempts that all fail nobody is charged any.
 * That is the worst of all, and no answer that somebody pays a part of is worse. Without `unpaid` it is one answer.
 */
function worstExchange(model: Model, { target, cost }: TargetCost, attempts: number, losses: readonly Loss[]): Figure {
  const price = model.price ?? FREE
  const outside = mostOutput(model, 1, 0)
  const overruns = losses.includes('overrun')
  if (losses.includes('unpaid')) {
    return overruns ? ignored(model, target, cost, outside, attempts) : unpaid(model, target, cost, attempts)
  }
  const beyondCap = overrun(model, target, cost, outside)
  if (!losses.includes('margin')) return overruns ? beyondCap : NO_LOSS
  const atMost = margin(model, target, cost, price)
  if (!overruns) return atMost
  // The little that the smallest request does pay for may be paid below its cost.
  const paid = choicesOf(model) * (1 + outside)
  const below = mostOf(abovePrice(cost, price), 0, paid)
  const amount = beyondCap.amount + below
  if (amount <= atMost.amount) return atMost
  return { amount, formula: `${beyondCap.formula} + cost above price for ${paid} tokens: ${showNano(below)}` }
}

const NO_LOSS: Figure = { amount: 0n, formula: 'neither margin nor overrun nor unpaid counts' }

/** Attempts that nobody is charged for, at a provider that ignores the cap. */
function ignored(model: Model, target: Target, cost: Price, outside: number, attempts: number): Figure {
  const { context, maxOutput } = model
  const inCap = maxOutput + outside
  const [perAnswer, output] = inCap > context ? [perChoice(model, outside), inCap] : [`context ${context}`, context]
  const formula = sum(cost, `context ${context}`, `${choicesOf(model)} choices x ${perAnswer}`)
  return eachOf(attempts, target, { amount: mostOf(cost, context, choicesOf(model) * output), formula })
}

function eachOf(attempts: number, target: Target, { amount, formula }: Figure): Figure {
  return {
    amount: BigInt(attempts) * amount,
    formula: `${target.id}: ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'} x (${formula})`,
  }
}

/** Of all routes on which a model is asked the most; the step `route` says it. */
function attemptsOf({ routes }: Configuration): number {
  const said = routes.flatMap(({ steps }) =>
    steps.steps.flatMap(({ plugin, settings }) => {
      const { attempts } = (settings ?? {}) as { attempts?: unknown }
      return plugin.gives?.includes('targets') && typeof attempts === 'number' ? [attempts] : []
    }),
  )
  return said.length === 0 ? 1 : Math.max(...said)
}

function worst(costs: readonly TargetCost[], figure: (cost: TargetCost) => Figure): Figure {
  return costs.map(figure).reduce((most, each) => (each.amount > most.amount ? each : most))
}

function beyond(cost: NanoUsd, price: NanoUsd): NanoUsd {
  return cost > price ? cost - price : 0n
}

function perChoice({ maxOutput }: Model, outside: number): string {
  return outside === 0 ? `max_output ${maxOutput}` : `(max_output ${maxOutput} + reasoning_outside_cap ${outside})`
}

/** `context 8192 x $0.15 + 128 choices x max_output 1024 x $0.60 per 1M tokens + $0.01 a request`. */
function sum(price: Price, prompt: string, output: string): string {
  const dearest = mostOf(price, 1_000_000, 0) - price.request
  const request = price.request === 0n ? '' : ` + ${showNano(price.request)} a request`
  return `${prompt} x ${perMillion(dearest)} dearest input + ${output} x ${perMillion(price.output)} output${request}`
}

function perMillion(nano: NanoUsd): string {
  return `${showNano(nano)}/1M`
}
