/** Signing in. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import type { SessionView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { emailError } from '../lib/password.ts'
import { useSigned } from '../lib/session.tsx'
import { useAction } from '../lib/use-resource.ts'
import { ErrorNote, errorAt, errorBeside, Form, Gate, PasswordField, TextField } from '../ui/index.ts'

export default function SignIn(): VNode {
  const { about, begin } = useSigned()
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const [tried, setTried] = useState(false)
  const action = useAction(async () => begin(await api.post<SessionView>('session', { email: email.trim(), password })))
  const wrong = {
    email: tried ? emailError(email) : undefined,
    password: tried && password === '' ? 'Enter your password.' : undefined,
  }
  const submit = (): void => {
    setTried(true)
    if (emailError(email) === undefined && password !== '') void action.run()
  }
  const beside = errorBeside(action.error, ['email', 'password'])
  return (
    <Gate
      title="Sign in to Tollgate"
      foot={
        <>
          {about.registration === 'open' ? (
            <p>
              New here? <a href="/register">Create an account</a>
            </p>
          ) : (
            <p class="small">Accounts are made by invitation. Ask the operator of this gateway.</p>
          )}
          <p class="small">Forgotten your password? The operator can send you a link to set a new one.</p>
        </>
      }
    >
      <Form onSubmit={submit} busy={action.busy} submit="Sign in" wide error={beside && <ErrorNote error={beside} />}>
        <TextField
          label="E-mail address"
          type="email"
          name="email"
          autocomplete="username"
          autocapitalize="off"
          spellcheck={false}
          required
          value={email}
          onValue={setEmail}
          error={wrong.email ?? errorAt(action.error, 'email')}
        />
        <PasswordField
          label="Password"
          name="password"
          autoComplete="current-password"
          value={password}
          onValue={setPassword}
          error={wrong.password ?? errorAt(action.error, 'password')}
        />
      </Form>
    </Gate>
  )
}
