/**
 * The worst-case costs of a configuration: the largest holds, the open holds of an account, and losses of the operator. Losses
 * occur if a provider bills more than customers pay. Pure arithmetic on a checked configuration, with the same formulas as the
 * step `credits`. Every figure contains its formula.
 */

import type { Configuration } from '../config/configuration.ts'
import {
  type Cost,
  ceiling,
  dearestRule,
  MAX_CHOICES,
  MAX_PASSES,
  MAX_SEARCHES,
  type Model,
  mostOutput,
  type NanoUsd,
  type Price,
  rateOf,
  ruleFor,
  type Target,
  takesSearch,
  type Unit,
} from '../contract/index.ts'
import type { Figure } from './exposure-policies.ts'
import { type PolicyExposure, policyExposures } from './exposure-policies.ts'
import { showNano } from './format.ts'

/** Kinds of costs that the operator pays and no customer does. */
export const LOSSES = ['margin', 'overrun', 'unpaid', 'unpriced'] as const
export type Loss = (typeof LOSSES)[number]

export interface ModelExposure {
  readonly id: string
  readonly largestHold: Figure
  /** Part of the hold: reasoning beyond the cap (`reasoning_outside_cap`). Customers pay it. */
  readonly outsideCap: Figure
  /** An answered exchange within its hold: the excess of cost over price, at the target where it is largest. */
  readonly margin: Figure
  /** One attempt at a provider that ignores the cap and the prompt, up to the model's context. */
  readonly overrun: Figure
  /** Attempts within their cap that failed or were aborted: the provider may bill them in full, but no customer is charged. */
  readonly unpaid: Figure
  /** One exchange with all its attempts, in which all requested kinds of loss occur. */
  readonly worstExchange: Figure
  /** Features that the provider bills and that have no price here: without a bound. */
  readonly unpriced: readonly string[]
  readonly remarks: readonly string[]
}

export interface Exposure {
  readonly models: readonly ModelExposure[]
  readonly policies: readonly PolicyExposure[]
  /** The largest single hold, including raw routes, and its model or route. */
  readonly largestHold: Figure & { readonly of: string }
  /** The largest sum of all holds, with `max_inflight` exchanges. */
  readonly openHolds: Figure
  /** How far below zero an account can get. */
  readonly overdraft: Figure
}

/**
 * @param losses the kinds in the worst exchange of each model. Losses without a bound (`unpriced`) are in no figure.
 */
export function exposureOf(configuration: Configuration, losses: readonly Loss[] = LOSSES): Exposure {
  const offered = [...configuration.models.values()].filter(model => model.enabled)
  const models = offered.map(model => modelExposure(model, configuration, losses))
  const policies = policyExposures(configuration, models)
  const holds = [
    ...models.map(({ id, largestHold }) => ({ ...largestHold, of: `model ${id}` })),
    ...policies.flatMap(({ raw }) => raw.flatMap(({ path, hold }) => (hold ? [{ ...hold, of: `route ${path}` }] : []))),
  ]
  const none = { amount: 0n, formula: 'no model or route has a price', of: 'nothing' }
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
        'a hold is committed before a request is sent, only from available credit; a charge is never more than its hold',
    },
  }
}

const FREE: Price = []

/** The maximum cost of these amounts. */
function mostOf(price: Price, input: number, output: number, search = 0, request = 1): NanoUsd {
  return roundedSum(ceiling({ input, output, search, request }, price))
}

/** The sum of costs, rounded up once. */
function roundedSum(...costs: readonly Cost[]): NanoUsd {
  const millionths = costs.reduce((sum, { total, rounding }) => sum + total * MILLION - rounding, 0n)
  return (millionths + MILLION - 1n) / MILLION
}

const MILLION = 1_000_000n

function modelExposure(model: Model, configuration: Configuration, losses: readonly Loss[]): ModelExposure {
  const price = model.price ?? FREE
  const shapes = shapesOf(model)
  const costs = model.targets.flatMap(target => {
    const cost = costOfTarget(target, model, configuration)
    return shapes.map(shape => ({ ...cost, shape }))
  })
  const outside = mostOutput(model, 1, 0)
  const attempts = attemptsOf(configuration)
  return {
    id: model.id,
    largestHold: largest(shapes.map(shape => holdOf(model, price, shape))),
    outsideCap: largest(
      shapes.map(shape => ({
        amount: mostOf(price, 0, answersOf(shape) * outside, 0, 0),
        formula: `${times(shape)} x ${outside} reasoning_outside_cap x ${perMillion(dearest(price, 'output', model.context))} output`,
      })),
    ),
    margin: largest(costs.map(cost => margin(model, cost, price))),
    overrun: largest(costs.map(cost => overrun(model, cost, outside))),
    unpaid: largest(costs.map(cost => unpaid(model, cost, attempts))),
    worstExchange: largest(costs.map(cost => worstExchange(model, cost, attempts, losses))),
    unpriced: model.price === null ? [] : unpricedOf(model, costs),
    remarks: [...new Set(costs.flatMap(({ remark }) => (remark === null ? [] : [remark])))],
  }
}

