/** `tollgate account`: accounts, their credit, plans and budgets. */
import type { Command } from 'commander'
import type { AccountView, KeyView } from '../api/control/verbs.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { json, pairs, showMoney, showTime, table } from './format.ts'
import { keyTable } from './key.ts'
import { actor, operate } from './operate.ts'
import { budgetCommand, budgetTable } from './own-budgets.ts'
import type { Terminal } from './terminal.ts'
import { moneyValue, signedMoneyValue } from './values.ts'

export const addAccount: AddCommand = (program, context) => {
  const { terminal, finish } = context
  const account = program
    .command('account')
    .description('create accounts, add credit, set budgets and freeze accounts')
    .addHelpText('after', example('account create acme --credit 10', 'account list'))

  account
    .command('create')
    .description('create an account')
    .argument('<name>', 'a unique name')
    .option(
      '--plan <plan>',
      'name of a plan; it must be under plans in gateway.yaml if there is that section; conditions read it as account.plan (default: default)',
    )
    .option('--credit <dollars>', 'initial credit in dollars (default: 0)', moneyValue)
    .addOption(jsonOption())
    .addHelpText('after', example('account create acme --credit 10'))
    .action((name: string, options: { plan?: string; credit?: string; json?: true }, command: Command) =>
      finish(async () => {
        const { plan, credit } = options
        const args = { name, plan, credit, actor: actor() }
        const result = await operate(terminal, configOf(command), 'account.create', args)
        if (options.json) terminal.out(json(result))
        else terminal.out(`Created.\n${details(result.account)}\n${hint(terminal, result.account)}`)
        return 0
      }),
    )

  account
    .command('credit')
    .description('add credit to an account, or take available credit from it')
    .argument('<account>', 'name or id of the account')
    .requiredOption('--amount <dollars>', 'exact amount in dollars, such as 5.25; -5.25 takes credit', signedMoneyValue)
    .option(
      '--reference <text>',
      'reason, such as an invoice; a reference is credited only once (default: a new one each time)',
    )
    .option('--note <text>', 'a remark for the ledger; required with a negative amount')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      example(
        'account credit acme --amount 5.25 --reference invoice-1042',
        'account credit acme --amount -5.25 --reference refund-1042 --note "invoice 1042 was cancelled"',
      ),
    )
    .action((account: string, options: CreditOptions, command: Command) =>
      finish(async () => {
        if (options.amount.startsWith('-') && !options.note)
          command.error('error: a negative amount needs --note with the reason')
        terminal.out(await credit(terminal, account, options, command))
        return 0
      }),
    )

  addViews(account, context)
  addChanges(account, context)
  budgetCommand(account, context, 'account')
}

const addViews: AddCommand = (account, { terminal, finish }) => {
  account
    .command('show')
    .description('show an account, its credit, its budgets and its keys')
    .argument('<account>', 'name or id of the account')
    .addOption(jsonOption())
    .addHelpText('after', example('account show acme'))
    .action((account: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'account.show', { account })
        const { budgets, moreBudgets } = result
        const more = moreBudgets ? `More: ${terminal.self} account budget ${account}\n` : ''
        const limits = budgets.length === 0 ? '' : `\n${await budgetTable(budgets)}${more}`
        terminal.out(options.json ? json(result) : details(result.account) + limits + keysOf(result.keys))
        return 0
      }),
    )

  account
    .command('list')
    .description('list all accounts')
    .addOption(jsonOption())
    .addHelpText('after', example('account list --json'))
    .action((options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'account.list', {})
        if (options.json) terminal.out(json(result))
        else if (result.accounts.length > 0) terminal.out(accountTable(result.accounts))
        else terminal.out(`No accounts yet. Create one: ${terminal.self} account create acme --credit 10\n`)
        return 0
      }),
    )
}

const addChanges: AddCommand = (account, { terminal, finish }) => {
  account
    .command('plan')
    .description('change the plan of an account; conditions in policies read it as account.plan')
    .argument('<account>', 'name or id of the account')
    .argument('<plan>', 'the new plan')
    .addOption(jsonOption())
    .addHelpText('after', example('account plan acme pro'))
    .action((account: string, plan: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'account.plan', { account, plan })
        terminal.out(options.json ? json(result) : `Account ${result.account.name} now has the plan ${plan}.\n`)
        return 0
      }),
    )

  for (const verb of ['freeze', 'unfreeze'] as const) {
    account
      .command(verb)
      .description(
        verb === 'freeze'
          ? 'freeze an account: refuse all its requests'
          : 'unfreeze an account: accept its requests again',
      )
      .argument('<account>', 'name or id of the account')
      .addOption(jsonOption())
      .addHelpText('after', example(`account ${verb} acme`))
      .action((account: string, options: { json?: true }, command: Command) =>
        finish(async () => {
          const result = await operate(terminal, configOf(command), `account.${verb}`, { account })
          const sentence = verb === 'freeze' ? 'is frozen: its requests are refused' : 'is not frozen'
          terminal.out(options.json ? json(result) : `Account ${result.account.name} ${sentence}.\n`)
          return 0
        }),
      )
  }
}

interface CreditOptions {
  readonly amount: string
  readonly reference?: string
  readonly note?: string
  readonly json?: true
}

/** Errors after which it is unknown whether the credit was added. */
const UNCERTAIN: ReadonlySet<string> = new Set(['ControlError', 'StoreUnavailable'])

async function credit(terminal: Terminal, account: string, options: CreditOptions, command: Command): Promise<string> {
  const { amount, note } = options
  const reference = options.reference ?? `cli-${new Date().toISOString()}-${crypto.randomUUID().slice(0, 8)}`
  const args = { account, amount, reference, note, actor: actor() }
  const result = await operate(terminal, configOf(command), 'account.credit', args).catch((error: Error) => {
    if (options.reference === undefined && UNCERTAIN.has(error.name))
      error.message += `\nTo try again, add --reference ${reference}: a reference is credited only once.`
    throw error
  })
  if (options.json) return json(result)
  const done = !result.granted
    ? `Nothing changed: the reference "${reference}" was used before.`
    : amount.startsWith('-')
      ? `Took ${showMoney(amount.slice(1))} from account ${result.account.name}.`
      : `Gave ${showMoney(amount)} to account ${result.account.name}.`
  return `${done}\n${pairs([
    ['reference', reference],
    ['available', showMoney(result.account.available)],
  ])}`
}

function details(account: AccountView): string {
  return pairs([
    ['account', account.name],
    ['id', account.id],
    ['plan', account.plan],
    ['available', showMoney(account.available)],
    ['held', `${showMoney(account.held)} (for requests in progress)`],
    ['state', account.frozen ? 'frozen' : 'active'],
    ['created', showTime(account.created_at)],
  ])
}

function keysOf(keys: readonly KeyView[]): string {
  return keys.length === 0 ? '\nNo keys.\n' : `\n${keyTable(keys, Date.now())}`
}

function hint(terminal: Terminal, account: AccountView): string {
  return `Next, create a key: ${terminal.self} key create --account ${account.id} --name first\n`
}

function accountTable(accounts: readonly AccountView[]): string {
  return table(
    [
      { title: 'ACCOUNT' },
      { title: 'PLAN' },
      { title: 'AVAILABLE', right: true },
      { title: 'HELD', right: true },
      { title: 'STATE' },
      { title: 'CREATED' },
      { title: 'ID' },
    ],
    accounts.map(account => [
      account.name,
      account.plan,
      showMoney(account.available),
      showMoney(account.held),
      account.frozen ? 'frozen' : 'active',
      showTime(account.created_at),
      account.id,
    ]),
  )
}
