/** A one-time link: its secret stands behind `#`, which browsers do not send to servers. */
import { useEffect, useState } from 'preact/hooks'
import { type ApiError, api } from './api.ts'

/** What a link is for: the answer of `POST /api/link`. */
export interface LinkPurpose {
  readonly kind: 'invitation' | 'reset'
  readonly email: string | null
  /** The name of the account one joins; null: a new one. */
  readonly account: string | null
  readonly role: 'member' | 'operator'
}

export interface OneTimeLink {
  readonly token: string
  readonly purpose: LinkPurpose | undefined
  readonly error: ApiError | undefined
  readonly reload: () => void
}

/** Asks what the link in the address bar is for, without using it up. */
export function useLink(): OneTimeLink {
  // Kept from the start: the address changes when one moves on.
  const [token] = useState(() => location.hash.slice(1))
  const [round, setRound] = useState(0)
  const [state, setState] = useState<{ purpose?: LinkPurpose; error?: ApiError }>({})
  useEffect(() => {
    if (token === '') return
    setState({})
    api.post<LinkPurpose>('link', { token }).then(
      purpose => setState({ purpose }),
      (error: ApiError) => setState({ error }),
    )
  }, [token, round])
  return { token, purpose: state.purpose, error: state.error, reload: () => setRound(round + 1) }
}
