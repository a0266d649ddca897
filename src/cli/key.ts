/** `tollgate key`: the keys of clients. A secret is shown only once, when it is created. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { IssuedKeyView, KeyView } from '../api/control/verbs.ts'
import { MAX_GRACE_MS, MAX_KEYS_LISTED } from '../store/store.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { json, showMoney, showTime, table } from './format.ts'
import { checkModels } from './models.ts'
import { operate } from './operate.ts'
import { budgetCommand, budgetLimits } from './own-budgets.ts'
import { durationValue, expiryValue, listValue, moneyValue } from './values.ts'

interface CreateOptions {
  readonly account: string
  readonly name: string
  readonly models?: readonly string[]
  readonly expires?: string
  readonly cap?: string
  readonly json?: true
}

export const addKey: AddCommand = (program, context) => {
  const { terminal, finish } = context
  const key = program
    .command('key')
    .description('create, change, limit, rotate and revoke keys')
    .addHelpText('after', example('key create --account acme', 'key list --account acme'))

  key
    .command('create')
    .description('create a key and show its secret, which is shown only once')
    .requiredOption('--account <account>', 'name or id of the account that owns the key')
    .option('--name <name>', 'purpose of the key', 'key')
    .option(
      '--models <models>',
      'models that the key may use, separated by commas (default: all public models)',
      listValue,
    )
    .option('--expires <when>', 'a duration from now (30d) or a date (2027-01-31) (default: never)', text =>
      expiryValue(text, Date.now()),
    )
    .option('--cap <dollars>', 'maximum total spending of the key, in dollars (default: no limit)', moneyValue)
    .addOption(jsonOption())
    .addHelpText('after', example('key create --account acme --name laptop --models chat-small --expires 90d'))
    .action((options: CreateOptions, command: Command) =>
      finish(async () => {
        const { account, name, models, expires, cap } = options
        if (models) await checkModels(terminal, configOf(command), models)
        const args = { account, name, models, expires_at: expires, spending_cap: cap }
        const issued = await operate(terminal, configOf(command), 'key.create', args)
        if (options.json) terminal.out(json(issued))
        else
          terminal.out(
            `Created key ${issued.key.id} ("${issued.key.name}") of account ${issued.key.account}.\n${secret(issued)}`,
          )
        return 0
      }),
    )

  key
    .command('list')
    .description(`list keys without their secrets; at most ${MAX_KEYS_LISTED} of one account, active ones first`)
    .option('--account <account>', 'name or id of an account (default: all accounts)')
    .addOption(jsonOption())
    .addHelpText('after', example('key list --account acme'))
    .action((options: { account?: string; json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'key.list', { account: options.account })
        if (options.json) terminal.out(json(result))
        else if (result.keys.length > 0) terminal.out(keyTable(result.keys, Date.now()))
        else terminal.out(`No keys. Create one: ${terminal.self} key create --account ${options.account ?? 'NAME'}\n`)
        return 0
      }),
    )

  addUpdate(key, context)
  addEnds(key, context)
  budgetCommand(key, context, 'key')
}

/** The commands that end a secret or the key. */
const addEnds: AddCommand = (key, { terminal, finish }) => {
  key
    .command('rotate')
    .description(
      'create a new secret for a key, at most once a minute; the previous one works until --grace ends, older ones stop now',
    )
    .argument('<key>', 'id of the key')
    .addOption(
      new Option('--grace <span>', 'how long the old secret still works, at most 168h')
        .default(durationValue('24h'), '24h')
        .argParser(graceValue),
    )
    .option(
      '--expires <when>',
      'new expiry: a duration from now (30d) or a date (2027-01-31) (default: unchanged)',
      text => expiryValue(text, Date.now()),
    )
    .addOption(jsonOption())
    .addHelpText('after', example('key rotate key_0123 --grace 1h'))
    .action((id: string, options: { grace: number; expires?: string; json?: true }, command: Command) =>
      finish(async () => {
        const args = { key: id, grace_ms: options.grace, expires_at: options.expires }
        const issued = await operate(terminal, configOf(command), 'key.rotate', args)
        // The oldest secret is first. The key may expire before the grace period ends.
        const until = options.grace === 0 ? null : (issued.key.secrets.at(-2)?.expires_at ?? null)
        const old = until === null ? 'stopped working now' : `works until ${showTime(until)}`
        if (options.json) terminal.out(json(issued))
        else terminal.out(`Key ${issued.key.id} has a new secret; the old one ${old}.\n${secret(issued)}`)
        return 0
      }),
    )

  key
    .command('revoke')
    .description('revoke a key permanently')
    .argument('<key>', 'id of the key')
    .addOption(jsonOption())
    .addHelpText('after', example('key revoke key_0123'))
    .action((id: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'key.revoke', { key: id })
        const { key } = result
        terminal.out(
          options.json ? json(result) : `Key ${key.id} ("${key.name}") of account ${key.account} is revoked.\n`,
        )
        return 0
      }),
    )
}

