/** A new password by a one-time link from an operator. */
import type { VNode } from 'preact'
import type { SessionView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { useLink } from '../lib/one-time-link.ts'
import { navigate } from '../lib/router.tsx'
import { useSigned } from '../lib/session.tsx'
import { useAction } from '../lib/use-resource.ts'
import { Gate } from '../ui/index.ts'
import { Credentials } from './credentials.tsx'
import { LinkTrouble } from './link-trouble.tsx'

export default function Reset(): VNode {
  const { begin } = useSigned()
  const link = useLink()
  const action = useAction(async (_email: string, password: string) => {
    const session = await api.post<SessionView>('reset', { token: link.token, password })
    navigate('/', { replace: true })
    begin(session)
  })
  if (link.purpose?.kind !== 'reset') return <LinkTrouble title="Set a new password" link={link} wanted="reset" />
  const { email } = link.purpose
  return (
    <Gate title="Set a new password" lead="Everything that was signed in with the old one is signed out.">
      <Credentials submit="Set the password" action={action} email={email} withoutEmail={email === null} />
    </Gate>
  )
}
