/** Broken prices in gateway.yaml, in the form of gateway-rows.ts. */
import type { Row } from './gateway-rows.ts'
import { type Gateway, PARTS } from './workshop.ts'

const model = (price: string): Gateway => ({
  models: `models:\n  small:\n    targets: [ { provider: demo, model: tiny } ]\n    price: ${price}\n    context: 8Ki\n    max_output: 1Ki`,
})
const raw = (text: string): Gateway => ({
  routes: `${PARTS.routes}\n  - { path: /v1/embeddings, kind: raw, policy: standard, provider: far, ${text} }`,
})

export const PRICES: Row[] = [
  [
    'a step of a price without its length',
    model('{ per: 1M tokens, input: 1, output: 1, above: [ ▸{ input: 2 } ] }'),
    'tokens',
  ],
  [
    'a step of a price without a price',
    model('{ per: 1M tokens, input: 1, output: 1, above: [ ▸{ tokens: 1Ki } ] }'),
    'this step has no price; write a price for tokens above this length, such as "input: $2.50"',
  ],
  [
    'two steps of a price from the same length',
    model(
      '{ per: 1M tokens, input: 1, output: 1, above: [ { tokens: 1Ki, input: 2 }, { tokens: ▸1024, output: 2 } ] }',
    ),
    'another step also begins above 1024 tokens',
  ],
  [
    'a step of a price above the maximum',
    model('{ per: 1M tokens, input: 1, output: 1, above: [ { tokens: 1Ki, input: ▸$100001 } ] }'),
    'input is more than $100000 per 1M tokens',
  ],
  [
    'a mistyped tier',
    model('{ per: 1M tokens, input: 1, output: 1, tier: { ▸prority: { input: 2 } } }'),
    'did you mean "priority"?',
  ],
  [
    'a tier of a price below 0',
    model('{ per: 1M tokens, input: 1, output: 1, tier: { flex: { input: ▸"-$2" } } }'),
    'is not an amount of dollars',
  ],
  ['a unit of raw routes at a model', model('{ per: 1M tokens, input: 1, output: 1, ▸image: 2 }'), 'image'],
  [
    'a raw price for images without a hold',
    raw('price: { image: ▸$0.04 }'),
    'image has no maximum that is known before the answer',
  ],
  [
    'seconds and minutes',
    raw('hold: $1, price: { second: $0.0001, ▸minute: $0.006 }'),
    'a price can have second or minute, not both',
  ],
  ['a misspelt unit', raw('hold: $1, price: { ▸minutes: $0.006 }'), 'did you mean "minute"?'],
]
