/** `tollgate token`: tokens of machines for the operators' API on the `admin` listener. A secret is shown only once. */
import type { Command } from 'commander'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { json, showTime, table } from './format.ts'
import { actor, operate } from './operate.ts'
import { findStore } from './place.ts'
import { expiryValue } from './values.ts'

export const addToken: AddCommand = (program, { terminal, finish }) => {
  const token = program
    .command('token')
    .description("manage tokens for the operators' API; it needs the admin listener (key admin in gateway.yaml)")
    .addHelpText('after', example('token create payments --expires 365d', 'token list'))

  token
    .command('create')
    .description('create a token and show its secret, which is shown only once')
    .argument('<name>', 'purpose of the token')
    .option('--expires <when>', 'a duration from now (30d) or a date (2027-01-31) (default: never)', text =>
      expiryValue(text, Date.now()),
    )
    .addOption(jsonOption())
    .addHelpText('after', example('token create payments --expires 365d'))
    .action((name: string, options: { expires?: string; json?: true }, command: Command) =>
      finish(async () => {
        const args = { name, expires_at: options.expires, actor: actor() }
        const { tokens } = await operate(terminal, configOf(command), 'token.list', {})
        const result = await operate(terminal, configOf(command), 'token.create', args)
        if (tokens.some(each => each.name === result.token.name)) {
          terminal.err(`Another token has the name "${name}": revoke one by its id (token list shows the ids).\n`)
        }
        if (!(await findStore(terminal, configOf(command))).hasAdmin) {
          terminal.err(
            `This token cannot be used yet: ${configOf(command)} has no admin listener. Write admin: 127.0.0.1:8082.\n`,
          )
        }
        if (options.json) terminal.out(json(result))
        else
          terminal.out(
            `Created token ${result.token.id} ("${name}").\n\n${result.secret}\n\nStore it now: this secret is not shown again.\n`,
          )
        return 0
      }),
    )

  token
    .command('list')
    .description('list tokens without their secrets')
    .addOption(jsonOption())
    .addHelpText('after', example('token list'))
    .action((options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'token.list', {})
        if (options.json) terminal.out(json(result))
        else if (result.tokens.length === 0) terminal.out(`No tokens. Create one: ${terminal.self} token create NAME\n`)
        else
          terminal.out(
            table(
              [
                { title: 'TOKEN' },
                { title: 'NAME' },
                { title: 'SECRET' },
                { title: 'EXPIRES' },
                { title: 'CREATED BY' },
              ],
              result.tokens.map(each => [
                each.id,
                each.name,
                `…${each.last4}`,
                showExpiry(each.expires_at),
                each.created_by,
              ]),
            ),
          )
        return 0
      }),
    )

  token
    .command('revoke')
    .description('revoke a token permanently, and the links created with it')
    .argument('<token>', 'id of the token, or its name if only one has it')
    .addOption(jsonOption())
    .addHelpText('after', example('token revoke tok_0123', 'token revoke payments'))
    .action((idOrName: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'token.revoke', { token: idOrName, actor: actor() })
        const { id, name } = result.token
        terminal.out(options.json ? json(result) : `Token ${id} ("${name}") is revoked.\n`)
        return 0
      }),
    )
}

function showExpiry(iso: string | null): string {
  if (iso === null) return 'never'
  return Date.parse(iso) <= Date.now() ? `expired ${showTime(iso)}` : showTime(iso)
}
