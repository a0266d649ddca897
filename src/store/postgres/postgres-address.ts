/** The address of a database in PostgreSQL, and what is wrong with it, for people: never with the password. */

/** `postgres://user@host:port/database`. */
export function placeOf(url: string): string {
  const parsed = URL.parse(url)
  if (parsed === null) return 'postgres:'
  const user = parsed.username === '' ? '' : `${parsed.username}@`
  return `postgres://${user}${parsed.host}${parsed.pathname}`
}

/** What to do about an error, by its SQLSTATE or the operating system's code. */
const RULES: readonly (readonly [code: RegExp, what: string, remedy: string])[] = [
  [/^(ECONN|EHOST|ENET|ENOTFOUND|EAI|ETIMEDOUT|EPIPE|08)/, 'cannot be reached', 'Start the server, or correct `store`'],
  [/^28/, 'refuses the user or the password', 'Correct `store`'],
  [/^3D000/, 'is not there', 'Create it: createdb NAME'],
  [/^42501/, 'does not let this user do that', 'Make the user the owner of the database'],
  [/^25006/, 'is read-only', 'Name the primary server, and a role that may write'],
  [/^53/, 'has no room', 'Free disk space, or raise max_connections of the server'],
  [/^57P0/, 'is starting or stopping', 'Try again'],
]

/** One sentence on an error, and one on what to do. */
export function sentenceOf(error: Error & { readonly code?: unknown }, url: string): string {
  const code = typeof error.code === 'string' ? error.code : ''
  const [, what, remedy] = RULES.find(([codes]) => codes.test(code)) ?? [undefined, 'cannot be used', 'Correct `store`']
  return `The store ${placeOf(url)} ${what}: ${withoutPassword(error.message, url)}. ${remedy}.`
}

function withoutPassword(message: string, url: string): string {
  const password = URL.parse(url)?.password ?? ''
  const hidden = [url, password, decodeURIComponent(password)].filter(text => text !== '')
  return hidden.reduce((text, each) => text.replaceAll(each, '…'), message)
}
