/** Who is signed in, for everything inside. */
import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { AboutView, SessionView } from '../../api/views.ts'

export interface Signed {
  readonly about: AboutView
  /** Null on the pages for those who are not signed in. */
  readonly session: SessionView | null
  /** After signing in, joining, changing the password. */
  readonly begin: (session: SessionView) => void
  readonly signOut: () => Promise<void>
  /** Reads the session again: the balance in the sidebar has changed. */
  readonly refresh: () => void
}

/** app.tsx provides it. */
export const SessionContext = createContext<Signed | null>(null)

/** What there is to know, with or without a session. */
export function useSigned(): Signed {
  const signed = useContext(SessionContext)
  if (signed === null) throw new Error('useSigned() outside of SessionContext')
  return signed
}

/** On pages that only somebody signed in sees. */
export function useSession(): Signed & { readonly session: SessionView } {
  const signed = useSigned()
  if (signed.session === null) throw new Error('useSession() on a page without a session')
  return signed as Signed & { readonly session: SessionView }
}
