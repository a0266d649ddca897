/** A one-time link: its secret follows `#`, a part that browsers do not send to servers. */
import { useEffect, useState } from 'preact/hooks'
import type { LinkPurposeView } from '../../api/views.ts'
import { type ApiError, api } from './api.ts'

export interface OneTimeLink {
  readonly token: string
  readonly purpose: LinkPurposeView | undefined
  readonly error: ApiError | undefined
  readonly reload: () => void
}

/** Requests the purpose of the link in the address bar. The link stays usable. */
export function useLink(): OneTimeLink {
  // Read once: the address changes when the person navigates.
  const [token] = useState(() => location.hash.slice(1))
  const [round, setRound] = useState(0)
  const [state, setState] = useState<{ purpose?: LinkPurposeView; error?: ApiError }>({})
  useEffect(() => {
    if (token === '') return
    setState({})
    api.post<LinkPurposeView>('link', { token }).then(
      purpose => setState({ purpose }),
      (error: ApiError) => setState({ error }),
    )
  }, [token, round])
  return { token, purpose: state.purpose, error: state.error, reload: () => setRound(round + 1) }
}
