/** `tollgate person`: the people who can sign in to the dashboard. Links work once; their secret follows `#`. */
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { IssuedLink } from '../api/control/people-verbs.ts'
import type { LinkView } from '../api/views.ts'
import { type AddCommand, configOf, example, jsonOption } from './commands.ts'
import { json, showMoney, showTime, table } from './format.ts'
import { actor, operate } from './operate.ts'
import { findStore } from './place.ts'
import type { Terminal } from './terminal.ts'
import { expiryValue, moneyValue } from './values.ts'

interface InviteOptions {
  readonly role: 'member' | 'operator'
  readonly account?: string
  readonly email?: string
  readonly plan?: string
  readonly credit?: string
  readonly expires: string
  readonly json?: true
}

interface ResetOptions {
  readonly expires: string
  readonly json?: true
}

const expires = (span: string) =>
  new Option('--expires <when>', 'when the link expires: a duration from now (7d) or a date (2027-01-31)')
    .default(expiryValue(span, Date.now()), span)
    .argParser(text => expiryValue(text, Date.now()))

export const addPerson: AddCommand = (program, context) => {
  const { terminal, finish } = context
  const person = program
    .command('person')
    .description('manage the people who can sign in to the dashboard')
    .addHelpText('after', example('person invite --role operator', 'person reset ada@example.com'))

  person
    .command('invite')
    .description('create an invitation link; it works once')
    .addOption(new Option('--role <role>', 'role of the person').choices(['member', 'operator']).default('member'))
    .option('--account <account>', 'name or id of the account to join (default: a new account)')
    .option('--email <address>', 'the only e-mail address that may use the link (default: any)', emailValue)
    .option('--plan <plan>', 'plan of the new account (default: default)')
    .option('--credit <dollars>', 'credit of the new account in dollars (default: 0)', moneyValue)
    .addOption(expires('7d'))
    .addOption(jsonOption())
    .addHelpText(
      'after',
      example('person invite --role operator', 'person invite --account acme --email ada@example.com'),
    )
    .action((options: InviteOptions, command: Command) =>
      finish(async () => {
        const { role, account, email, plan, credit, expires: expires_at } = options
        const args = { role, account, email, plan, credit, expires_at, actor: actor() }
        const origin = await originOf(terminal, command)
        const issued = await operate(terminal, configOf(command), 'person.invite', args)
        const invited = `${roleWords(role)}${account ? ` of account ${account}` : ''}`
        terminal.out(
          linkText(issued, { page: `${origin}/join`, what: `Invites ${invited}`, self: terminal.self }, options),
        )
        return 0
      }),
    )

  person
    .command('reset')
    .description('create a link to choose a new password; it works once')
    .argument('<person>', 'e-mail address of the person')
    .addOption(expires('24h'))
    .addOption(jsonOption())
    .addHelpText('after', example('person reset ada@example.com'))
    .action((email: string, options: ResetOptions, command: Command) =>
      finish(async () => {
        const args = { person: email, expires_at: options.expires, actor: actor() }
        const origin = await originOf(terminal, command)
        const issued = await operate(terminal, configOf(command), 'person.reset', args)
        const about = { page: `${origin}/reset`, what: `A new password for ${email}`, self: terminal.self }
        terminal.out(linkText(issued, about, options))
        return 0
      }),
    )

  person
    .command('list')
    .description('list the people who can sign in')
    .addOption(jsonOption())
    .addHelpText('after', example('person list'))
    .action((options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'person.list', {})
        if (options.json) terminal.out(json(result))
        else if (result.people.length === 0)
          terminal.out(`No people yet. Invite an operator: ${terminal.self} person invite --role operator\n`)
        else
          terminal.out(
            table(
              [{ title: 'E-MAIL' }, { title: 'ROLE' }, { title: 'ACCOUNT' }, { title: 'SINCE' }, { title: 'ID' }],
              result.people.map(each => [each.email, each.role, each.account, showTime(each.created_at), each.id]),
            ),
          )
        return 0
      }),
    )

  addLinks(person, context)
  addChanges(person, context)
}

