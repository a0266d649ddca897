/** The views of budgets, for schemas.ts. */
import { EVERY } from '#contract'
import { maybe } from './schema.ts'
import { list, money, oneOf, says, text, time, view } from './schema-parts.ts'

export const BUDGET_VIEWS = {
  BudgetView: view('A limit on spending in a period, with its remainder.', {
    place: says(text, 'Its place: account, key, plan NAME or policy NAME/STEP.'),
    name: text,
    per: says(maybe(text), 'account, key, caller or tag NAME.'),
    key_id: says(maybe(text), 'The key that it limits.'),
    key: says(maybe(text), 'Its name.'),
    value: says(
      maybe(text),
      'The tag value that it limits, or the caller of a token. Empty: requests without the tag. Null: it limits a key or the account.',
    ),
    every: oneOf(...EVERY),
    zone: says(maybe(text), 'The time zone in which its days begin.'),
    amount: money,
    spent: says(money, 'Spent by requests that began in this period.'),
    held: says(money, 'Held for requests of this period that are in progress.'),
    left: says(money, 'amount - spent - held, and never below 0.'),
    start: says(maybe(time), 'The start of this period; null: it is for life.'),
    resets_at: says(maybe(time), 'The start of the next period; null: never.'),
    at: says(maybe(list(text)), 'The parts of the amount that cause an alert.'),
    then: says(maybe(text), 'refuse, or the model for requests that exceed the budget.'),
  }),
}
