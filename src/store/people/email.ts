/**
 * E-mail addresses as they are kept, and as they are compared. Nothing is ever sent to one: it is a name to sign in with,
 * so two that people cannot tell apart must not be two people.
 */

/** As an address is kept and shown: full-width letters, ligatures and the like as the plain ones, in lower case. */
export function normalEmail(email: string): string {
  return email.normalize('NFKC').toLowerCase().normalize('NFKC')
}

/**
 * What two addresses have in common when they are one person's: NFKC and case folding, without characters that nobody sees
 * (UAX #31 NFKC_Casefold, but for the dotless i, which folds to itself).
 */
export function foldEmail(email: string): string {
  const visible = normalEmail(email).replace(/\p{Default_Ignorable_Code_Point}/gu, '')
  // To capitals and back: `ß` becomes `ss`, each form of a sigma the same one. The dotless i would become another letter.
  const folded = visible.split('\u0131').map(part => part.toUpperCase().toLowerCase())
  return folded.join('\u0131').normalize('NFKC')
}

/** As addresses were kept before schema 6: still the name of whoever has signed up by then. */
export function formerEmail(email: string): string {
  return email.normalize('NFC').toLowerCase()
}
