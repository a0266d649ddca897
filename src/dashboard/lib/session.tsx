/** The session of the signed-in person, as a context. */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { AboutView, SessionView } from '../../api/views.ts'

export interface SessionState {
  readonly about: AboutView
  /** Null on the pages before sign-in. */
  readonly session: SessionView | null
  /** After signing in, joining, changing the password. */
  readonly begin: (session: SessionView) => void
  readonly signOut: () => Promise<void>
  /** Reads the session again, for the balance in the sidebar. */
  readonly refresh: () => void
}

/** app.tsx provides it. */
export const SessionContext = createContext<SessionState | null>(null)

/** The gateway's facts and the session, if any. Throws outside of `SessionContext`. */
export function useSigned(): SessionState {
  const signed = useContext(SessionContext)
  if (signed === null) throw new Error('useSigned() outside of SessionContext')
  return signed
}

/** The session on pages that require one. Throws on others. */
export function useSession(): SessionState & { readonly session: SessionView } {
  const signed = useSigned()
  if (signed.session === null) throw new Error('useSession() on a page without a session')
  return signed as SessionState & { readonly session: SessionView }
}