interface UpdateOptions {
  readonly name?: string
  readonly models?: readonly string[]
  readonly allModels?: true
  readonly expires?: string
  readonly cap?: string
  readonly json?: true
}

/** Words that remove an expiry and a cap. */
const NEVER = 'never'
const NONE = 'none'

const addUpdate: AddCommand = (key, { terminal, finish }) => {
  key
    .command('update')
    .description('change the name, models, expiry or spending cap of a key; its secret is unchanged')
    .argument('<key>', 'id of the key')
    .option('--name <name>', 'purpose of the key')
    .option('--models <models>', 'models that the key may use, separated by commas', listValue)
    .addOption(new Option('--all-models', 'allow every public model').conflicts('models'))
    .option('--expires <when>', 'a duration from now (30d), a date (2027-01-31), or never', text =>
      text === NEVER ? text : expiryValue(text, Date.now()),
    )
    .option(
      '--cap <dollars>',
      'maximum total spending of the key, in dollars, including past spending; or none',
      text => (text === NONE ? text : moneyValue(text)),
    )
    .addOption(jsonOption())
    .addHelpText('after', example('key update key_0123 --cap 25', 'key update key_0123 --expires 90d --all-models'))
    .action((id: string, options: UpdateOptions, command: Command) => {
      const { name, models, allModels, expires, cap } = options
      const args = {
        name,
        models: allModels ? null : models,
        expires_at: expires === NEVER ? null : expires,
        spending_cap: cap === NONE ? null : cap,
      }
      if (Object.values(args).every(value => value === undefined))
        command.error('error: nothing to change: add --name, --models, --all-models, --expires or --cap')
      return finish(async () => {
        if (models) await checkModels(terminal, configOf(command), models)
        const result = await operate(terminal, configOf(command), 'key.update', { key: id, ...args })
        terminal.out(options.json ? json(result) : keyTable([result.key], Date.now()))
        return 0
      })
    })
}

/** A table of keys. Secrets are shown by their last four characters. The column of budgets appears if a key has one. */
export function keyTable(keys: readonly KeyView[], nowMs: number): string {
  const limited = keys.some(({ budgets }) => budgets.length > 0)
  return table(
    [
      { title: 'KEY' },
      { title: 'NAME' },
      { title: 'ACCOUNT' },
      { title: 'SECRET' },
      { title: 'MODELS' },
      { title: 'STATE' },
      { title: 'SPENT' },
      ...(limited ? [{ title: 'BUDGETS' }] : []),
      { title: 'LAST USED' },
      { title: 'EXPIRES' },
    ],
    keys.map(key => [
      key.id,
      key.name,
      key.account,
      key.secrets.map(secretOf).join(', '),
      key.models?.join(',') ?? 'all public',
      stateOf(key, nowMs),
      spentOf(key),
      ...(limited ? [budgetLimits(key.budgets)] : []),
      key.last_used_at === null ? 'never' : showTime(key.last_used_at),
      key.expires_at === null ? 'never' : showTime(key.expires_at),
    ]),
  )
}

/** With the end of its grace period if a newer secret has replaced it. */
function secretOf({ last4, expires_at: until }: KeyView['secrets'][number]): string {
  return until === null ? `…${last4}` : `…${last4} until ${showTime(until)}`
}

function stateOf(key: KeyView, nowMs: number): string {
  if (key.revoked_at !== null) return 'revoked'
  return key.expires_at !== null && Date.parse(key.expires_at) <= nowMs ? 'expired' : 'live'
}

/** The spending, with the cap if there is one. */
function spentOf({ spent, spending_cap: cap }: KeyView): string {
  return cap === null ? showMoney(spent) : `${showMoney(spent)} of ${showMoney(cap)}`
}

/** The secret on its own line, for copying. */
function secret(issued: IssuedKeyView): string {
  return `\n${issued.token}\n\nStore it now: this secret is not shown again.\n`
}

function graceValue(text: string): number {
  const ms = durationValue(text)
  if (ms > MAX_GRACE_MS)
    throw new InvalidArgumentError('It can be at most 168h; to use both secrets longer, create a second key.')
  return ms
}
