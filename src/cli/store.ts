/** `tollgate store copy`: moves a stopped gateway's store to the other engine. */
import type { CopyReport } from '../store/files/copy-store.ts'
import { type AddCommand, example, jsonOption, pathOf, withoutConfig } from './commands.ts'
import { count, json, table } from './format.ts'
import { CommandError, progressStages, type Terminal } from './terminal.ts'

interface Options {
  readonly from: string
  readonly to: string
  readonly json?: true
}

const COPY_HELP = `
Addresses:
  sqlite:PATH                    a SQLite file; a relative path starts in the current folder
  postgres://USER@HOST/DATABASE  a database in PostgreSQL
  '\${NAME}'                      the address in this environment variable, which keeps passwords out of the command line

Stop every gateway that uses either store. The target must be empty: a file that does not exist, or an empty database.
The command copies everything in one transaction, compares each row, and checks every balance before it commits.
`

export const addStore: AddCommand = (program, { terminal, finish }) => {
  const lines = ["store copy --from sqlite:./.tollgate/tollgate.db --to '${DATABASE_URL}'"]
  const store = program
    .command('store')
    .description('copy the store between SQLite and PostgreSQL')
    .addHelpText('after', example(...lines))

  withoutConfig(store.command('copy'))
    .description('copy a store from SQLite to PostgreSQL, or back, while no gateway uses it')
    .requiredOption('--from <address>', 'the store to copy')
    .requiredOption('--to <address>', 'the empty target store')
    .addOption(jsonOption())
    .addHelpText('after', COPY_HELP + example(...lines))
    .action((options: Options) =>
      finish(async () => {
        const report = await copy(terminal, options)
        terminal.out(options.json ? json(report) : reportText(report))
        return 0
      }),
    )
}

async function copy(terminal: Terminal, options: Options): Promise<CopyReport> {
  const { copyStore } = await import('../store/files/copy-store.ts')
  const [from, to] = [addressOf(terminal, 'from', options.from), addressOf(terminal, 'to', options.to)]
  const stages = progressStages(terminal)
  try {
    return await copyStore({
      from,
      to,
      clock: { now: () => Date.now() },
      onProgress: stages.show,
      onWait: stages.print,
    })
  } finally {
    stages.end()
  }
}

/** Resolves an address of the command line. Messages never contain the address, because it may contain a password. */
function addressOf(terminal: Terminal, name: string, value: string): string {
  const variable = /^\$\{(\w+)\}$/.exec(value)?.[1]
  const address = variable === undefined ? value : terminal.env[variable]
  if (address === undefined) throw new CommandError(`--${name}: the environment variable ${variable} is not set.`)
  if (/^postgres(?:ql)?:\/\/./.test(address) && URL.parse(address) !== null) return address
  const path = /^sqlite:(.+)$/s.exec(address)?.[1]
  if (path !== undefined) return `sqlite:${pathOf(terminal, path)}`
  throw new CommandError(
    `--${name} is not a valid store address. Use sqlite:PATH, postgres://USER@HOST/DATABASE, or '\${NAME}' of an environment variable.`,
  )
}

/** The copied tables, and the remaining steps. */
function reportText({ tables, accounts, events }: CopyReport): string {
  const rows = tables.filter(each => each.rows > 0).map(each => [each.table, String(each.rows)])
  const copied = `${count(accounts, 'account')}, ${count(events, 'event')}`
  return `${table([{ title: 'TABLE' }, { title: 'ROWS', right: true }], rows)}
OK: ${copied}. The copy has the same rows, and all balances are correct.

Set the new store in gateway.yaml and keep the same \`secret\`: without it, the keys are invalid. If gateway.yaml has no
\`secret\`, it is in the file \`secret\` beside the old store.
`
}
