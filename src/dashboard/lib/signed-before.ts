/**
 * Whether this browser may have a session: its cookie cannot be seen from here, and asking the gateway without one would be
 * an error in the console of everybody who only wants to sign in. No secret is kept, only that there may be one.
 */
const KEPT_AS = 'tollgate-signed-in'

/** True also when it is not known. */
export function maybeSignedIn(): boolean {
  try {
    return localStorage.getItem(KEPT_AS) !== null
  } catch {
    return true
  }
}

/** Called with every beginning and end of a session. */
export function rememberSignedIn(signedIn: boolean): void {
  try {
    if (signedIn) localStorage.setItem(KEPT_AS, 'yes')
    else localStorage.removeItem(KEPT_AS)
  } catch {}
}
