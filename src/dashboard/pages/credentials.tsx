/** The form for a new password, with an e-mail address or without: registering, joining, resetting. */
import type { ComponentChildren, VNode } from 'preact'
import { useState } from 'preact/hooks'
import { emailError, passwordError, passwordHint } from '../lib/password.ts'
import type { Action } from '../lib/use-resource.ts'
import { ErrorNote, errorAt, errorBeside, Form, PasswordField, TextField } from '../ui/index.ts'

interface CredentialsProps {
  readonly submit: string
  readonly action: Action<[email: string, password: string]>
  /** Given: it cannot be changed, and stands there for password managers. */
  readonly email?: string | null | undefined
  readonly emailHint?: ComponentChildren
  /** No address at all: the link knows whose password it is. */
  readonly withoutEmail?: boolean | undefined
}

export function Credentials({
  submit,
  action,
  email: given,
  emailHint,
  withoutEmail = false,
}: CredentialsProps): VNode {
  const [email, setEmail] = useState(given ?? '')
  const [password, setPassword] = useState('')
  const [tried, setTried] = useState(false)
  const needsEmail = !withoutEmail && !given
  const wrong = {
    email: needsEmail ? emailError(email) : undefined,
    password: passwordError(password),
  }
  const send = (): void => {
    setTried(true)
    if (!wrong.email && !wrong.password) void action.run(email.trim(), password)
  }
  const beside = errorBeside(action.error, withoutEmail ? ['password'] : ['email', 'password'])
  return (
    <Form onSubmit={send} busy={action.busy} submit={submit} wide error={beside && <ErrorNote error={beside} />}>
      {!withoutEmail && (
        <TextField
          label="E-mail address"
          type="email"
          name="email"
          autocomplete="username"
          autocapitalize="off"
          spellcheck={false}
          required
          readonly={Boolean(given)}
          value={email}
          onValue={setEmail}
          hint={emailHint}
          error={(tried ? wrong.email : undefined) ?? errorAt(action.error, 'email')}
        />
      )}
      <PasswordField
        label={withoutEmail ? 'New password' : 'Password'}
        name="password"
        autoComplete="new-password"
        value={password}
        onValue={setPassword}
        hint={passwordHint(password)}
        error={(tried ? wrong.password : undefined) ?? errorAt(action.error, 'password')}
      />
    </Form>
  )
}
