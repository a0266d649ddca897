/** `tollgate restore`: replaces the store by a backup. */
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
The store is that of gateway.yaml: a SQLite file, or an empty database in PostgreSQL.

The command checks the file and the secret first, then every balance in the file. It changes nothing if one of them is
wrong. Exchanges that were in progress in the backup are charged up to their last checkpoint.
`

export const addRestore: AddCommand = (program, { terminal, finish }) => {
  program
    .command('restore')
    .description('replace the store by a backup, while no gateway runs')
    .argument('<file>', 'file written by `tollgate backup`')
    .option('--replace', 'restore even if a store exists; its files are renamed')
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
    throw new CommandError('The configuration has "store: memory", which cannot be restored.')
  const [configured, isFile] = [place.secret(), place.database !== null]
  if (replace && !isFile) {
    throw new CommandError(
      '--replace is only for a SQLite file. In PostgreSQL, use an empty database: createdb tollgate.',
    )
  }
  const folder = isFile ? dirname(realPath(place.database!)) : storeFolder(place.configFile)
  const stages = progressStages(terminal)
  try {
    return await restoreBackup({
      file: path,
      store: place.store,
      folder,
      // Never create a new secret: it would not match the backup.
      secret: loadSecret(configured, folder, file, () => true),
      secretPlace: secretPlace(configured, folder),
      replace,
      clock: { now: () => Date.now() },
      onProgress: stages.show,
      onWait: stages.print,
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
    `OK: ${count(accounts, 'account')}, ${count(events, 'event')}; all balances are correct. The sum of balances is ${showNano(posted)}.`,
    `The backup was made at ${showTime(at)} by Tollgate ${tollgate}. It does not contain later changes:`,
    "keys, people and operators' tokens that were revoked since then are valid again. Revoke them once more.",
  ]
  if (ended > 0) lines.push(`${count(ended, 'exchange')} in progress then: charged ${showNano(charged)} in all.`)
  if (kept !== null) lines.push(`The previous store is kept as ${kept}.`)
  return `${lines.join('\n')}\n`
}
