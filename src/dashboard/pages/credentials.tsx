/** The form for a new password, with an e-mail address or without: registering, joining, resetting. */
import type { ComponentChildren, ComponentProps, VNode } from 'preact'
import { emailError, passwordError, passwordHint } from '../lib/password.ts'
import { useForm } from '../lib/use-form.ts'
import { Form, PasswordField, TextField } from '../ui/index.ts'

interface CredentialsProps {
  readonly submit: string
  readonly send: (email: string, password: string) => Promise<unknown>
  /** Given: it cannot be changed, and stands there for password managers. */
  readonly email?: string | null | undefined
  readonly emailHint?: ComponentChildren
  /** No address at all: the link knows whose password it is. */
  readonly withoutEmail?: boolean | undefined
}

export function Credentials(props: CredentialsProps): VNode {
  const { submit, send, email: given, emailHint, withoutEmail = false } = props
  const form = useForm({
    initial: { email: given ?? '', password: '' },
    check: ({ email, password }) => ({
      email: withoutEmail || given ? '' : emailError(email),
      password: passwordError(password),
    }),
    send: ({ email, password }) => send(email.trim(), password),
  })
  return (
    <Form form={form} submit={submit} wide>
      {!withoutEmail && <EmailField required readonly={Boolean(given)} hint={emailHint} {...form.field('email')} />}
      <PasswordField
        label={withoutEmail ? 'New password' : 'Password'}
        name="password"
        autoComplete="new-password"
        hint={passwordHint(form.values.password)}
        {...form.field('password')}
      />
    </Form>
  )
}

type EmailProps = Omit<ComponentProps<typeof TextField>, 'label'>

/** The address to sign in with. */
export function EmailField(props: EmailProps): VNode {
  return (
    <TextField
      label="E-mail address"
      type="email"
      name="email"
      autocomplete="username"
      autocapitalize="off"
      spellcheck={false}
      {...props}
    />
  )
}
