/** Registration, joining by a link, sign-in, password changes, sign-out. */
import { hash } from 'node:crypto'
import { addressGroup, type ErrorCode, formatMoney, refuse } from '#contract'
import { StoreError } from '../store/error.ts'
import { foldEmail, normalEmail } from '../store/people/email.ts'
import type { Link, Person } from '../store/people/people.ts'
import { StoreUnavailable } from '../store/store.ts'
import { afterWriting } from './after-writing.ts'
import { type Try, takeAll } from './attempts.ts'
import { refuseGuessable } from './guessable.ts'
import { EMAIL, PASSWORD, PASSWORD_NOW, SECRET } from './inputs.ts'
import { type Answer, type ApiRoute, type Call, route } from './route.ts'
import { shape } from './schema.ts'
import { refuseMixedScripts } from './scripts.ts'
import { MAX_MS } from './sessions.ts'
import { showAccount, showPerson, showTime } from './show.ts'
import { checkPassword, knownClient, placesOf, signInTrial } from './trial.ts'
import { isEmail } from './validate.ts'
import type { AboutView, LinkPurposeView, SessionView } from './views.ts'

/** The error codes of routes that hash a password. */
const HASHES: readonly ErrorCode[] = ['too_many_attempts', 'overloaded']

export const PEOPLE_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/about',
    summary: 'Public facts of this gateway.',
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
  route({
    method: 'POST',
    path: '/api/register',
    summary: 'Creates an account and signs in, if registration is open.',
    audience: 'anyone',
    body: shape({ email: EMAIL, password: PASSWORD }),
    answers: 'SessionView',
    status: 201,
    errors: [...HASHES, 'registration_closed', 'conflict'],
    handle: register,
  }),
  route({
    method: 'POST',
    path: '/api/link',
    summary: 'The purpose of a link, before its use.',
    audience: 'anyone',
    body: shape({ token: SECRET }),
    answers: 'LinkPurposeView',
    errors: ['link_invalid', 'too_many_attempts'],
    handle: async call => ({ body: await purposeOf(call, await findLink(call, call.body.token)) }),
  }),
  route({
    method: 'POST',
    path: '/api/join',
    summary: 'Uses an invitation: creates the person, creates the account if it names none, and signs in.',
    audience: 'anyone',
    body: shape({ token: SECRET, 'email?': EMAIL, password: PASSWORD }),
    answers: 'SessionView',
    status: 201,
    errors: [...HASHES, 'link_invalid', 'registration_closed', 'conflict'],
    handle: join,
  }),
  route({
    method: 'POST',
    path: '/api/reset',
    summary: "Uses a reset link: sets a new password, ends the person's sessions, and signs in.",
    audience: 'anyone',
    body: shape({ token: SECRET, password: PASSWORD }),
    answers: 'SessionView',
    errors: [...HASHES, 'link_invalid', 'conflict'],
    handle: async call => {
      const { personId, email } = await findLink(call, call.body.token, 'reset')
      refuseGuessable(call.body.password, email ?? '', 'password')
      const password = await call.guard.passwords.hash(call.body.password, knownClient(call, personId ?? ''))
      const person = await call.parts.store.people.reset(call.body.token, password)
      return afterWriting('The password is set, but you are not signed in. Sign in with it.', () =>
        startSession(call, person, password),
      )
    },
  }),
  route({
    method: 'POST',
    path: '/api/session',
    summary: 'Signs in.',
    audience: 'anyone',
    body: shape({ email: EMAIL, password: PASSWORD_NOW }),
    answers: 'SessionView',
    status: 201,
    errors: [...HASHES, 'wrong_credentials'],
    handle: call => signIn(call),
  }),
  route({
    method: 'GET',
    path: '/api/session',
    summary: 'The person who is signed in.',
    audience: 'person',
    answers: 'SessionView',
    handle: async call => {
      const { person, session } = requireSession(call)
      const createdAt = (await call.parts.store.people.findSession(session))?.createdAt
      if (createdAt === undefined) throw refuse('not_signed_in')
      return { body: await sessionView(call, person, createdAt + MAX_MS) }
    },
  }),
  route({
    method: 'DELETE',
    path: '/api/session',
    summary: 'Signs out.',
    audience: 'person',
    isUnlimited: true,
    answers: null,
    status: 204,
    handle: async call => {
      await call.parts.store.people.endSession(requireSession(call).session)
      return { status: 204, session: { end: true } }
    },
  }),
  route({
    method: 'POST',
    path: '/api/password',
    summary: 'Changes the password, ends all sessions of the person, and starts a new one.',
    audience: 'person',
    body: shape({ current: PASSWORD_NOW, new: PASSWORD }),
    answers: 'SessionView',
    errors: [...HASHES, 'wrong_credentials', 'conflict'],
    handle: changePassword,
  }),
]

