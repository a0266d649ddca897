/** `tollgate account budget` and `tollgate key budget`: the spending limits of an account or a key in a period. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Budget, EVERY, type Every, mistakeInBudget } from '#contract'
import type { BudgetView } from '../api/views.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { json, showMoney, table } from './format.ts'
import { checkModels } from './models.ts'
import { actor, operate } from './operate.ts'
import { listValue, moneyValue } from './values.ts'

interface BudgetOptions {
  readonly every?: Every
  readonly amount?: string
  readonly zone?: string
  readonly at?: readonly string[]
  readonly then?: string
  readonly remove?: true
  /** For accounts only. */
  readonly after?: string
  readonly json?: true
}

const OWNERS = {
  account: { argument: '<account>', about: 'name or id of the account', sample: 'acme' },
  key: { argument: '<key>', about: 'id of the key', sample: 'key_0123' },
} as const

export function budgetCommand(
  ...[parent, { terminal, finish }, of]: [...Parameters<AddCommand>, 'account' | 'key']
): void {
  const { argument, about, sample } = OWNERS[of]
  const terms = ['amount', 'zone', 'at', 'then']
  const command = parent
    .command('budget')
    .description(
      `show the budgets of ${of === 'account' ? 'an account' : 'a key'} and their remainders; set or remove one`,
    )
    .argument(argument, about)
    .addOption(new Option('--every <period>', 'the period; weeks begin on Monday, life has no end').choices(EVERY))
    .option('--amount <dollars>', 'maximum spending and holds in a period, in dollars', moneyValue)
    .option('--zone <zone>', 'time zone of the period, such as Europe/Berlin (default: unchanged, else UTC)', zoneValue)
    .option(
      '--at <marks>',
      'parts of the amount that cause an alert, separated by commas (default: unchanged, else 80%,100%)',
      marksValue,
    )
    .option(
      '--then <model>',
      'refuse, or the model for requests that exceed the budget (default: unchanged, else refuse)',
    )
    .addOption(new Option('--remove', 'remove the budget of the period').conflicts(terms))
    .addOption(jsonOption())
    .addHelpText(
      'after',
      example(
        `${of} budget ${sample}`,
        `${of} budget ${sample} --every month --amount 100 --zone Europe/Berlin --at 50%,80%`,
        `${of} budget ${sample} --every month --remove`,
      ),
    )
    .action((name: string, options: BudgetOptions, command: Command) => {
      const mistake = mistakeIn(options)
      if (mistake !== undefined) command.error(`error: ${mistake}`)
      return finish(async () => {
        const { every, amount, zone, at, then, remove } = options
        if (then !== undefined && then !== 'refuse') await checkModels(terminal, configOf(command), [then])
        const change = every && { every, amount: remove ? null : amount, zone, at, then, actor: actor() }
        const args = { [of]: name, ...change, ...(options.after && { after: options.after }) }
        const result = await operate(terminal, configOf(command), `${of}.budget`, args)
        if (options.json) {
          terminal.out(json(result))
          return 0
        }
        if (result.budgets.length > 0) terminal.out(await budgetTable(result.budgets))
        else if (options.after === undefined) {
          terminal.out(`No budgets. Set one: ${terminal.self} ${of} budget ${name} --every month --amount 100\n`)
        }
        if ('next' in result && result.next !== null) {
          terminal.out(`More: ${terminal.self} ${of} budget ${name} --after ${result.next}\n`)
        }
        return 0
      })
    })
  // A key has few budgets, so its list has no pages.
  if (of === 'account') command.option('--after <cursor>', 'list the budgets after a page, which printed this cursor')
}

/** The mistake in a combination of options; undefined: none. */
function mistakeIn({ every, amount, remove, ...options }: BudgetOptions): string | undefined {
  const term = (['zone', 'at', 'then'] as const).find(name => options[name] !== undefined)
  if (amount === undefined && term !== undefined) return `--${term} needs --amount, the limit of the budget`
  if (every === undefined && amount !== undefined) return `--amount needs --every: ${EVERY.join(', ')}`
  if (every === undefined && remove) return '--remove needs --every, the period of the budget'
  if (every !== undefined && amount === undefined && !remove) return '--every needs --amount or --remove'
  return undefined
}

/** A table of budgets, with each reset in the budget's time zone. */
export async function budgetTable(budgets: readonly BudgetView[]): Promise<string> {
  const { showTime } = await import('../budgets/periods.ts')
  const resets = ({ resets_at: at, zone }: BudgetView) =>
    at === null ? 'never' : showTime(Date.parse(at), zone ?? 'UTC')
  return table(
    [
      { title: 'BUDGET' },
      { title: 'OF' },
      { title: 'AMOUNT', right: true },
      { title: 'SPENT', right: true },
      { title: 'HELD', right: true },
      { title: 'LEFT', right: true },
      { title: 'RESETS' },
      { title: 'THEN' },
    ],
    budgets.map(budget => [
      budget.name,
      ownerOf(budget),
      showMoney(budget.amount),
      showMoney(budget.spent),
      showMoney(budget.held),
      showMoney(budget.left),
      resets(budget),
      budget.then ?? '',
    ]),
  )
}

/** The place of a budget, and the key or tag value that it limits. */
function ownerOf({ place, key, key_id: id, value }: BudgetView): string {
  const subject = key === null ? (value === '' ? 'requests without the tag' : (value ?? '')) : `${key} (${id})`
  if (subject === '') return place
  return place === 'key' ? `key ${subject}` : `${place}, ${subject}`
}

/** The limits of a key in a list: `$10 month, $2 day`. */
export function budgetLimits(budgets: readonly { readonly every: string; readonly amount: string }[]): string {
  return budgets.map(({ every, amount }) => `${showMoney(amount)} ${every}`).join(', ') || 'none'
}

const zoneValue = (zone: string): string => checkTerms({ zone }).zone
const marksValue = (marks: string): readonly string[] => checkTerms({ at: listValue(marks) }).at

function checkTerms<Terms extends Pick<Budget, 'zone' | 'at'>>(terms: Terms): Terms {
  const mistake = mistakeInBudget(terms)
  if (mistake === null) return terms
  const { value, rule } = mistake
  throw new InvalidArgumentError(`It ${rule}, not ${JSON.stringify(value)}.`)
}