/** A search has a bound if its cost is known. */
function unpricedOf({ allow }: Model, costs: readonly TargetCost[]): readonly string[] {
  const isKnown = costs.every(({ cost }) => ruleFor(cost, 'search') !== undefined)
  return isKnown ? allow.filter(feature => feature !== 'web_search') : allow
}

/** The form of an expensive request: many choices, or a search, in which the model runs several times. */
interface Shape {
  readonly choices: number
  readonly passes: number
  readonly searches: number
}

function shapesOf(model: Model): readonly Shape[] {
  const choices = model.maxChoices ?? MAX_CHOICES
  const plain = { choices, passes: 1, searches: model.allow.includes('web_search') ? 1 : 0 }
  if (!takesSearch(model, 'anthropic')) return [plain]
  return [plain, { choices: 1, passes: MAX_PASSES, searches: MAX_SEARCHES }]
}

const answersOf = ({ choices, passes }: Shape) => choices * passes
const times = ({ choices, passes }: Shape) => (passes === 1 ? `${choices} choices` : `${passes} passes`)
const promptOf = ({ context }: Model, { passes }: Shape) =>
  passes === 1 ? `context ${context}` : `${passes} passes x context ${context}`

function holdOf(model: Model, price: Price, shape: Shape): Figure {
  const output = mostOutput(model, answersOf(shape), model.maxOutput)
  const answers = `${times(shape)} x ${perChoice(model, mostOutput(model, 1, 0))}`
  return {
    amount: mostOf(price, shape.passes * model.context, output, shape.searches),
    formula: formulaOf(price, model, shape, answers, shape.searches),
  }
}

interface TargetCost {
  readonly target: Target
  readonly cost: Price
  readonly remark: string | null
}

/** For one shape of request. */
type ShapeCost = TargetCost & { readonly shape: Shape }

/** The operator's cost: the configured one, nothing for the embedded demo, else the customers' price. */
function costOfTarget(target: Target, model: Model, { providers }: Configuration): TargetCost {
  if (target.cost !== null) return { target, cost: target.cost, remark: null }
  if (providers.get(target.provider)?.dialect === 'demo') return { target, cost: FREE, remark: null }
  if (model.price !== null) {
    return {
      target,
      cost: model.price,
      remark: `${target.id} has no "cost": assumed to equal the price of ${model.id}`,
    }
  }
  return {
    target,
    cost: FREE,
    remark: `${target.id} has no "cost", and ${model.id} is free: the cost is unknown`,
  }
}

function margin(model: Model, { target, cost, shape }: ShapeCost, price: Price): Figure {
  const above = abovePrice(cost, price)
  const output = mostOutput(model, answersOf(shape), model.maxOutput)
  const formula = formulaOf(above, model, shape, `${output} tokens of output`, shape.searches)
  const amount = mostOf(above, shape.passes * model.context, output, shape.searches)
  return { amount, formula: `${target.id}, cost above price: ${formula}` }
}

/** The excess of a cost over a price, for each rule of either. */
function abovePrice(cost: Price, price: Price): Price {
  return [...cost, ...price].map(rule => {
    const input = rule.above === undefined ? 0 : rule.above + 1
    const [paid, charged] = [cost, price].map(each => ruleFor(each, rule.unit, input, rule.tier)?.nanos ?? 0n)
    return { ...rule, nanos: paid! > charged! ? paid! - charged! : 0n }
  })
}

/** The smallest request: a cap of one token and an almost empty prompt. Its searches are charged. */
function overrun(model: Model, { target, cost, shape }: ShapeCost, outside: number): Figure {
  const beyondCap = Math.max(0, model.context - 1 - outside)
  const billed = cost.filter(({ unit }) => unit !== 'request')
  const formula = formulaOf(billed, model, shape, `${times(shape)} x ${beyondCap} beyond a cap of 1`, 0)
  return { amount: roundedSum(overrunCost(model, cost, shape, outside)), formula: `${target.id}: ${formula}` }
}

function overrunCost(model: Model, cost: Price, shape: Shape, outside: number): Cost {
  const output = answersOf(shape) * Math.max(0, model.context - 1 - outside)
  return ceiling({ input: shape.passes * model.context, output, request: 0 }, cost)
}

