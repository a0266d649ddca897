/**
 * Sessions of the dashboard: the cookie and how long it is good for. The secret stands in the cookie only; the store has
 * its digest. Half an hour without a request ends a session, eight hours end it in any case.
 */
import type { Clock, Log } from '#contract'
import type { People, Person } from '../store/people/people.ts'
import { StoreUnavailable } from '../store/store.ts'

export const IDLE_MS = 30 * 60_000
export const MAX_MS = 8 * 3_600_000
/** Not every request is worth a write. */
const TOUCH_EVERY_MS = 60_000

export interface LiveSession {
  readonly secret: string
  readonly person: Person
  /** When it ends at the latest. */
  readonly expiresAt: number
}

export interface Sessions {
  /** The session of a cookie's secret while it is good; counts as use. */
  find(secret: string): Promise<LiveSession | undefined>
  /**
   * A new one, with a secret of its own; the one before it on the same browser is ended.
   *
   * @param proof The hash of the password that was shown; rejects with `conflict` when it is another one by now.
   */
  begin(person: Person, before: string | null, proof: string): Promise<LiveSession>
}

export function createSessions(people: People, clock: Clock, log: Log): Sessions {
  async function touch(secret: string): Promise<void> {
    try {
      await people.touchSession(secret)
    } catch (error) {
      // Whoever only reads can go on while the disk is full.
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
      // After all waiting: a session may have ended meanwhile, and a person have another role.
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
 * The cookie's name. With the prefix a browser takes it only over https, from this host and for all of its paths, so no
 * neighbour under the same domain can plant one. On plain http, which only loopback may be, that cannot be had.
 */
export function cookieName(secure: boolean): string {
  return secure ? '__Host-tollgate' : 'tollgate'
}

/** The `Set-Cookie` that begins a session, or with null the one that ends it. */
export function cookieFor(secret: string | null, secure: boolean): string {
  const end = secret === null ? '; Max-Age=0' : ''
  return `${cookieName(secure)}=${secret ?? ''}; Path=/; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}${end}`
}

/** The session's secret of a `Cookie` header; null when there is none, or two: one of them is not ours. */
export function readCookie(header: string | undefined, secure: boolean): string | null {
  const secret = cookieIn(header, cookieName(secure))
  return secret !== null && SECRET.test(secret) ? secret : null
}

/** The value of a cookie of that name; null when there is none, or two: one of them is not ours. */
export function cookieIn(header: string | undefined, name: string): string | null {
  const start = `${name}=`
  const found = (header ?? '')
    .split(';')
    .map(pair => pair.trim())
    .filter(pair => pair.startsWith(start))
  return found.length === 1 ? found[0]!.slice(start.length) : null
}

/** What may be one at all: anything else is not worth a question to the store. */
const SECRET = /^[A-Za-z0-9_-]{20,100}$/
