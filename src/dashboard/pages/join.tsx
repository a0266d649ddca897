/** The page of an invitation: it creates a person, and an account unless the person joins an existing one. */
import type { VNode } from 'preact'
import type { SessionView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { moneyAtLeast, nano } from '../lib/format.ts'
import { useLink } from '../lib/one-time-link.ts'
import { navigate } from '../lib/router.tsx'
import { useSessionState } from '../lib/session.tsx'
import { Gate, Note } from '../ui/index.ts'
import { Credentials } from './credentials.tsx'
import { LinkTrouble } from './link-trouble.tsx'

export default function Join(): VNode {
  const { begin, session } = useSessionState()
  const link = useLink()
  const send = async (email: string, password: string): Promise<void> => {
    const invited = link.purpose?.email
    const body = { token: link.token, password, ...(invited ? {} : { email }) }
    const joined = await api.post<SessionView>('join', body)
    // Removes the address with the secret from the history.
    navigate('/', { replace: true })
    begin(joined)
  }
  const { purpose } = link
  if (purpose === undefined || purpose.kind !== 'invitation') {
    return <LinkTrouble title="Your invitation" link={link} wanted="invitation" />
  }
  return (
    <Gate
      title={purpose.account === null ? 'Create your account' : `Join ${purpose.account}`}
      lead={
        purpose.role === 'operator'
          ? 'You will be an operator of this gateway.'
          : 'You have been invited to this gateway.'
      }
      foot={
        <p>
          Have an account already? <a href="/sign-in">Sign in</a>
        </p>
      }
    >
      <div class="stack">
        {purpose.account === null && nano(purpose.credit) > 0n && (
          <Note tone="good" title={`${moneyAtLeast(purpose.credit)} of credit`}>
            Your account starts with this credit.
          </Note>
        )}
        {session !== null && (
          <Note tone="info">
            You are signed in as {session.person.email}. If you accept, you create a second user and sign in as that
            user.
          </Note>
        )}
        <Credentials
          submit="Accept the invitation"
          send={send}
          email={purpose.email}
          emailHint="Used to sign in. Tollgate sends no e-mail."
        />
      </div>
    </Gate>
  )
}
