/** The settings of a person: profile, password, theme. */

import type { VNode } from 'preact'
import type { SessionView } from '../../api/views.ts'
import { ApiError, api } from '../lib/api.ts'
import { dateTime } from '../lib/format.ts'
import { passwordError, passwordHint } from '../lib/password.ts'
import { useSession } from '../lib/session.tsx'
import { useForm } from '../lib/use-form.ts'
import { useAction } from '../lib/use-resource.ts'
import {
  announce,
  Badge,
  Button,
  Card,
  Code,
  Copy,
  Details,
  ErrorNote,
  Form,
  Page,
  PasswordField,
} from '../ui/index.ts'
import { ThemeSwitch } from '../ui/theme-switch.tsx'

export default function Settings(): VNode {
  const { session, about, signOut } = useSession()
  const { person, account } = session
  const leaving = useAction(signOut)
  return (
    <Page title="Settings">
      <Card title="You">
        <Details
          items={[
            ['E-mail address', person.email],
            [
              'Role',
              <span key="role" class="row">
                <Badge tone={person.role === 'operator' ? 'accent' : 'plain'}>
                  {person.role === 'operator' ? 'Operator' : 'Member'}
                </Badge>
                <span class="small muted">
                  {person.role === 'operator' ? 'Manages the gateway.' : 'Uses this account.'}
                </span>
              </span>,
            ],
            ['Account', account.name],
            [
              'Account id',
              <span key="id" class="row">
                <Code>{account.id}</Code>
                <Copy text={account.id} label="Copy the account id" iconOnly variant="quiet" />
              </span>,
            ],
            ['Plan', account.plan],
            ['Signed in until', `${dateTime(session.expires_at)}, or after 30 minutes without activity`],
          ]}
        />
        <div class="row settings-leave">
          <Button icon="leave" busy={leaving.busy} onClick={leaving.run}>
            Sign out
          </Button>
          {leaving.error && <ErrorNote error={leaving.error} />}
        </div>
      </Card>
      <Card title="Password" hint="Changing it ends all other sessions.">
        <PasswordForm email={person.email} />
      </Card>
      <Card title="Appearance" hint="Kept in this browser.">
        <div class="settings-narrow">
          <ThemeSwitch />
        </div>
      </Card>
      <p class="small muted">Tollgate {about.version}</p>
    </Page>
  )
}

function PasswordForm({ email }: { readonly email: string }): VNode {
  const { begin } = useSession()
  const form = useForm({
    initial: { current: '', new: '' },
    check: values => ({
      current: values.current === '' ? 'Enter your current password.' : '',
      new: passwordError(values.new),
    }),
    send: async values => {
      begin(await api.post<SessionView>('password', values).catch(blameCurrent))
      form.set({ current: '', new: '' })
      announce('The password is changed')
    },
  })
  return (
    <div class="settings-narrow">
      <Form form={form} submit="Change the password">
        <input
          class="hidden"
          type="text"
          name="email"
          autocomplete="username"
          value={email}
          readOnly
          tabIndex={-1}
          aria-hidden="true"
        />
        <PasswordField
          label="Current password"
          name="current"
          autoComplete="current-password"
          {...form.field('current')}
        />
        <PasswordField
          label="New password"
          name="new"
          autoComplete="new-password"
          hint={passwordHint(form.values.new)}
          {...form.field('new')}
        />
      </Form>
    </div>
  )
}

/** The gateway reports a wrong current password without naming the field. */
function blameCurrent(error: ApiError): never {
  if (error.code !== 'wrong_credentials') throw error
  throw new ApiError({ ...error, message: 'This is not your current password.', param: 'current' })
}
