/**
 * `tollgate explain`: shows what a route does and why. Without a gateway: the plan of each route, or the result of a trial
 * request. With a gateway: a past exchange, or what steps in shadow mode would have refused.
 */

import { type Command, InvalidArgumentError, Option } from 'commander'
import { parseMoney, UnitError } from '../contract/quantities.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import type { HeaderText, RunOptions } from './explain/run.ts'
import { CommandError, type ExitCode, type Terminal } from './terminal.ts'
import { listValue } from './values.ts'

interface Options {
  readonly shadow?: true
  readonly log?: string
  readonly request?: string
  readonly plan?: string
  readonly balance?: bigint
  readonly models?: readonly string[]
  readonly account?: string
  readonly at?: number
  readonly header?: readonly HeaderText[]
  readonly path?: string
  readonly upstream?: readonly string[]
  readonly json?: true
}

/** Options that need --request. */
const WITH_REQUEST = ['plan', 'balance', 'models', 'account', 'at', 'header', 'path', 'upstream'] as const

export const addExplain: AddCommand = (program, { terminal, finish }) => {
  program
    .command('explain')
    .description('show the steps of a route, the result of a trial request, or the trail of a past exchange')
    .argument('[what]', 'path of a route, or id of an exchange (req_…) (default: all routes)')
    .option(
      '--request <file>',
      'request to try: a JSON body, or YAML with method, path, headers and body; - is standard input',
    )
    .option('--path <path>', 'path of the request (default: the first chat route)')
    .option('--account <name>', 'account of the request (default: acme)')
    .option('--plan <name>', 'plan of the account (default: default)')
    .option('--balance <dollars>', 'credit of the account in dollars (default: 10)', balanceValue)
    .option(
      '--models <ids>',
      'models that the key may use, separated by commas (default: all public models)',
      listValue,
    )
    .option('--at <time>', 'time of the request, such as 2027-01-15T08:00:00Z (default: now)', timeValue)
    .option('--header <header>', "a header, 'name: value'; 'name:' removes one; can be repeated", headerValue)
    .addOption(
      new Option(
        '--upstream <answer>',
        'answer of the provider: a status, unreachable, reset, silent, garbage or a text; repeat it for each further attempt',
      ).argParser((text: string, before: readonly string[] = []) => [...before, text]),
    )
    .option('--shadow', 'show what steps in shadow mode would have refused')
    .option(
      '--log <file>',
      'with --shadow: read this log of the plugin usage-log instead of the gateway; - is standard input',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      example(
        'explain',
        'explain /v1/chat/completions',
        'explain --request body.json --plan free --balance 0.01',
        'explain req_01MCC5RM000002V79Q0Q68211K',
        'explain --shadow',
      ),
    )
    .action((what: string | undefined, options: Options, command: Command) =>
      finish(() => explain(terminal, { what, options, config: configOf(command) })),
    )
}

interface ExplainInput {
  readonly what: string | undefined
  readonly options: Options
  readonly config: string
}

async function explain(terminal: Terminal, { what, options, config }: ExplainInput): Promise<ExitCode> {
  const json = options.json ?? false
  checkCombination(what, options)
  if (options.shadow) {
    const { explainShadow } = await import('./explain/live.ts')
    return explainShadow({ config, json, ...(options.log === undefined ? {} : { log: options.log }) }, terminal)
  }
  if (what?.startsWith('req_')) {
    const { explainLive } = await import('./explain/live.ts')
    return explainLive(what, { config, json }, terminal)
  }
  if (options.request === undefined) {
    const { explainPlans } = await import('./explain/plan.ts')
    return explainPlans(what ?? null, { config, json }, terminal)
  }
  const { explainRequest } = await import('./explain/request.ts')
  return explainRequest(options.request, { config, json, run: runOptions(what, options) }, terminal)
}

/** Rejects options that would have no effect, or that contradict each other. */
function checkCombination(what: string | undefined, options: Options): void {
  const unused = WITH_REQUEST.find(name => options[name] !== undefined)
  if (options.request === undefined && unused) {
    throw new CommandError(`--${unused} needs a request: add --request FILE (- is stdin)`)
  }
  if (options.log !== undefined && !options.shadow) throw new CommandError('--log needs --shadow')
  const isExchange = what?.startsWith('req_') ?? false
  if (options.request !== undefined && (options.shadow || isExchange)) {
    throw new CommandError(
      `--request tries a request, but ${options.shadow ? '--shadow' : what} shows past exchanges; use one of them`,
    )
  }
  if (options.shadow && what !== undefined) throw new CommandError(`--shadow covers all exchanges; remove ${what}`)
  if (what !== undefined && !isExchange && !what.startsWith('/')) {
    throw new CommandError(`"${what}" is neither the path of a route (/v1/…) nor the id of an exchange (req_…)`)
  }
  if (what !== undefined && options.path !== undefined && what !== options.path) {
    throw new CommandError(`the request cannot have two paths: ${what} and --path ${options.path}`)
  }
}

function runOptions(what: string | undefined, options: Options): RunOptions {
  const { plan, balance, models, account, at, header = [], upstream = [] } = options
  return {
    path: options.path ?? what ?? null,
    account: account ?? 'acme',
    plan: plan ?? 'default',
    balance: balance ?? parseMoney('10'),
    models: models ?? null,
    atMs: at ?? Date.now(),
    headers: header,
    upstream,
  }
}

/** Dollars; 0 is allowed, because `--balance 0` is a common question. */
function balanceValue(text: string): bigint {
  try {
    return parseMoney(text)
  } catch (error) {
    if (error instanceof UnitError) throw new InvalidArgumentError(`${error.message}.`)
    throw error
  }
}

function timeValue(text: string): number {
  const ms = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/.test(text) ? Date.parse(text) : NaN
  if (Number.isNaN(ms)) throw new InvalidArgumentError('It must be a time such as 2027-01-15T08:00:00Z.')
  return ms
}

/** RFC 9110, 5.1 and 5.5. Loading `node:http`, which has the same check, would slow down every command. */
const FIELD_NAME = /^[\w!#$%&'*+.^`|~-]+$/
const FIELD_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/

function headerValue(text: string, before: readonly HeaderText[] = []): readonly HeaderText[] {
  const [, name, value] = /^([^:]+):\s*(.*)$/s.exec(text) ?? []
  if (name === undefined || value === undefined) throw new InvalidArgumentError("It must be 'name: value'.")
  if (!FIELD_NAME.test(name) || !FIELD_VALUE.test(value)) {
    throw new InvalidArgumentError('This is not a valid header.')
  }
  return [...before, { name: name.toLowerCase(), value: value === '' ? null : value }]
}
