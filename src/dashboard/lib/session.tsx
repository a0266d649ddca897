/** The session of the signed-in person, as a context. */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { AboutView, SessionView } from '../../api/views.ts'

export interface SessionState {
  readonly about: AboutView
  /** Null if no one is signed in. */
  readonly session: SessionView | null
  /** Sets the session after a sign-in, a registration or a new password. */
  readonly begin: (session: SessionView) => void
  readonly signOut: () => Promise<void>
  /** Reads the session again, for the balance in the sidebar. */
  readonly refresh: () => void
}

/** app.tsx provides it. */
export const SessionContext = createContext<SessionState | null>(null)

/** The gateway's facts and the session, if any. Throws outside of `SessionContext`. */
export function useSessionState(): SessionState {
  const state = useContext(SessionContext)
  if (state === null) throw new Error('useSessionState() outside of SessionContext')
  return state
}

/** The session on pages that require one. Throws on others. */
export function useSession(): SessionState & { readonly session: SessionView } {
  const state = useSessionState()
  if (state.session === null) throw new Error('useSession() on a page without a session')
  return state as SessionState & { readonly session: SessionView }
}
