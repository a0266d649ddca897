/** How somebody gets in and out: registering, joining by a link, signing in, a new password, signing out. */
import { type ErrorCode, formatMoney, refuse } from '#contract'
import type { Link, Person } from '../../store/people.ts'
import { subjectOf } from './attempts.ts'
import { EMAIL, fields, PASSWORD, PASSWORD_NOW, SECRET } from './inputs.ts'
import { type Answer, type ApiRoute, type Call, route } from './route.ts'
import { LONGEST_MS } from './sessions.ts'
import { showAccount, showPerson, showTime } from './show.ts'
import type { AboutView, LinkPurposeView, SessionView } from './views.ts'

/** What every route can refuse with that makes a password's hash. */
const HASHES: readonly ErrorCode[] = ['too_many_attempts', 'overloaded']

export const PEOPLE_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/about',
    summary: 'What everybody may know of this gateway.',
    audience: 'anyone',
    answers: 'AboutView',
    handle: ({ parts, caller }) => {
      const body: AboutView = {
        version: parts.version,
        registration: parts.registration.mode,
        starting_credit: formatMoney(parts.registration.credit),
        base_url: parts.baseUrl(),
        secure: parts.origins()[0]?.startsWith('https:') ?? false,
        signed_in: caller.person !== null,
      }
      return { body }
    },
  }),
  route<object, object, { email: string; password: string }>({
    method: 'POST',
    path: '/api/register',
    summary: 'Makes an account and signs in, where everybody may.',
    audience: 'anyone',
    body: fields({ email: EMAIL, password: PASSWORD }),
    answers: 'SessionView',
    status: 201,
    errors: [...HASHES, 'registration_closed', 'conflict'],
    handle: register,
  }),
  route<object, object, { token: string }>({
    method: 'POST',
    path: '/api/link',
    summary: 'What a link is for, before it is used.',
    audience: 'anyone',
    body: fields({ token: SECRET }),
    answers: 'LinkPurposeView',
    errors: ['link_invalid', 'too_many_attempts'],
    handle: call => ({ body: purposeOf(call, findLink(call, call.body.token)) }),
  }),
  route<object, object, { token: string; email?: string; password: string }>({
    method: 'POST',
    path: '/api/join',
    summary: 'Uses an invitation: makes the person, and the account where it names none, and signs in.',
    audience: 'anyone',
    body: fields({ token: SECRET, 'email?': EMAIL, password: PASSWORD }),
    answers: 'SessionView',
    status: 201,
    errors: [...HASHES, 'link_invalid', 'registration_closed', 'conflict'],
    handle: join,
  }),
  route<object, object, { token: string; password: string }>({
    method: 'POST',
    path: '/api/reset',
    summary: "Uses a reset link: sets a new password, ends the person's sessions, and signs in.",
    audience: 'anyone',
    body: fields({ token: SECRET, password: PASSWORD }),
    answers: 'SessionView',
    errors: [...HASHES, 'link_invalid'],
    handle: async call => {
      findLink(call, call.body.token, 'reset')
      const password = await call.guard.passwords.hash(call.body.password)
      return signedIn(call, await call.parts.store.people.reset(call.body.token, password))
    },
  }),
  route<object, object, { email: string; password: string }>({
    method: 'POST',
    path: '/api/session',
    summary: 'Signs in.',
    audience: 'anyone',
    body: fields({ email: EMAIL, password: PASSWORD_NOW }),
    answers: 'SessionView',
    status: 201,
    errors: [...HASHES, 'wrong_credentials'],
    handle: async call => {
      const { email, password } = call.body
      const person = await checkPassword(call, email, password)
      if (!person) throw refuse('wrong_credentials')
      return signedIn(call, person)
    },
  }),
  route({
    method: 'GET',
    path: '/api/session',
    summary: 'Who is signed in.',
    audience: 'person',
    answers: 'SessionView',
    handle: call => {
      const { person, session } = signedInOnly(call)
      const createdAt = call.parts.store.people.findSession(session)?.createdAt
      if (createdAt === undefined) throw refuse('not_signed_in')
      return { body: sessionView(call, person, createdAt + LONGEST_MS) }
    },
  }),
  route({
    method: 'DELETE',
    path: '/api/session',
    summary: 'Signs out.',
    audience: 'person',
    answers: null,
    status: 204,
    handle: async call => {
      await call.parts.store.people.endSession(signedInOnly(call).session)
      return { status: 204, session: { end: true } }
    },
  }),
  route<object, object, { current: string; new: string }>({
    method: 'POST',
    path: '/api/password',
    summary: 'Changes the password, ends all sessions of the person, and begins a new one.',
    audience: 'person',
    body: fields({ current: PASSWORD_NOW, new: PASSWORD }),
    answers: 'SessionView',
    errors: [...HASHES, 'wrong_credentials'],
    handle: async call => {
      const { person } = signedInOnly(call)
      if (!(await checkPassword(call, person.email, call.body.current))) {
        throw refuse('wrong_credentials', { message: 'The current password is wrong.', param: 'current' })
      }
      await call.parts.store.people.setPassword(person.id, await call.guard.passwords.hash(call.body.new))
      return signedIn(call, person)
    },
  }),
]

