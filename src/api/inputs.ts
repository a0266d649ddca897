/** The fields that several routes take. */
import { MARK_PATTERN, MARK_RULE } from '#contract'
import { type Properties, type Schema, shape } from './schema.ts'

/** The path's `{id}`; more of them by their names: `ids('id', 'key')`. */
export function ids<const Name extends string = 'id'>(
  ...names: readonly Name[]
): Schema<Readonly<Record<Name, string>>> {
  const each = (names.length === 0 ? ['id'] : names).map(name => [name, ID])
  return shape(Object.fromEntries(each) as Properties) as Schema<Readonly<Record<Name, string>>>
}

const ID_PATTERN = '^[A-Za-z0-9_-]+$'

// Long enough for every id, and too short for a secret that somebody puts in its place: paths are written to the log.
export const ID: Schema<string> = {
  type: 'string',
  minLength: 1,
  maxLength: 40,
  pattern: ID_PATTERN,
  description: 'An id, as lists say it.',
}

/** What the store takes for a name: characters that people can see, in one line, without space around them. */
export const VISIBLE_LINE = '^(?!\\s)[^\\p{C}\\u2028\\u2029]+(?<!\\s)$'

/** The name and the value of a tag. */
export const TAG_FILTER = '^[a-z][a-z0-9_]*=.'

/** The rule of each pattern in the schemas of inputs. */
export const PATTERNS: Readonly<Record<string, string>> = {
  [ID_PATTERN]: 'it must be an id: letters, digits, - and _',
  [VISIBLE_LINE]: 'it must be one line of visible characters, without space around it',
  [TAG_FILTER]: 'it must be the name of a tag, = and a value, such as team=search',
  [MARK_PATTERN]: `it ${MARK_RULE}`,
}

/** A text in one line. */
export function line(description: string, maxLength = 100): Schema<string> {
  return { type: 'string', minLength: 1, maxLength, pattern: VISIBLE_LINE, description }
}

export const NAME = line('A name for people to read.')

export const EMAIL: Schema<string> = {
  type: 'string',
  format: 'email',
  maxLength: 200,
  description:
    'An e-mail address: the name to sign in with. Upper and lower case are the same, and so are forms of a letter that NFKC makes one.',
}

export const PASSWORD: Schema<string> = {
  type: 'string',
  minLength: 8,
  maxLength: 128,
  description: 'A password of 8 to 128 characters, whichever they are, that is not among the first to be guessed.',
}

/** A password that exists: whatever it is, the answer is the same for all wrong ones. */
export const PASSWORD_NOW: Schema<string> = { type: 'string', maxLength: 1024, description: 'The password.' }

export const SECRET: Schema<string> = {
  type: 'string',
  minLength: 1,
  maxLength: 100,
  description: 'What stands behind # in the link.',
}

export const MONEY: Schema<string> = {
  type: 'string',
  format: 'money',
  description: 'Dollars as a text, at most 9 decimals: "12.50".',
}

export const SIGNED_MONEY: Schema<string> = {
  type: 'string',
  format: 'signed-money',
  description: 'Dollars as a text, at most 9 decimals: "12.50"; below 0 to take credit: "-5".',
}

export const TIME: Schema<string> = {
  type: 'string',
  format: 'date-time',
  description: 'A time as ISO 8601 has it: "2027-01-31T00:00:00Z".',
}
