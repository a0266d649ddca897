/** The sign-in page. */
import type { VNode } from 'preact'
import type { SessionView } from '../../api/views.ts'
import { api } from '../lib/api.ts'
import { emailError } from '../lib/password.ts'
import { useSessionState } from '../lib/session.tsx'
import { useForm } from '../lib/use-form.ts'
import { Form, Gate, PasswordField } from '../ui/index.ts'
import { EmailField } from './credentials.tsx'

export default function SignIn(): VNode {
  const { about, begin } = useSessionState()
  const form = useForm({
    initial: { email: '', password: '' },
    check: ({ email, password }) => ({
      email: emailError(email),
      password: password === '' ? 'Enter your password.' : '',
    }),
    send: async ({ email, password }) =>
      begin(await api.post<SessionView>('session', { email: email.trim(), password })),
  })
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
            <p class="small">Registration is by invitation only. Ask the operator of this gateway.</p>
          )}
          <p class="small">Forgot your password? An operator can send you a reset link.</p>
        </>
      }
    >
      <Form form={form} submit="Sign in" wide>
        <EmailField required {...form.field('email')} />
        <PasswordField label="Password" name="password" autoComplete="current-password" {...form.field('password')} />
      </Form>
    </Gate>
  )
}
