/**
 * Whether this browser may have a session. The session's own cookie cannot be seen from here, and asking the gateway
 * without one would put an error into the console of everybody who only wants to sign in. So a second cookie stands beside
 * it and lives as long; it says nothing but that there is one.
 */
const MARK = 'tollgate-page'

export function maybeSignedIn(): boolean {
  return document.cookie.split('; ').includes(`${MARK}=1`)
}

/** Called with every beginning and end of a session. */
export function rememberSignedIn(signedIn: boolean): void {
  const secure = location.protocol === 'https:' ? '; Secure' : ''
  // biome-ignore lint/suspicious/noDocumentCookie: the CookieStore API is asynchronous, and not everywhere
  document.cookie = `${MARK}=1; Path=/; SameSite=Strict${secure}${signedIn ? '' : '; Max-Age=0'}`
}
