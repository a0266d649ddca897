/** Fields of several routes. */
import { MARK_PATTERN, MARK_RULE } from '#contract'
import { type Properties, type Schema, shape } from './schema.ts'

/** The ids in a path by their names: `ids('id', 'key')`. */
export function ids<const Name extends string = 'id'>(
  ...names: readonly Name[]
): Schema<Readonly<Record<Name, string>>> {
  const each = (names.length === 0 ? ['id'] : names).map(name => [name, ID])
  return shape(Object.fromEntries(each) as Properties) as Schema<Readonly<Record<Name, string>>>
}

const ID_PATTERN = '^[A-Za-z0-9_-]+$'

// Long enough for each id, and too short for a secret by mistake: paths are logged.
export const ID: Schema<string> = {
  type: 'string',
  minLength: 1,
  maxLength: 40,
  pattern: ID_PATTERN,
  description: 'An id from a list.',
}

/** The rule of names in the store: visible characters on one line, without spaces around them. */
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

/** A text on one line. */
export function line(description: string, maxLength = 100): Schema<string> {
  return { type: 'string', minLength: 1, maxLength, pattern: VISIBLE_LINE, description }
}

export const NAME = line('A name for people.')

export const EMAIL: Schema<string> = {
  type: 'string',
  format: 'email',
  maxLength: 200,
  description: 'The e-mail address for sign-in. Case and the forms of a letter that NFKC joins do not matter.',
}

export const PASSWORD: Schema<string> = {
  type: 'string',
  minLength: 8,
  maxLength: 128,
  description: 'A password of 8 to 128 characters that is not easy to guess.',
}

/** An existing password. All wrong ones get the same answer. */
export const PASSWORD_NOW: Schema<string> = { type: 'string', maxLength: 1024, description: 'The password.' }

export const SECRET: Schema<string> = {
  type: 'string',
  minLength: 1,
  maxLength: 100,
  description: 'The part of the link after #.',
}

export const MONEY: Schema<string> = {
  type: 'string',
  format: 'money',
  description: 'Dollars as a text, at most 9 decimals: "12.50".',
}

export const SIGNED_MONEY: Schema<string> = {
  type: 'string',
  format: 'signed-money',
  description: 'Dollars as a text, at most 9 decimals: "12.50"; negative to take credit: "-5".',
}

export const TIME: Schema<string> = {
  type: 'string',
  format: 'date-time',
  description: 'A time in ISO 8601: "2027-01-31T00:00:00Z".',
}
