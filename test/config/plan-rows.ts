/** Broken plans, and references to plans that are not declared. The mark ▸ shows where the problem must be reported. */
import type { Row } from './gateway-rows.ts'
import { type Gateway, PARTS, STANDARD } from './workshop.ts'

const plans = (text: string, more = ''): Gateway => ({ more: `plans:\n  pro: { ${text} }\n${more}` })
const limits = (text: string) => plans(`limits: [ ${text} ]`)
const THESE = 'the declared plans are default and pro'

const budgets = (text: string) => plans(`budgets: [ ${text} ]`)
const DAY = 'per: key, amount: $1, every: day'

export const PLANS: Row[] = [
  ['a budget without a period', budgets('▸{ per: key, amount: $1 }'), 'has no "every"'],
  [
    'a budget of a team',
    budgets('{ per: ▸team, amount: $1, every: day }'),
    'must be account, key, caller or "tag NAME"',
  ],
  ['a budget as a rate', budgets('{ per: key, amount: ▸20 per month, every: month }'), 'not an amount of dollars'],
  [
    'a budget of a year',
    budgets('{ per: key, amount: $1, every: ▸year }'),
    'is not one of hour, day, week, month or life',
  ],
  [
    'an unknown zone',
    budgets(`{ ${DAY}, zone: ▸Europe/Atlantis }`),
    'zone must be a time zone such as Europe/Berlin or UTC, and is "Europe/Atlantis"',
  ],
  ['a mark above 100%', budgets(`{ ${DAY}, at: [ ▸101% ] }`), 'must be a percentage from 1% to 100%'],
  ['a mark as a number', budgets(`{ ${DAY}, at: [ ▸80 ] }`), '80'],
  [
    'a budget with a model that the plan lacks',
    {
      more: `plans:\n  pro: { models: [ large ], budgets: [ { ${DAY}, then: ▸small } ] }\n`,
      models: `${PARTS.models}\n${PARTS.models.replace('models:\n', '').replace('small:', 'large:')}`,
    },
    'the models of this plan do not include "small", so it would never be used; add it to models, or write refuse',
  ],
  ['an unknown model', budgets(`{ ${DAY}, then: ▸smal }`), 'the catalog has no model "smal"; did you mean "small"?'],
  ['two budgets of one name', budgets(`{ ${DAY} }, ▸{ ${DAY} }`), 'is a second budget "key day"; give it a `name`'],
  ['plans as a list', { more: 'plans: ▸[ pro ]' }, 'plans must be a map, not a list'],
  ['a plan that is empty', { more: 'plans:\n  ▸pro:\n' }, 'pro is empty; give it a value or remove the key'],
  [
    'an invalid name of a plan',
    { more: 'plans:\n  ▸"pro!": {}' },
    'must be up to 100 letters, digits, blanks and . _ -',
  ],
  ['a mistyped key of a plan', plans('▸wieght: 2'), 'unknown key "wieght"; did you mean "weight"?'],
  ['a weight of 0', plans('weight: ▸0'), 'weight must be at least 1'],
  ['an unknown model', plans('models: [ ▸smal ]'), 'the catalog has no model "smal"; did you mean "small"?'],
  ['a pattern without models', plans('models: [ "▸big/*" ]'.replace('"▸', '▸"')), 'the catalog has no model "big/*"'],
  [
    'an alias instead of a model',
    { more: 'plans: { pro: { models: [ ▸tiny ] } }', models: `${PARTS.models}\n    aliases: [ tiny ]` },
    '"tiny" is an alias, and a plan needs the ids of models; write "small"',
  ],
  ['a model twice', plans('models: [ small, ▸small ]'), 'models has the same entry twice'],
  ['a limit without per', limits('▸{ requests: 6 per minute }'), 'has no "per"'],
  ['a limit without an amount', limits('▸{ per: key }'), 'requests'],
  [
    'a limit of an address',
    limits('{ per: ▸address, requests: 6 per minute }'),
    'must be account, key, caller or "tag NAME"',
  ],
  ['a burst of tokens', limits('▸{ per: key, tokens: 6 per minute, burst: 2 }'), 'entry 1 of limits has no "requests"'],
  [
    'a second limit of the same kind',
    limits('{ per: key, requests: 6 per minute }, { per: key, requests: ▸9 per minute }'),
    'a limit of requests per key in this time exists already (line 17)',
  ],
  [
    'an undeclared plan of the registration',
    plans('weight: 2', 'dashboard: 127.0.0.1:8081\nregistration: { mode: open, plan: ▸por }'),
    'the plan "por" is not declared under plans in gateway.yaml; did you mean "pro"?',
  ],
  [
    'an undeclared plan in overload.prefer',
    plans('weight: 2', 'overload: { prefer: [ ▸gold ] }'),
    `the plan "gold" is not declared under plans in gateway.yaml; ${THESE}`,
  ],
  [
    'a plan with its own weight in overload.prefer',
    plans('weight: 2', 'overload: { prefer: [ ▸pro ] }'),
    'the plan "pro" has its own weight, so this entry has no effect; remove it here, or the weight there',
  ],
  [
    'an undeclared plan in a condition',
    plans('weight: 2'),
    `the plan "gold" is not declared under plans in gateway.yaml; ${THESE}`,
    {
      standard: `${STANDARD}  - { use: remark, with: { text: x }, when: 'account.plan == "pro" || account.plan == ▸"gold"' }\n`,
    },
  ],
]
