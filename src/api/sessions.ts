/**
 * Sessions of the dashboard. Only the cookie has the secret; the store has its digest. A session ends after half an hour without a request,
 * and after eight hours in any case.
 */
import type { Clock, Log } from '#contract'
import type { People, Person } from '../store/people/people.ts'
import { StoreUnavailable } from '../store/store.ts'

export const IDLE_MS = 30 * 60_000
export const MAX_MS = 8 * 3_600_000
/** The use of a session is written at most this often. */
const TOUCH_EVERY_MS = 60_000

export interface LiveSession {
  readonly secret: string
  readonly person: Person
  /** The latest end. */
  readonly expiresAt: number
}

export interface Sessions {
  /** The valid session of a cookie's secret. Counts as a use. */
  find(secret: string): Promise<LiveSession | undefined>
  /**
   * Starts a session with a new secret, and ends the previous one in the same browser.
   *
   * @param proof the hash of the checked password; rejects with `conflict` if the password has changed since
   */
  begin(person: Person, before: string | null, proof: string): Promise<LiveSession>
}

export function createSessions(people: People, clock: Clock, log: Log): Sessions {
  async function touch(secret: string): Promise<void> {
    try {
      await people.touchSession(secret)
    } catch (error) {
      // A person can still read while the disk is full.
      if (!(error instanceof StoreUnavailable)) throw error
      log.warn({ err: error }, 'the use of a session could not be written down')
    }
  }

  return {
    async find(secret) {
      const session = await people.findSession(secret)
      if (!session) return undefined
      const now = clock.now()
      const expiresAt = session.createdAt + MAX_MS
      if (now >= expiresAt || now - session.seenAt >= IDLE_MS) {
        await people.endSession(secret)
        return undefined
      }
      if (now - session.seenAt >= TOUCH_EVERY_MS) await touch(secret)
      // After all waits: meanwhile the session may have ended, or the role changed.
      const person = (await people.findSession(secret)) && (await people.find(session.personId))
      return person && { secret, person, expiresAt }
    },

    async begin(person, before, proof) {
      const secret = await people.createSession(person.id, proof)
      if (before !== null) await people.endSession(before)
      const createdAt = (await people.findSession(secret))?.createdAt ?? clock.now()
      return { secret, person, expiresAt: createdAt + MAX_MS }
    },
  }
}

/**
 * The cookie's name. With the prefix `__Host-`, browsers accept it only over https from this host, so that another host of the domain cannot
 * set it. Plain http on loopback cannot have the prefix.
 */
export function cookieName(secure: boolean): string {
  return secure ? '__Host-tollgate' : 'tollgate'
}

/** The `Set-Cookie` that starts a session, or with null ends it. */
export function cookieFor(secret: string | null, secure: boolean): string {
  const end = secret === null ? '; Max-Age=0' : ''
  return `${cookieName(secure)}=${secret ?? ''}; Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}${end}`
}

/** The session's secret in a `Cookie` header; null: missing, or twice, so that one is not ours. */
export function readCookie(header: string | undefined, secure: boolean): string | null {
  const secret = cookieIn(header, cookieName(secure))
  return secret !== null && SECRET.test(secret) ? secret : null
}

/** The value of a cookie; null: missing, or twice, so that one is not ours. */
export function cookieIn(header: string | undefined, name: string): string | null {
  const start = `${name}=`
  const found = (header ?? '')
    .split(';')
    .map(pair => pair.trim())
    .filter(pair => pair.startsWith(start))
  return found.length === 1 ? found[0]!.slice(start.length) : null
}

/** The form of a secret. The store is not asked for other texts. */
const SECRET = /^[A-Za-z0-9_-]{20,100}$/
