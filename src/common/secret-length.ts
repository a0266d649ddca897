/** How long the secret for the digests of keys must be: the configuration's check and the store say the same of a short one. */
const SHORTEST = 32

/** How people make a good one. */
export const SECRET_MADE_BY = 'openssl rand -hex 32'

/** What is wrong with its length; null: nothing. Never says a part of it. */
export function shortSecret({ length }: string): string | null {
  return length >= SHORTEST ? null : `has ${length} characters and needs at least ${SHORTEST}`
}
