/** `tollgate alerts`: lists alerts and tests webhooks. */
import type { Command } from 'commander'
import type { AlertView } from '../api/views.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { problemText, readConfiguration } from './configuration.ts'
import { json, pairs, showTime, table } from './format.ts'
import { operate } from './operate.ts'
import { CommandError, type Terminal } from './terminal.ts'

export const addAlerts: AddCommand = (program, { terminal, finish }) => {
  const alerts = program
    .command('alerts')
    .description('list alerts and test the webhooks that receive them')
    .addHelpText('after', example('alerts list', 'alerts test ops'))

  alerts
    .command('list')
    .description('list the last 50 alerts, the newest first')
    .option('--kind <kind>', 'only alerts of this kind, such as budget or provider_down')
    .addOption(jsonOption())
    .addHelpText('after', example('alerts list --kind budget'))
    .action((options: { kind?: string; json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'alerts.list', { kind: options.kind })
        if (options.json) terminal.out(json(result))
        else terminal.out(result.alerts.length === 0 ? 'No alerts.\n' : alertTable(result.alerts))
        return 0
      }),
    )

  alerts
    .command('test')
    .description('send a test alert to a webhook and print its answer; exit code 1 if the webhook rejects it')
    .argument('<name>', 'the name of the webhook in gateway.yaml')
    .addHelpText('after', example('alerts test ops'))
    .action((name: string, _options: object, command: Command) =>
      finish(async () => {
        const webhook = await webhookOf(terminal, configOf(command), name)
        const { deliver } = await import('../alerts/deliver.ts')
        const nowMs = Date.now()
        const plain = { kind: 'test', at: nowMs, account: null, accountName: null, data: {} }
        const { failure, answer } = await deliver(webhook, { ...plain, id: `test ${crypto.randomUUID()}` }, { nowMs })
        terminal.out(
          pairs([
            ['webhook', name],
            ['host', webhook.host],
            ['result', failure ?? 'delivered'],
            ['answer', answer.trim() === '' ? '(empty)' : JSON.stringify(answer.trim())],
          ]),
        )
        return failure === null ? 0 : 1
      }),
    )
}

async function webhookOf(terminal: Terminal, config: string, name: string) {
  const loaded = await readConfiguration(terminal, config)
  if ('problems' in loaded) throw new CommandError(await problemText(terminal, loaded))
  const { webhooks } = loaded.configuration.alerts
  const found = webhooks.find(webhook => webhook.name === name)
  if (found !== undefined) return found
  const names = webhooks.length === 0 ? 'none' : webhooks.map(each => each.name).join(', ')
  throw new CommandError(`${config} has no webhook "${name}" under alerts. Its webhooks: ${names}.`)
}

function alertTable(alerts: readonly AlertView[]): string {
  return table(
    [{ title: 'TIME' }, { title: 'KIND' }, { title: 'ALERT' }, { title: 'WEBHOOKS' }],
    alerts.map(({ at, kind, text, deliveries }) => [
      showTime(at),
      kind,
      text,
      deliveries.map(({ receiver, state }) => `${receiver}: ${state.replace('_', ' ')}`).join(', '),
    ]),
  )
}
