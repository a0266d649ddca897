/** The views of prices, counts by unit, and lines of a cost (money-fields.ts of the contract). */
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
/** The requests to which a rule of a price applies. */
export const ruleOf = {
  unit,
  'above?': says(count, 'For requests with a longer prompt, in tokens.'),
  'tier?': says(tier, 'For requests in this class of service.'),
} satisfies Properties
const rules = list(
  shape({
    ...ruleOf,
    price: money,
    per: count,
    'source?': says(text, 'The price list with its day. Missing: the price is in gateway.yaml.'),
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
  rules: says(maybe(rules), 'All rules, if the other properties do not show them all.'),
} satisfies Properties

export const cost = {
  lines: says(lines, 'The cost of the usage, by unit.'),
  rounding: says(
    text,
    'Dollars with 15 decimals: the cost minus the sum of its lines, because the cost is rounded up once.',
  ),
  cost: says(money, 'The sum of the lines, rounded up. The charge is lower if the hold was lower.'),
} satisfies Properties
