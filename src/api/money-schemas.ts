/** Prices, counts by unit and the lines of a cost, as the account API answers them (money-fields.ts of the contract). */
import { type Counts, TIERS, type Tier, UNIT_NAMES, type Unit } from '#contract'
import { maybe, type Properties, type Schema, shape } from './schema.ts'
import { count, list, money, oneOf, says, text } from './schema-parts.ts'

/** Seconds may have decimals. */
const quantity: Schema<number> = { type: 'number', minimum: 0 }
const unit: Schema<Unit> = oneOf(...UNIT_NAMES)
export const tier: Schema<Tier> = oneOf(...TIERS)
export const counts: Schema<Counts> = shape(
  Object.fromEntries(UNIT_NAMES.map(name => [`${name}?`, name === 'second' ? quantity : count])),
)
/** The requests for which a rule of a price holds. */
export const ruleOf = {
  unit,
  'above?': says(count, 'For requests whose prompt has more tokens than this.'),
  'tier?': says(tier, 'For requests that the provider answers in this class of service.'),
} satisfies Properties
const rules = list(
  shape({
    ...ruleOf,
    price: money,
    per: count,
    'source?': says(text, 'The price list and its day. Left out: the operator wrote the price.'),
  }),
)
const lines = list(
  shape({
    unit,
    quantity,
    rate: says(money, 'Dollars for `per` units.'),
    per: count,
    amount: says(text, 'Dollars with 15 decimals: a token may cost a fraction of a nano-dollar.'),
  }),
)

const UNIT: Schema<'1M tokens'> = { type: 'string', const: '1M tokens' }

export const price = {
  unit: UNIT,
  input: money,
  cached_input: money,
  cache_write: money,
  output: money,
  request: money,
  web_search: money,
  rules: says(maybe(rules), 'All of its rules, where the other properties do not say all of them.'),
} satisfies Properties

export const cost = {
  lines: says(lines, 'What the usage costs by the price, by unit.'),
  rounding: says(text, 'Dollars with 15 decimals: by how much the cost is more than its lines: it is rounded up once.'),
  cost: says(money, 'What the lines come to. The charge is less where less was held.'),
} satisfies Properties
