/** The views of models: prices, and for operators costs. */
import { price, ruleOf } from './money-schemas.ts'
import { maybe, type Properties, type Schema, shape } from './schema.ts'
import { count, flag, list, ref, says, text, view } from './schema-parts.ts'

/** Percent, with one decimal. */
const tenths: Schema<number> = { type: 'number' }

export const MODEL_VIEWS = {
  PriceView: view('Dollars per million tokens, per request, and per web search.', price),
  ModelView: view('A model with its price.', {
    id: text,
    description: maybe(text),
    aliases: list(text),
    owned_by: text,
    context: count,
    max_output: count,
    reasoning: flag,
    price: says(maybe(ref('PriceView')), 'Null: free.'),
    wildcard: says(
      maybe(text),
      'The id with a * in gateway.yaml that the model comes from; null: gateway.yaml has its own id.',
    ),
    deprecation: says(maybe(ref('ModelEndView')), 'The end of the model; null: not known.'),
  }),
  ModelEndView: view('The end of a model, and its successor.', {
    date: says(maybe(text), 'The day of its shutdown by the provider, as YYYY-MM-DD; null: not known.'),
    successor: says(maybe(text), 'The id of the successor; null: not known.'),
  }),
  OperatorModelView: view('A model with its price, its costs and the margin between them.', {
    id: text,
    model: ref('ModelView'),
    public: says(flag, 'False: only for keys that list it.'),
    enabled: flag,
    targets: says(
      list(shape({ target: text, cost: says(maybe(ref('PriceView')), 'Null: not known.') })),
      'The targets, each with the price that the operator pays.',
    ),
    margin: says(
      shape({ input: maybe(tenths), output: maybe(tenths) }),
      '(price − cost) / price in percent, rounded down to a tenth, for ordinary requests; with several targets the smallest. Null: no cost is known, or the price is 0.',
    ),
    below_cost: says(
      list(shape({ target: text, ...ruleOf })),
      'The units, prompt lengths and tiers whose price is below the cost of a target.',
    ),
  }),
} satisfies Properties
