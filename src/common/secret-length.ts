/** The minimum length of the secret for digests of keys. The configuration's check and the store share this message. */
const SHORTEST = 32

/** The command that makes a good one. */
export const SECRET_MADE_BY = 'openssl rand -hex 32'

/** The problem with its length; null: none. The message contains no part of the secret. */
export function shortSecret({ length }: string): string | null {
  return length >= SHORTEST ? null : `has ${length} characters and needs at least ${SHORTEST}`
}
