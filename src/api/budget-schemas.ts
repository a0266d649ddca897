/** The views of budgets, for schemas.ts. */
import { EVERY } from '#contract'
import { maybe } from './schema.ts'
import { list, money, oneOf, says, text, time, view } from './schema-parts.ts'

export const BUDGET_VIEWS = {
  BudgetView: view('A limit on spending in a period, with its rest.', {
    place: says(text, 'Its place: account, key, plan NAME or policy NAME/STEP.'),
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
    spent: says(money, 'Spent by requests that began in this period.'),
    held: says(money, 'Held for requests of this period that are in progress.'),
    left: says(money, 'amount - spent - held, and never below 0.'),
    start: says(maybe(time), 'The start of this period; null: it is for life.'),
    resets_at: says(maybe(time), 'The start of the next period; null: never.'),
    at: says(maybe(list(text)), 'The parts of the amount with an alert.'),
    then: says(maybe(text), 'refuse, or the model that answers when it is exhausted.'),
  }),
}