async function register(call: Call<object, object, { email: string; password: string }>): Promise<Answer> {
  const { parts, guard, caller, body } = call
  const { mode, plan, credit } = parts.registration
  if (mode === 'closed') throw refuse('registration_closed', { message: 'No new accounts are made here.' })
  if (mode !== 'open') throw refuse('registration_closed')
  guard.registrationsByAddress.take(subjectOf(caller.address))
  checkFree(call, body.email)
  const { people } = parts.store
  const email = sameFor(body.email)
  const password = await guard.passwords.hash(body.password)
  const membership = { name: email, plan, credit }
  return signedIn(call, await people.create({ email, password, role: 'member', membership }))
}

async function join(call: Call<object, object, { token: string; email?: string; password: string }>): Promise<Answer> {
  const { parts, guard, body } = call
  const link = findLink(call, body.token, 'invitation')
  // Operators are let in even so: the first of them has nobody to ask.
  if (parts.registration.mode === 'closed' && link.accountId === null && link.role !== 'operator') {
    throw refuse('registration_closed', { message: 'No new accounts are made here.' })
  }
  const written = body.email ?? link.email
  if (written === null) {
    throw refuse('missing_required_parameter', { message: "Missing required parameter: 'email'.", param: 'email' })
  }
  const email = sameFor(written)
  if (link.email !== null && link.email !== email) {
    throw refuse('invalid_value', { message: 'This invitation is for another e-mail address.', param: 'email' })
  }
  checkFree(call, email)
  const password = await guard.passwords.hash(body.password)
  return signedIn(call, await parts.store.people.join(body.token, { email, password }))
}

/** An address in the one form in which the store keeps it. */
function sameFor(email: string): string {
  return email.normalize('NFC').toLowerCase()
}

/** Before the work of a hash; the store makes sure once more. */
function checkFree({ parts }: Call, email: string): void {
  if (!parts.store.people.findByEmail(email)) return
  throw refuse('conflict', {
    message: 'Somebody has this e-mail address already. Sign in, or ask the operator for a link to a new password.',
    param: 'email',
  })
}

/** A link that works; a try that finds none counts as one to sign in. */
function findLink(call: Call, token: string, kind?: Link['kind']): Link {
  const takeBack = call.guard.signInsByAddress.take(subjectOf(call.caller.address))
  const link = call.parts.store.people.findLink(token)
  if (!link || (kind !== undefined && link.kind !== kind)) throw refuse('link_invalid')
  takeBack()
  return link
}

function purposeOf({ parts }: Call, { kind, email, accountId, role }: Link): LinkPurposeView {
  const account = accountId === null ? null : (parts.store.findAccount(accountId)?.name ?? null)
  return { kind, email, account, role }
}

/**
 * The person of this address if it is their password. For an address that nobody has, the work is the same. Tries that were
 * right do not count, so that nobody locks themselves out by signing in often.
 */
async function checkPassword({ parts, guard, caller }: Call, email: string, password: string): Promise<Person | null> {
  const { people } = parts.store
  const known = people.findByEmail(email)
  // By the address as the store has it: another way to write it must not be another ten tries.
  const subject = known?.email ?? sameFor(email)
  const takeBack = [guard.signInsByAddress.take(subjectOf(caller.address)), guard.signInsByEmail.take(subject)]
  let verdict: { readonly right: boolean; readonly better?: string }
  try {
    verdict = await guard.passwords.verify(known?.password, password)
  } catch (error) {
    // Nothing was tried: there was no room.
    for (const each of takeBack) each()
    throw error
  }
  if (!known || !verdict.right) return null
  for (const each of takeBack) each()
  if (verdict.better !== undefined) await people.upgradePassword(known.id, verdict.better, known.password)
  return known
}

/** Begins a session of its own for whoever has just proved who they are; the one before it on this browser ends. */
async function signedIn(call: Call, person: Person): Promise<Answer> {
  const { secret, expiresAt } = await call.guard.sessions.begin(person, call.caller.session)
  return { body: sessionView(call, person, expiresAt), session: { begin: secret } }
}

function sessionView({ parts }: Call, person: Person, expiresAt: number): SessionView {
  const account = parts.store.findAccount(person.accountId)
  if (!account) throw refuse('not_found')
  return { person: showPerson(person, account.name), account: showAccount(account), expires_at: showTime(expiresAt) }
}

function signedInOnly({ caller }: Call): { readonly person: Person; readonly session: string } {
  if (!caller.person || caller.session === null) throw refuse('not_signed_in')
  return { person: caller.person, session: caller.session }
}
