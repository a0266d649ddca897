/** The views of budgets, for schemas.ts. */
import { EVERY } from '#contract'
import { maybe } from './schema.ts'
import { list, money, oneOf, says, text, time, view } from './schema-parts.ts'

export const BUDGET_VIEWS = {
  BudgetView: view('A limit on what is spent in a period, with what is left of it.', {
    place: says(text, 'Where it is written: account, key, plan NAME or policy NAME/STEP.'),
    name: text,
    per: says(maybe(text), 'account, key, caller or tag NAME.'),
    key_id: says(maybe(text), 'The key that it limits.'),
    key: says(maybe(text), 'Its name.'),
    value: says(
      maybe(text),
      'The value of a tag that it limits, empty: requests without the tag; or the caller of a token. Null: a key, or the account.',
    ),
    every: oneOf(...EVERY),
    zone: says(maybe(text), 'The time zone in which its days begin.'),
    amount: money,
    spent: says(money, 'By requests that began in this period.'),
    held: says(money, 'Set aside for those of them that are in progress.'),
    left: says(money, 'amount - spent - held, and never below 0.'),
    start: says(maybe(time), 'Of this period; null: it is for life.'),
    resets_at: says(maybe(time), 'When the next period begins; null: never.'),
    at: says(maybe(list(text)), 'At which parts of the amount there is an alert.'),
    then: says(maybe(text), 'refuse, or the model that answers what it cannot pay.'),
  }),
}
