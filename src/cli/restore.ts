/** `tollgate restore`: puts a backup in the place of the store. */
import { dirname } from 'node:path'
import type { Command } from 'commander'
import { formatMoney } from '#contract'
import type { RestoreReport } from '../store/files/restore-backup.ts'
import { type AddCommand, configOf, example, existingFile, jsonOption } from './commands.ts'
import { count, json, showNano, showTime } from './format.ts'
import { findStore } from './place.ts'
import { CommandError, progressStages, type Terminal } from './terminal.ts'

interface Options {
  readonly replace?: true
  readonly json?: true
}

const HELP = `
Stop the gateway first, and put the secret in its place: \`secret\` of gateway.yaml, or the file \`secret\` beside the store.
The store is the one that gateway.yaml names: a SQLite file, or an empty database in PostgreSQL.

The command checks the file and the secret first, then every balance in the file. It changes nothing if one of them is
wrong. Exchanges that were in progress in the backup are charged up to their last checkpoint.
`

export const addRestore: AddCommand = (program, { terminal, finish }) => {
  program
    .command('restore')
    .description('put a backup in the place of the store, while no gateway runs')
    .argument('<file>', 'what `tollgate backup` wrote')
    .option('--replace', 'keep the files of a store that is there under other names, and restore')
    .addOption(jsonOption())
    .addHelpText('after', HELP + example('restore backups/tollgate-2026-07-30.db'))
    .action((file: string, options: Options, command: Command) =>
      finish(async () => {
        const report = await restore(terminal, configOf(command), file, options.replace === true)
        terminal.out(options.json ? json(view(report)) : text(report))
        return 0
      }),
    )
}

async function restore(terminal: Terminal, config: string, file: string, replace: boolean): Promise<RestoreReport> {
  const [{ restoreBackup }, { loadSecret, secretPlace }, { realPath }, { storeFolder }] = await Promise.all([
    import('../store/files/restore-backup.ts'),
    import('../store/secret.ts'),
    import('../store/files/files.ts'),
    import('../store/store-address.ts'),
  ])
  const path = existingFile(terminal, file)
  const place = await findStore(terminal, config)
  if (place.store === 'memory')
    throw new CommandError('The configuration says "store: memory", of which nothing is kept.')
  const [configured, isFile] = [place.secret(), place.database !== null]
  if (replace && !isFile) {
    throw new CommandError('--replace is for a SQLite file. In PostgreSQL, name an empty database: createdb tollgate.')
  }
  const folder = isFile ? dirname(realPath(place.database!)) : storeFolder(place.configFile)
  const stages = progressStages(terminal)
  try {
    return await restoreBackup({
      file: path,
      store: place.store,
      folder,
      // Never a new one: it would not fit.
      secret: loadSecret(configured, folder, file, () => true),
      secretPlace: secretPlace(configured, folder),
      replace,
      clock: { now: () => Date.now() },
      onProgress: stages.show,
      onWait: stages.tell,
    })
  } finally {
    stages.end()
  }
}

function view({ posted, charged, ...report }: RestoreReport) {
  return { ...report, charged: formatMoney(charged), posted: formatMoney(posted) }
}

function text({ at, tollgate, accounts, events, posted, replayed, settled, charged, kept }: RestoreReport): string {
  const ended = replayed + settled
  const lines = [
    `OK: ${count(accounts, 'account')}, ${count(events, 'event')}; every balance adds up. The balances are ${showNano(posted)} together.`,
    `The backup was made at ${showTime(at)} by Tollgate ${tollgate}. What was committed later is not in it:`,
    "keys, people and operators' tokens that were revoked since are valid again. Revoke them once more.",
  ]
  if (ended > 0) lines.push(`${count(ended, 'exchange')} in progress then: charged ${showNano(charged)} in all.`)
  if (kept !== null) lines.push(`The store before is kept as ${kept}.`)
  return `${lines.join('\n')}\n`
}