function unpaid(model: Model, { target, cost, shape }: ShapeCost, attempts: number): Figure {
  const output = mostOutput(model, answersOf(shape), model.maxOutput)
  const formula = formulaOf(cost, model, shape, `${output} tokens of output`, shape.searches)
  const amount = mostOf(cost, shape.passes * model.context, output, shape.searches)
  return eachOf(attempts, target, { amount, formula })
}

/**
 * The kinds of loss can combine: each attempt may ignore the output cap, and failed attempts are not charged. An answer that is
 * partly charged costs less. Without `unpaid`, the worst case is one answer.
 */
function worstExchange(model: Model, cost: ShapeCost, attempts: number, losses: readonly Loss[]): Figure {
  const price = model.price ?? FREE
  const outside = mostOutput(model, 1, 0)
  const overruns = losses.includes('overrun')
  if (losses.includes('unpaid')) {
    return overruns ? unpaidOverrun(model, cost, outside, attempts) : unpaid(model, cost, attempts)
  }
  const beyondCap = overrun(model, cost, outside)
  if (!losses.includes('margin')) return overruns ? beyondCap : NO_LOSS
  const atMost = margin(model, cost, price)
  if (!overruns) return atMost
  // The charged part of the smallest request may be charged below its cost.
  const paid = answersOf(cost.shape) * (1 + outside)
  const above = abovePrice(cost.cost, price)
  const below = ceiling({ output: paid, search: cost.shape.searches }, above)
  const amount = roundedSum(overrunCost(model, cost.cost, cost.shape, outside), below)
  if (amount <= atMost.amount) return atMost
  return { amount, formula: `${beyondCap.formula} + cost above price for ${paid} tokens: ${showNano(below.total)}` }
}

const NO_LOSS: Figure = { amount: 0n, formula: 'none of margin, overrun and unpaid counts' }

/** The cost of uncharged attempts at a provider that ignores the output cap. */
function unpaidOverrun(model: Model, { target, cost, shape }: ShapeCost, outside: number, attempts: number): Figure {
  const { context, maxOutput } = model
  const inCap = maxOutput + outside
  const [perAnswer, output] = inCap > context ? [perChoice(model, outside), inCap] : [`context ${context}`, context]
  const formula = formulaOf(cost, model, shape, `${times(shape)} x ${perAnswer}`, shape.searches)
  const amount = mostOf(cost, shape.passes * context, answersOf(shape) * output, shape.searches)
  return eachOf(attempts, target, { amount, formula })
}

function eachOf(attempts: number, target: Target, { amount, formula }: Figure): Figure {
  return {
    amount: BigInt(attempts) * amount,
    formula: `${target.id}: ${attempts} ${attempts === 1 ? 'attempt' : 'attempts'} x (${formula})`,
  }
}

/** The largest `attempts` of the step `route` on any route. */
function attemptsOf({ routes }: Configuration): number {
  const configured = routes.flatMap(({ steps }) =>
    steps.steps.flatMap(({ plugin, settings }) => {
      const { attempts } = (settings ?? {}) as { attempts?: unknown }
      return plugin.gives?.includes('targets') && typeof attempts === 'number' ? [attempts] : []
    }),
  )
  return configured.length === 0 ? 1 : Math.max(...configured)
}

function largest(figures: readonly Figure[]): Figure {
  return figures.reduce((most, each) => (each.amount > most.amount ? each : most))
}

function perChoice({ maxOutput }: Model, outside: number): string {
  return outside === 0 ? `max_output ${maxOutput}` : `(max_output ${maxOutput} + reasoning_outside_cap ${outside})`
}

/** `context 8192 x $0.15 + 128 choices x max_output 1024 x $0.60 per 1M tokens + $0.01 a request + 10 searches x $0.01`. */
function formulaOf(price: Price, model: Model, shape: Shape, output: string, searches: number): string {
  const [prompt, context] = [promptOf(model, shape), shape.passes * model.context]
  const [request, search] = [rateOf(price, 'request'), rateOf(price, 'search')]
  const each = request === 0n ? '' : ` + ${showNano(request)} a request`
  const searched = search === 0n || searches === 0 ? '' : ` + ${searches} searches x ${showNano(search)}`
  const [input, answer] = [dearest(price, 'input', context), dearest(price, 'output', context)]
  return `${prompt} x ${perMillion(input)} highest input price + ${output} x ${perMillion(answer)} output${each}${searched}`
}

const dearest = (price: Price, unit: Unit, input: number) => dearestRule(price, unit, { input })?.nanos ?? 0n

function perMillion(nano: NanoUsd): string {
  return `${showNano(nano)}/1M`
}
