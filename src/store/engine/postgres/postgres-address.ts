/** Addresses of databases in PostgreSQL, and messages about their errors. No message contains the password. */

import { EXPIRED, OTHER_HOST, UNKNOWN_CA } from '../../../common/certificate-faults.ts'
import { parseServer } from '../../../common/server-address.ts'
import { passwordsIn } from '../../store-address.ts'

/** Formats an address as `postgres://user@host:port/database`; the folder of a socket is the host. */
export function placeOf(url: string): string {
  const parsed = parseServer(url)
  if (parsed === null) return 'postgres:'
  const [name, folder] = [parsed.searchParams.get('user') ?? parsed.username, parsed.searchParams.get('host')]
  const user = name === '' ? '' : `${name}@`
  return `postgres://${user}${folder === null ? parsed.host : encodeURIComponent(folder)}${parsed.pathname}`
}

/** The problem and the remedy for an error, by SQLSTATE or the operating system's code followed by the message. The first match wins. */
const RULES: readonly (readonly [pattern: RegExp, problem: string, remedy: string])[] = [
  [/^ENOENT connect /, 'cannot be reached', 'Start the server, or correct the folder of its socket in `store`'],
  [/^(ECONN|EHOST|ENET|ENOTFOUND|EAI|ETIMEDOUT|EPIPE|08)/, 'cannot be reached', 'Start the server, or correct `store`'],
  [...UNKNOWN_CA, 'Name the file of its CA in `store`: ?sslmode=verify-full&sslrootcert=FILE'],
  [...OTHER_HOST, 'Write the host of the certificate into `store`'],
  [...EXPIRED, 'Renew it'],
  [/^\S* The server does not support SSL/, 'has no TLS', 'Turn it on there, or write sslmode=disable into `store`'],
  [
    /^28000 no pg_hba\.conf entry.*no encryption$/,
    'rejected the connection',
    'Add ?sslmode=verify-full to `store`, or admit the user in pg_hba.conf',
  ],
  [/^28000 no pg_hba\.conf entry/, 'rejected the connection', 'Admit the user in pg_hba.conf, or correct `store`'],
  [/^28000.* client certificate/, 'asks for a certificate', 'Name its files in `store`: sslcert=FILE&sslkey=FILE'],
  [/^\S* SASL.* password must be a/, 'asks for a password', 'Add it to `store` as ${NAME}'],
  [/^28/, 'refuses the user or the password', 'Correct `store`'],
  [/^3D000/, 'does not exist', 'Create it: createdb NAME'],
  [/^3F000/, 'has no schema for this user', 'Create the schema that search_path names'],
  [/^42501/, 'denies this user a right', 'Make the user the owner of the database'],
  [/^25006|hot standby$/, 'is read-only', 'Name the primary server, and a role that may write'],
  [/^53300/, 'has no connection left', 'Raise max_connections of the server, or close other connections'],
  [/^53/, 'is out of disk space or memory', 'Free disk space, or give the server more memory'],
  [/^57P0/, 'is starting or stopping', 'Try again'],
]

type ConnectionError = Error & { readonly code?: unknown }

const ruleOf = ({ code, message }: ConnectionError) =>
  RULES.find(([pattern]) => pattern.test(`${typeof code === 'string' ? code : ''} ${message}`))

/** The sentences about an error with a rule; null: no rule matches. */
export const knownSentence = (error: ConnectionError, url: string): string | null =>
  ruleOf(error) === undefined ? null : sentenceOf(error, url)

/** One sentence about an error, and one with the remedy. */
export function sentenceOf(error: ConnectionError, url: string): string {
  const [, problem, remedy] = ruleOf(error) ?? [undefined, 'cannot be used', 'Correct `store`']
  return `The store ${placeOf(url)} ${problem}: ${withoutPassword(error.message, url)}. ${remedy}.`
}

function withoutPassword(message: string, url: string): string {
  return [url, ...passwordsIn(url)].reduce((text, each) => text.replaceAll(each, '…'), message)
}
