/** What the page can say about a password before the gateway sees it: only its length counts. */

/** The gateway's limits. */
export const PASSWORD = { shortest: 8, longest: 128 }

/** What is wrong with it; undefined: nothing. */
export function passwordError(password: string): string | undefined {
  const length = [...password].length
  if (length === 0) return 'Enter a password.'
  if (length < PASSWORD.shortest)
    return `The password needs at least ${PASSWORD.shortest} characters; this has ${length}.`
  if (length > PASSWORD.longest)
    return `The password may have at most ${PASSWORD.longest} characters; this has ${length}.`
  return undefined
}

/** A word about it while it is typed. */
export function passwordHint(password: string): string {
  const length = [...password].length
  if (length === 0)
    return `At least ${PASSWORD.shortest} characters. Several random words are easy to remember and hard to guess.`
  if (length < PASSWORD.shortest) return `${PASSWORD.shortest - length} more to go.`
  if (length > PASSWORD.longest) return `${length - PASSWORD.longest} too many.`
  if (length < 12) return `${length} characters: enough. From 12 on it is good.`
  return length < 16 ? `${length} characters: good.` : `${length} characters: very good.`
}

/** What is wrong with an e-mail address; the gateway looks closer. */
export function emailError(email: string): string | undefined {
  if (email.trim() === '') return 'Enter an e-mail address.'
  return /^[^\s@]+@[^\s@]+$/.test(email.trim())
    ? undefined
    : 'This is not an e-mail address: it needs the form name@example.com.'
}
