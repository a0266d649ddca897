/** Replaces a form while its one-time link is checked, or if the link is invalid. */
import type { VNode } from 'preact'
import type { OneTimeLink } from '../lib/one-time-link.ts'
import { ButtonLink, Empty, ErrorBox, Gate, Loading } from '../ui/index.ts'

interface TroubleProps {
  readonly title: string
  readonly link: OneTimeLink
  readonly wanted: 'invitation' | 'reset'
}

export function LinkTrouble({ title, link, wanted }: TroubleProps): VNode {
  const { token, purpose, error, reload } = link
  const useless = token === '' || error?.code === 'link_invalid' || (purpose !== undefined && purpose.kind !== wanted)
  if (useless) return <Gate title={title}>{<Useless wanted={wanted} />}</Gate>
  if (error)
    return <Gate title={title}>{<ErrorBox title="The link could not be checked" error={error} retry={reload} />}</Gate>
  return <Gate title={title}>{<Loading lines={4} label="Checking the link" />}</Gate>
}

function Useless({ wanted }: { readonly wanted: 'invitation' | 'reset' }): VNode {
  return (
    <Empty
      icon="link"
      title="This link does not work"
      action={
        <ButtonLink href="/sign-in" variant="primary">
          Sign in
        </ButtonLink>
      }
    >
      It was used already, has expired, or was not copied completely: a complete link ends with a # and a long secret.
      Ask the operator for a new {wanted === 'reset' ? 'link to set a password' : 'invitation'}.
    </Empty>
  )
}
