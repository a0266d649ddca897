/**
 * Normalizes and folds e-mail addresses. They are names to sign in with and never receive mail. Two that look the same to people must
 * belong to one person.
 */

/** The form that is stored and shown: full-width letters, ligatures and the like become plain ones, in lower case. */
export function normalEmail(email: string): string {
  return email.normalize('NFKC').toLowerCase().normalize('NFKC')
}

/**
 * The form that is compared: NFKC and case folding, without invisible characters (UAX #31 NFKC_Casefold, except that the dotless i
 * folds to itself).
 */
export function foldEmail(email: string): string {
  const visible = normalEmail(email).replace(/\p{Default_Ignorable_Code_Point}/gu, '')
  // To capitals and back: `ß` becomes `ss`, and all forms of a sigma become one. The dotless i would become another letter.
  const folded = visible.split('\u0131').map(part => part.toUpperCase().toLowerCase())
  return folded.join('\u0131').normalize('NFKC')
}

/** The form that was stored before schema 6. People who registered before then are still found by it. */
export function formerEmail(email: string): string {
  return email.normalize('NFC').toLowerCase()
}
