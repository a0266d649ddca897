/** Checks passwords and e-mail addresses before they are sent. Of a password, only the length is checked. */

/** The gateway's limits. */
export const PASSWORD = { shortest: 8, longest: 128 }

/** The error of a password; undefined: none. */
export function passwordError(password: string): string | undefined {
  const length = [...password].length
  if (length === 0) return 'Enter a password.'
  if (length < PASSWORD.shortest)
    return `The password needs at least ${PASSWORD.shortest} characters; this has ${length}.`
  if (length > PASSWORD.longest)
    return `The password may have at most ${PASSWORD.longest} characters; this has ${length}.`
  return undefined
}

/** The hint below a password while it is typed. */
export function passwordHint(password: string): string {
  const length = [...password].length
  if (length === 0)
    return `At least ${PASSWORD.shortest} characters. Several random words are easy to remember and hard to guess.`
  if (length < PASSWORD.shortest) return `${PASSWORD.shortest - length} more needed.`
  if (length > PASSWORD.longest) return `${length - PASSWORD.longest} too many.`
  if (length < 12) return `${length} characters: enough. 12 or more are better.`
  return length < 16 ? `${length} characters: good.` : `${length} characters: very good.`
}

/** The error of an e-mail address; undefined: none. The gateway checks more. */
export function emailError(email: string): string | undefined {
  if (email.trim() === '') return 'Enter an e-mail address.'
  return /^[^\s@]+@[^\s@]+$/.test(email.trim())
    ? undefined
    : 'This is not an e-mail address: it needs the form name@example.com.'
}
