/** `tollgate ledger verify`: recomputes every balance from the ledger's events. */
import type { Command } from 'commander'
import type { VerifyView } from '../api/control/verbs.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { count, json, table } from './format.ts'
import { verifyLedger } from './operate.ts'

export const addLedger: AddCommand = (program, { terminal, finish }) => {
  const ledger = program
    .command('ledger')
    .description('check the ledger')
    .addHelpText('after', example('ledger verify'))

  ledger
    .command('verify')
    .description('recompute every balance from the events of the ledger; exit code 1 if one is wrong')
    .addOption(jsonOption())
    .addHelpText('after', example('ledger verify', 'ledger verify --json'))
    .action((options: { json?: true }, command: Command) =>
      finish(async () => {
        const report = await verifyLedger(terminal, configOf(command))
        terminal.out(options.json ? json(report) : verifyText(report))
        return report.violations.length === 0 ? 0 : 1
      }),
    )
}

/** Formats a report: one line if all is correct, else a row for each violation. */
export function verifyText(report: VerifyView): string {
  const counts = [
    count(report.accounts, 'account'),
    count(report.events, 'event'),
    count(report.open_holds, 'open hold'),
  ].join(', ')
  if (report.violations.length === 0) return `OK: ${counts}; all balances are correct\n`
  const rows = report.violations.map(({ invariant, subject, message }) => [invariant, subject, message])
  const columns = [{ title: 'VIOLATED' }, { title: 'SUBJECT' }, { title: 'MESSAGE' }]
  return `${table(columns, rows)}\n${count(report.violations.length, 'violation')} in ${counts}\n`
}
