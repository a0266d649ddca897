/** Formats a story as JSON: snake case, money as dollars with 9 decimals. */
import { formatMoney, priceFields } from '#contract'
import { json } from '../format.ts'
import type { Story } from './story.ts'

export function storyJson(story: Story): string {
  const { method, path, policy, given, status, code, outcome, decidedBy, message, detail } = story
  const { hold, charge } = story
  return json({
    own_steps: story.ownSteps,
    not_run: story.notRun,
    request: { method, path, policy },
    given: {
      account: given.account,
      plan: given.plan,
      balance: formatMoney(given.balance),
      models: given.models,
      at: new Date(given.atMs).toISOString(),
    },
    verdict: { status, code, outcome, decided_by: decidedBy, message, detail },
    steps: story.steps,
    hold: hold && {
      amount: formatMoney(hold.amount),
      formula: hold.formula,
      input_ceiling: hold.inputCeiling,
      output_cap: hold.outputCap,
      price: priceFields(hold.price),
      available: formatMoney(hold.available),
      budgets: hold.budgets.map(({ amount, ...budget }) => ({ ...budget, amount: formatMoney(amount) })),
    },
    charge: charge && { amount: formatMoney(charge.amount), formula: charge.formula, source: charge.source },
    targets: story.targets,
    attempts: story.attempts.map(({ target, status: answered, code: failed }) => ({
      target,
      status: answered,
      code: failed,
    })),
    sent: story.sent.map(({ changes, ...sent }) => ({
      ...sent,
      changes: changes.map(({ name, from = null, to = null }) => ({ name, from, to })),
    })),
    headers: story.headers,
    mistakes: story.mistakes,
  })
}
