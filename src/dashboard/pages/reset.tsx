/** Sets a new password with a one-time link from an operator. */
import type { VNode } from 'preact'
import type { SessionView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { useLink } from '../lib/one-time-link.ts'
import { navigate } from '../lib/router.tsx'
import { useSessionState } from '../lib/session.tsx'
import { Gate } from '../ui/index.ts'
import { Credentials } from './credentials.tsx'
import { LinkTrouble } from './link-trouble.tsx'

export default function Reset(): VNode {
  const { begin } = useSessionState()
  const link = useLink()
  const send = async (_email: string, password: string): Promise<void> => {
    const session = await api.post<SessionView>('reset', { token: link.token, password })
    navigate('/', { replace: true })
    begin(session)
  }
  if (link.purpose?.kind !== 'reset') return <LinkTrouble title="Set a new password" link={link} wanted="reset" />
  const { email } = link.purpose
  return (
    <Gate title="Set a new password" lead="This ends all sessions that used the old password.">
      <Credentials submit="Set the password" send={send} email={email} withoutEmail={email === null} />
    </Gate>
  )
}
