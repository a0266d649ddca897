/** The form for a new password, with or without an e-mail address: for registering, joining, resetting. */
import type { ComponentChildren, ComponentProps, VNode } from 'preact'
import { emailError, passwordError, passwordHint } from '../lib/password.ts'
import { useForm } from '../lib/use-form.ts'
import { Form, PasswordField, TextField } from '../ui/index.ts'

interface CredentialsProps {
  readonly submit: string
  readonly send: (email: string, password: string) => Promise<unknown>
  /** A fixed address; it is shown for password managers. */
  readonly email?: string | null | undefined
  readonly emailHint?: ComponentChildren
  /** Without an address: the link belongs to a person. */
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

/** The e-mail address to sign in with. */
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
