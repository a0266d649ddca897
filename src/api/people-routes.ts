/** How somebody gets in and out: registering, joining by a link, signing in, a new password, signing out. */
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
import { checkPassword, familiar, placesOf, signInTrial } from './trial.ts'
import { isEmail } from './validate.ts'
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
  route({
    method: 'POST',
    path: '/api/register',
    summary: 'Makes an account and signs in, where everybody may.',
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
    summary: 'What a link is for, before it is used.',
    audience: 'anyone',
    body: shape({ token: SECRET }),
    answers: 'LinkPurposeView',
    errors: ['link_invalid', 'too_many_attempts'],
    handle: async call => ({ body: await purposeOf(call, await findLink(call, call.body.token)) }),
  }),
  route({
    method: 'POST',
    path: '/api/join',
    summary: 'Uses an invitation: makes the person, and the account where it names none, and signs in.',
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
      const password = await call.guard.passwords.hash(call.body.password, familiar(call, personId ?? ''))
      const person = await call.parts.store.people.reset(call.body.token, password)
      return afterWriting('The password is set, but you are not signed in. Sign in with it.', () =>
        signedIn(call, person, password),
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
    summary: 'Who is signed in.',
    audience: 'person',
    answers: 'SessionView',
    handle: async call => {
      const { person, session } = signedInOnly(call)
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
      await call.parts.store.people.endSession(signedInOnly(call).session)
      return { status: 204, session: { end: true } }
    },
  }),
  route({
    method: 'POST',
    path: '/api/password',
    summary: 'Changes the password, ends all sessions of the person, and begins a new one.',
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
  const email = chosen(body.email)
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
    // No account was made. That somebody tried is still counted, for the address.
    takeBack()
    throw error
  }
  return afterWriting('The account is made, but you are not signed in. Sign in.', () =>
    signedIn(call, person, password),
  )
}

/** The address first: who has used up what it has takes nothing of what everybody has together, not even for a moment. */
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
  // Operators are let in even so: the first of them has nobody to ask.
  if (parts.registration.mode === 'closed' && link.accountId === null && link.role !== 'operator') {
    throw refuse('registration_closed', { message: 'No new accounts are made here.' })
  }
  const written = body.email ?? link.email
  if (written === null) {
    throw refuse('missing_required_parameter', { message: "Missing required parameter: 'email'.", param: 'email' })
  }
  const email = link.email === null ? chosen(written) : normalEmail(written)
  if (link.email !== null && foldEmail(link.email) !== foldEmail(email)) {
    throw refuse('invalid_value', { message: 'This invitation is for another e-mail address.', param: 'email' })
  }
  refuseGuessable(body.password, email, 'password')
  // Whoever has a link that is for anybody could ask with it who is here: that counts as registering does.
  const asks: Try[] = link.email === null ? [[guard.registrationsByAddress, addressGroup(caller.address)]] : []
  const takeBack = await takeAll(asks, parts.store.replicas)
  await checkFree(call, email)
  takeBack()
  const password = await guard.passwords.hash(body.password, familiar(call, email))
  const person = await parts.store.people.join(body.token, { email, password })
  return afterWriting('You have joined, but you are not signed in. Sign in.', () => signedIn(call, person, password))
}

/** @param again Whether to look once more, when the password is another one by the time that the session begins. */
async function signIn(call: Call<object, object, { email: string; password: string }>, again = true): Promise<Answer> {
  const { body, parts } = call
  const known = await parts.store.people.findByEmail(body.email)
  // By the address as the store has it: another way to write it must not be another ten tries.
  const email = known?.email ?? foldEmail(body.email)
  const trial = await signInTrial(call, known, email)
  const verdict = await checkPassword(call, known, { password: body.password, ...trial })
  if (!known || !verdict.right) {
    if (known) call.note({ person: known.id })
    throw refuse('wrong_credentials')
  }
  try {
    return await signedIn(call, known, known.password, verdict.better)
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'conflict')) throw error
    if (again) return signIn(call, false)
    throw refuse('wrong_credentials')
  }
}

/** The same password under better parameters; the sign-in does not fail for it. */
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
  const { person, session } = signedInOnly(call)
  refuseGuessable(body.new, person.email, 'new')
  const known = await people.findByEmail(person.email)
  const { right } = await checkPassword(call, known, {
    password: body.current,
    whose: familiar(call, person.email),
    // Not by the address that strangers can try too: they would keep the owner from changing what they guess at.
    wrong: [[guard.changesBySession, hash('sha256', session, 'base64')]],
    all: [[guard.hashesByEmail, person.email]],
  })
  if (!known || !right) {
    throw refuse('wrong_credentials', { message: 'The current password is wrong.', param: 'current' })
  }
  const password = await guard.passwords.hash(body.new, familiar(call, person.email))
  // Only in place of the one that was shown: an old password does not win against its own change.
  await people.setPassword(person.id, password, known.password)
  return afterWriting('The password is changed, but you are not signed in. Sign in with the new one.', () =>
    signedIn(call, person, password),
  )
}

/** An address for somebody new, who chose it without an operator, in the form in which the store keeps it. */
function chosen(text: string): string {
  const email = normalEmail(text)
  if (!isEmail(email) || /\p{Default_Ignorable_Code_Point}/u.test(email)) {
    throw refuse('invalid_value', { message: 'This is not an e-mail address that can be used here.', param: 'email' })
  }
  refuseMixedScripts(email)
  return email
}

/** Before the work of a hash; the store makes sure once more. */
async function checkFree({ parts }: Call, email: string): Promise<void> {
  if (!(await parts.store.people.findByEmail(email))) return
  throw refuse('conflict', {
    message: 'Somebody has this e-mail address already. Sign in, or ask the operator for a link to a new password.',
    param: 'email',
  })
}

/** A link that works; a try that finds none counts as one to sign in, in this process: nobody guesses 256 bits. */
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
 * Begins a session of its own for whoever has just proved who they are; the one before it on this browser ends.
 *
 * @param better A better hash of the password: written once the session has begun.
 */
async function signedIn(call: Call, person: Person, proof: string, better?: string): Promise<Answer> {
  const { guard, caller } = call
  const { secret, expiresAt } = await guard.sessions.begin(person, caller.session, proof)
  if (better !== undefined) await upgrade(call, person.id, better, proof)
  // Last, because it is good for the hash that is stored by now.
  const device = await guard.known.remember(person.id, caller.address)
  return { body: await sessionView(call, person, expiresAt), session: { begin: secret, device } }
}

async function sessionView({ parts }: Call, person: Person, expiresAt: number): Promise<SessionView> {
  const account = await parts.store.findAccount(person.accountId)
  if (!account) throw refuse('not_found')
  return { person: showPerson(person, account.name), account: showAccount(account), expires_at: showTime(expiresAt) }
}

function signedInOnly({ caller }: Call): { readonly person: Person; readonly session: string } {
  if (!caller.person || caller.session === null) throw refuse('not_signed_in')
  return { person: caller.person, session: caller.session }
}