async function register(call: Call<object, object, { email: string; password: string }>): Promise<Answer> {
  const { parts, guard, body } = call
  const { mode, plan, credit } = parts.registration
  if (mode === 'closed') throw refuse('registration_closed', { message: 'No new accounts are made here.' })
  if (mode !== 'open') throw refuse('registration_closed')
  const email = registrationEmail(body.email)
  refuseGuessable(body.password, email, 'password')
  const takeBack = await takeRegistration(call)
  let person: Person
  let password: string
  try {
    await checkFree(call, body.email)
    password = await guard.passwords.hash(body.password, { by: placesOf(call, email), isStranger: true })
    const membership = { name: email, plan, credit }
    person = await parts.store.people.create({ email, password, role: 'member', membership })
  } catch (error) {
    // No account was created. The attempt still counts for the address.
    takeBack()
    throw error
  }
  return afterWriting('The account is made, but you are not signed in. Sign in.', () =>
    startSession(call, person, password),
  )
}

/**
 * Checks the limit of the address first: an address above its limit must not take from the limit of all, not even for a moment.
 */
async function takeRegistration({ parts, guard, caller }: Call): Promise<() => void> {
  const { replicas } = parts.store
  const takeBackAddress = await takeAll([[guard.registrationsByAddress, addressGroup(caller.address)]], replicas)
  try {
    return await takeAll([[guard.registrations, 'all']], replicas)
  } catch (error) {
    takeBackAddress()
    throw error
  }
}

async function join(call: Call<object, object, { token: string; email?: string; password: string }>): Promise<Answer> {
  const { parts, guard, caller, body } = call
  const link = await findLink(call, body.token, 'invitation')
  // An invitation for an operator works although registration is closed: no other operator can invite the first one.
  if (parts.registration.mode === 'closed' && link.accountId === null && link.role !== 'operator') {
    throw refuse('registration_closed', { message: 'No new accounts are made here.' })
  }
  const written = body.email ?? link.email
  if (written === null) {
    throw refuse('missing_required_parameter', { message: "Missing required parameter: 'email'.", param: 'email' })
  }
  const email = link.email === null ? registrationEmail(written) : normalEmail(written)
  if (link.email !== null && foldEmail(link.email) !== foldEmail(email)) {
    throw refuse('invalid_value', { message: 'This invitation is for another e-mail address.', param: 'email' })
  }
  refuseGuessable(body.password, email, 'password')
  // With a link for any address, a client could find out which addresses exist. So such a try counts as a registration.
  const asks: Try[] = link.email === null ? [[guard.registrationsByAddress, addressGroup(caller.address)]] : []
  const takeBack = await takeAll(asks, parts.store.replicas)
  await checkFree(call, email)
  takeBack()
  const password = await guard.passwords.hash(body.password, knownClient(call, email))
  const person = await parts.store.people.join(body.token, { email, password })
  return afterWriting('You have joined, but you are not signed in. Sign in.', () =>
    startSession(call, person, password),
  )
}

/** @param again whether to retry if the password changes before the session starts */
async function signIn(call: Call<object, object, { email: string; password: string }>, again = true): Promise<Answer> {
  const { body, parts } = call
  const known = await parts.store.people.findByEmail(body.email)
  // Counted by the normalized address: another spelling must not give ten more attempts.
  const email = known?.email ?? foldEmail(body.email)
  const trial = await signInTrial(call, known, email)
  const verdict = await checkPassword(call, known, { password: body.password, ...trial })
  if (!known || !verdict.right) {
    if (known) call.note({ person: known.id })
    throw refuse('wrong_credentials')
  }
  try {
    return await startSession(call, known, known.password, verdict.better)
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'conflict')) throw error
    if (again) return signIn(call, false)
    throw refuse('wrong_credentials')
  }
}

