/** Creates an account, where the gateway's registration is open. */
import type { VNode } from 'preact'
import type { SessionView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { moneyAtLeast, nano } from '../lib/format.ts'
import { useSessionState } from '../lib/session.tsx'
import { ButtonLink, Empty, Gate } from '../ui/index.ts'
import { Credentials } from './credentials.tsx'

export default function Register(): VNode {
  const { about, begin } = useSessionState()
  if (about.registration !== 'open') return <Closed />
  const gift =
    nano(about.starting_credit) > 0n ? ` It starts with ${moneyAtLeast(about.starting_credit)} of credit.` : ''
  return (
    <Gate
      title="Create an account"
      lead={`One key for every model behind this gateway.${gift}`}
      foot={
        <p>
          Have an account already? <a href="/sign-in">Sign in</a>
        </p>
      }
    >
      <Credentials
        submit="Create the account"
        send={async (email, password) => begin(await api.post<SessionView>('register', { email, password }))}
        emailHint="Used to sign in. Tollgate sends no e-mail."
      />
    </Gate>
  )
}

function Closed(): VNode {
  return (
    <Gate title="Create an account">
      <Empty
        icon="lock"
        title="Registration is by invitation only"
        action={
          <ButtonLink href="/sign-in" variant="primary">
            Sign in
          </ButtonLink>
        }
      >
        Ask the operator of this gateway for a link.
      </Empty>
    </Gate>
  )
}
