/** `tollgate backup`: copies the store without its secret into one file, also while the gateway runs. */
import type { Command } from 'commander'
import { formatMoney } from '#contract'
import type { BackupReport } from '../store/files/make-backup.ts'
import { type AddCommand, configOf, example, jsonOption, pathOf } from './commands.ts'
import { count, json, showNano } from './format.ts'
import { findStore } from './place.ts'
import { CommandError, progressStages, type Terminal } from './terminal.ts'

const HELP = `
The file is a consistent copy of the store, from SQLite or PostgreSQL. The gateway keeps running. Every balance is checked
before the file gets its name. Only the user who runs the command can read it. The folder of the file must exist.

The file does not contain the secret. Keep the secret (.tollgate/secret, or "secret" in gateway.yaml) in another place:
without it, every key is invalid.
`

export const addBackup: AddCommand = (program, { terminal, finish }) => {
  program
    .command('backup')
    .description('copy the store into one file; the gateway may be running')
    .argument('<file>', 'path of the new file; it must not exist')
    .addOption(jsonOption())
    .addHelpText('after', HELP + example('backup "backups/tollgate-$(date +%F).db"'))
    .action((file: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const report = await backUp(terminal, configOf(command), file, program.version() ?? '')
        terminal.out(options.json ? json(view(file, report)) : text(file, report))
        return 0
      }),
    )
}

async function backUp(terminal: Terminal, config: string, file: string, tollgate: string): Promise<BackupReport> {
  const [{ makeBackup }, { storeFolder }] = await Promise.all([
    import('../store/files/make-backup.ts'),
    import('../store/store-address.ts'),
  ])
  const { store, configFile } = await findStore(terminal, config)
  if (store === 'memory') throw new CommandError('The configuration has "store: memory", which cannot be backed up.')
  const stages = progressStages(terminal)
  try {
    return await makeBackup({
      store,
      folder: storeFolder(configFile),
      file: pathOf(terminal, file),
      tollgate,
      clock: { now: () => Date.now() },
      onProgress: stages.show,
    })
  } finally {
    stages.end()
  }
}

function view(file: string, { bytes, schema, accounts, events, openHolds, waiting, posted }: BackupReport) {
  const counts = { accounts, events, open_holds: openHolds, waiting_charges: waiting }
  return { file, bytes, schema, ...counts, posted: formatMoney(posted) }
}

function text(file: string, { bytes, accounts, events, openHolds, waiting, posted }: BackupReport): string {
  const contents = [count(accounts, 'account'), count(events, 'event'), count(openHolds, 'open hold')]
  if (waiting > 0) contents.push(count(waiting, 'waiting charge'))
  return `OK: ${contents.join(', ')}; all balances are correct. The sum of balances is ${showNano(posted)}.
${file} has ${(bytes / 2 ** 20).toFixed(1)} MiB. It does not contain the secret: keep that in another place.
`
}