/** Stores the password with new parameters. The sign-in does not fail if that fails. */
async function upgrade({ parts }: Call, id: string, better: string, from: string): Promise<void> {
  try {
    await parts.store.people.upgradePassword(id, better, from)
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error
    parts.log.warn({ err: error }, 'a better hash of a password could not be written')
  }
}

async function changePassword(call: Call<object, object, { current: string; new: string }>): Promise<Answer> {
  const { guard, body, parts } = call
  const { people } = parts.store
  const { person, session } = requireSession(call)
  refuseGuessable(body.new, person.email, 'new')
  const known = await people.findByEmail(person.email)
  const { right } = await checkPassword(call, known, {
    password: body.current,
    client: knownClient(call, person.email),
    // Counted by session, not by address: other clients could use up the attempts of the owner.
    wrong: [[guard.changesBySession, hash('sha256', session, 'base64')]],
    all: [[guard.hashesByEmail, person.email]],
  })
  if (!known || !right) {
    throw refuse('wrong_credentials', { message: 'The current password is wrong.', param: 'current' })
  }
  const password = await guard.passwords.hash(body.new, knownClient(call, person.email))
  // Only if the password is still the one that was checked: of two changes at once, one fails.
  await people.setPassword(person.id, password, known.password)
  return afterWriting('The password is changed, but you are not signed in. Sign in with the new one.', () =>
    startSession(call, person, password),
  )
}

/** The normalized address of a registration. */
function registrationEmail(text: string): string {
  const email = normalEmail(text)
  if (!isEmail(email) || /\p{Default_Ignorable_Code_Point}/u.test(email)) {
    throw refuse('invalid_value', { message: 'This e-mail address is not valid.', param: 'email' })
  }
  refuseMixedScripts(email)
  return email
}

/** Checked before the work of a hash; the store checks it again. */
async function checkFree({ parts }: Call, email: string): Promise<void> {
  if (!(await parts.store.people.findByEmail(email))) return
  throw refuse('conflict', {
    message: 'This e-mail address is already in use. Sign in, or ask the operator for a password-reset link.',
    param: 'email',
  })
}

/** A valid link. An invalid one counts as an attempt to sign in, in this process only: 256 bits cannot be guessed. */
async function findLink(call: Call, token: string, kind?: Link['kind']): Promise<Link> {
  const takeBack = call.guard.signInsByAddress.take(addressGroup(call.caller.address))
  const link = await call.parts.store.people.findLink(token)
  if (!link || (kind !== undefined && link.kind !== kind)) throw refuse('link_invalid')
  takeBack()
  return link
}

async function purposeOf({ parts }: Call, { kind, email, accountId, role, credit }: Link): Promise<LinkPurposeView> {
  const account = accountId === null ? null : ((await parts.store.findAccount(accountId))?.name ?? null)
  return { kind, email, account, role, credit: formatMoney(credit) }
}

/**
 * Starts a session for an authenticated person, and ends the previous one in this browser.
 *
 * @param better a hash of the password with new parameters, which is written after the start of the session
 */
async function startSession(call: Call, person: Person, proof: string, better?: string): Promise<Answer> {
  const { guard, caller } = call
  const { secret, expiresAt } = await guard.sessions.begin(person, caller.session, proof)
  if (better !== undefined) await upgrade(call, person.id, better, proof)
  // Last, because the device cookie depends on the stored hash.
  const device = await guard.known.remember(person.id, caller.address)
  return { body: await sessionView(call, person, expiresAt), session: { begin: secret, device } }
}

async function sessionView({ parts }: Call, person: Person, expiresAt: number): Promise<SessionView> {
  const account = await parts.store.findAccount(person.accountId)
  if (!account) throw refuse('not_found')
  return { person: showPerson(person, account.name), account: showAccount(account), expires_at: showTime(expiresAt) }
}

function requireSession({ caller }: Call): { readonly person: Person; readonly session: string } {
  if (!caller.person || caller.session === null) throw refuse('not_signed_in')
  return { person: caller.person, session: caller.session }
}