const addChanges: AddCommand = (person, { terminal, finish }) => {
  person
    .command('role')
    .description('change the role of a person; this revokes the links and tokens that the person created')
    .argument('<person>', 'e-mail address of the person')
    .argument('<role>', 'member or operator', roleValue)
    .addOption(jsonOption())
    .addHelpText('after', example('person role ada@example.com operator'))
    .action((email: string, role: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'person.role', {
          person: email,
          role,
          actor: actor(),
        })
        terminal.out(options.json ? json(result) : `${result.person.email} is now ${roleWords(role)}.\n`)
        return 0
      }),
    )

  person
    .command('remove')
    .description('remove a person with their sessions, links and tokens; the account remains')
    .argument('<person>', 'e-mail address of the person')
    .addOption(jsonOption())
    .addHelpText('after', example('person remove ada@example.com'))
    .action((email: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'person.remove', { person: email, actor: actor() })
        terminal.out(options.json ? json(result) : `${result.person.email} is removed; the account remains.\n`)
        return 0
      }),
    )
}

/** The commands for valid links. */
const addLinks: AddCommand = (person, { terminal, finish }) => {
  person
    .command('links')
    .description('list the valid links without their secrets')
    .addOption(jsonOption())
    .addHelpText('after', example('person links'))
    .action((options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'person.links', {})
        if (options.json) terminal.out(json(result))
        else if (result.links.length === 0) terminal.out('No valid links.\n')
        else terminal.out(table(LINK_COLUMNS, result.links.map(linkRow)))
        return 0
      }),
    )

  person
    .command('revoke-link')
    .description('revoke an unused link')
    .argument('<link>', 'id of the link')
    .addOption(jsonOption())
    .addHelpText('after', example('person revoke-link lnk_0123'))
    .action((id: string, options: { json?: true }, command: Command) =>
      finish(async () => {
        const result = await operate(terminal, configOf(command), 'person.revoke-link', { link: id, actor: actor() })
        terminal.out(options.json ? json(result) : `Link ${id} is revoked.\n`)
        return 0
      }),
    )
}

const LINK_COLUMNS = ['LINK', 'FOR', 'ADDRESS', 'ACCOUNT', 'CREDIT', 'EXPIRES', 'CREATED BY'].map(title => ({ title }))

function linkRow({ id, kind, role, email, account, credit, expires_at, created_by }: LinkView): string[] {
  const isNew = kind === 'invitation' && account === null
  return [
    id,
    kind === 'reset' ? 'a new password' : roleWords(role),
    email ?? 'any',
    isNew ? 'a new one' : (account ?? ''),
    isNew ? showMoney(credit) : '',
    showTime(expires_at),
    created_by,
  ]
}

/** Called before a link is created: without a dashboard, no one could open it. */
async function originOf(terminal: Terminal, command: Command): Promise<string> {
  return (await findStore(terminal, configOf(command))).dashboard()
}

function linkText(
  { link, token }: IssuedLink,
  { page, what, self }: { readonly page: string; readonly what: string; readonly self: string },
  { json: asJson }: { readonly json?: true },
): string {
  const url = `${page}#${token}`
  if (asJson) return json({ link, url })
  return `${what}, once, until ${showTime(link.expires_at)}:\n\n${url}\n\nStore it now: this link is not shown again. To revoke it: ${self} person revoke-link ${link.id}\n`
}

function emailValue(text: string): string {
  if (/^[^\s@]+@[^\s@]+$/.test(text)) return text.toLowerCase()
  throw new InvalidArgumentError('It must be an e-mail address.')
}

function roleValue(text: string): string {
  if (text === 'member' || text === 'operator') return text
  throw new InvalidArgumentError('It must be member or operator.')
}

function roleWords(role: string): string {
  return role === 'operator' ? 'an operator' : 'a member'
}
