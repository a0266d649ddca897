/** The service for people: checks arguments, makes ids and secrets, sends operations to the writer, and reads what is committed. */
import type { KeyObject } from 'node:crypto'
import type { Clock } from '#contract'
import type { Database } from '../engine/database.ts'
import type { Ids } from '../ids.ts'
import { invalid } from '../mistakes.ts'
import { checkMoney, checkText } from '../money/preconditions.ts'
import type { Promised } from '../promised.ts'
import type { StoreReads } from '../store.ts'
import type { Writer } from '../writer.ts'
import { ACCOUNT_PREFIX } from './accounts.ts'
import { createDevices } from './devices.ts'
import { normalEmail } from './email.ts'
import { createLinkReader, LINK_PREFIX } from './links.ts'
import { createOperatorTokenReader } from './operator-tokens.ts'
import {
  type Membership,
  type NewLink,
  type NewPerson,
  PERSON_PREFIX,
  type People,
  type PeopleReads,
  type Role,
  TOKEN_PREFIX,
} from './people.ts'
import { createPersonReader, noPerson } from './person-rows.ts'
import { createSessionReader } from './sessions.ts'
import { createOperatorToken, createSecret, digest, isOperatorToken, isSecret, last4 } from './token.ts'

export interface PeopleParts {
  readonly reads: Promised<StoreReads>
  readonly writer: Writer
  /** The key under which the digests of secrets are made. */
  readonly hmacKey: KeyObject
  readonly ids: Ids
  readonly clock: Clock
}

const MINUTE_MS = 60_000
const USE_PREFIX = 'use_'
const EMAIL = /^[^\s@\p{C}]+@[^\s@\p{C}]+$/u
const MAX_EMAIL = 200
// The PHC string format is printable ASCII and begins with a dollar sign.
const PASSWORD_HASH = /^\$[\x21-\x7e]{8,500}$/

export function createPeople(parts: PeopleParts): People {
  return {
    ...parts.reads.people,
    ...createPersonService(parts),
    ...createSessionService(parts),
    ...createLinkService(parts),
    ...createTokenService(parts),
  }
}

/** Reads of people. Secrets are found by their digests. */
export function createPeopleReads(database: Database, hmacKey: KeyObject, clock: Clock): PeopleReads {
  const persons = createPersonReader(database)
  const devices = createDevices(persons, hmacKey, clock)
  const findSession = createSessionReader(database)
  const links = createLinkReader(database, clock)
  const tokens = createOperatorTokenReader(database, clock)
  return {
    find: persons.find,
    findByEmail: persons.findByEmail,
    list: persons.list,
    hasOperator: persons.hasOperator,
    findSession: secret => (isSecret(secret) ? findSession(sessionDigest(hmacKey, secret)) : undefined),
    createDevice: devices.create,
    findDevice: devices.find,
    findLink: token => (isSecret(token) ? links.find(linkDigest(hmacKey, token)) : undefined),
    getLink: links.get,
    links: links.list,
    findToken: secret => (isOperatorToken(secret) ? tokens.find(digest(hmacKey, secret)) : undefined),
    tokens: tokens.list,
    getToken: tokens.get,
  }
}

// Each kind of secret has its own prefix in its digest, so that one is never found among the others.
const linkDigest = (hmacKey: KeyObject, secret: string) => digest(hmacKey, `link:${secret}`)
const sessionDigest = (hmacKey: KeyObject, secret: string) => digest(hmacKey, `session:${secret}`)

type PersonService = Pick<
  People,
  'create' | 'join' | 'setPassword' | 'upgradePassword' | 'reset' | 'setRole' | 'remove'
>

function createPersonService({ reads, writer, hmacKey, ids }: PeopleParts): PersonService {
  const newIds = () => ({ id: ids.next(PERSON_PREFIX), newAccount: ids.next(ACCOUNT_PREFIX) })

  return {
    async create({ email, password, role, membership }) {
      checkPerson({ email, password })
      checkRole(role)
      checkMembership(membership)
      return writer.op('createPerson', { ...newIds(), email: normalEmail(email), password, role, membership })
    },
    async join(token, { email, password }) {
      checkPerson({ email, password })
      const person = { ...newIds(), email: normalEmail(email), password, digest: linkDigest(hmacKey, token) }
      return writer.op('joinByLink', person)
    },
    async setPassword(id, password, from) {
      checkHash(password)
      await writer.op('setPassword', { id, password, from: from ?? null })
    },
    async upgradePassword(id, password, from) {
      checkHash(password)
      await writer.op('upgradePassword', { id, password, from: from ?? null })
    },
    async reset(token, password) {
      checkHash(password)
      return writer.op('resetPassword', { digest: linkDigest(hmacKey, token), password, use: ids.next(USE_PREFIX) })
    },
    async setRole(id, role, by) {
      checkRole(role)
      return writer.op('setRole', { id, role, by: by ?? null })
    },
    async remove(id, by) {
      if ((await reads.people.find(id)) === undefined) throw noPerson(id)
      await writer.op('removePerson', { id, by: by ?? null })
    },
  }
}

type SessionService = Pick<People, 'createSession' | 'touchSession' | 'endSession' | 'endSessions'>

function createSessionService({ reads, writer, hmacKey, clock }: PeopleParts): SessionService {
  const digestOf = (secret: string) => sessionDigest(hmacKey, secret)
  return {
    async createSession(person, from) {
      const secret = createSecret()
      await writer.op('createSession', { digest: digestOf(secret), person, from: from ?? null })
      return secret
    },
    async touchSession(secret) {
      const found = await reads.people.findSession(secret)
      if (found === undefined || clock.now() - found.seenAt < MINUTE_MS) return
      await writer.op('touchSession', digestOf(secret))
    },
    async endSession(secret) {
      await writer.op('endSession', digestOf(secret))
    },
    async endSessions(person, except) {
      await writer.op('endSessions', { person, except: except === undefined ? null : digestOf(except) })
    },
  }
}

type LinkService = Pick<People, 'createLink' | 'revokeLink'>

function createLinkService({ reads, writer, hmacKey, ids, clock }: PeopleParts): LinkService {
  return {
    async createLink(link) {
      checkLink(link, clock.now())
      const [id, token] = [ids.next(LINK_PREFIX), createSecret()]
      const email = link.email === null ? null : normalEmail(link.email)
      await writer.op('createLink', { ...link, id, email, digest: linkDigest(hmacKey, token) })
      return { link: (await reads.people.getLink(id))!, token }
    },
    revokeLink: id => writer.op('revokeLink', id),
  }
}

type TokenService = Pick<People, 'createToken' | 'revokeToken'>

function createTokenService({ writer, hmacKey, ids, clock }: PeopleParts): TokenService {
  return {
    async createToken({ name, expiresAt, createdBy }) {
      checkText('token', 'name', name)
      checkText('token', 'createdBy', createdBy)
      if (expiresAt !== null) checkFuture('token', expiresAt, clock.now())
      const secret = createOperatorToken()
      const token = { id: ids.next(TOKEN_PREFIX), digest: digest(hmacKey, secret), last4: last4(secret) }
      return { token: await writer.op('createOperatorToken', { ...token, name, expiresAt, createdBy }), secret }
    },
    revokeToken: id => writer.op('revokeOperatorToken', id),
  }
}

function checkPerson({ email, password }: Pick<NewPerson, 'email' | 'password'>): void {
  checkEmail('person', email)
  checkHash(password)
}

function checkEmail(place: string, email: string): void {
  if (EMAIL.test(email) && EMAIL.test(normalEmail(email)) && normalEmail(email).length <= MAX_EMAIL) return
  throw invalid(
    `${place}: ${JSON.stringify(email)} is not an e-mail address; expected NAME@HOST, at most ${MAX_EMAIL} characters, without spaces.`,
  )
}

/** The message never has the value: a plain password that was passed by mistake must not reach a log. */
function checkHash(password: string): void {
  if (!PASSWORD_HASH.test(password)) throw invalid('person: the password is not a hash in PHC string format.')
}

function checkRole(role: Role): void {
  if (role !== 'member' && role !== 'operator') {
    throw invalid(`person: the role ${JSON.stringify(role)} is unknown; expected member or operator.`)
  }
}

function checkMembership(membership: Membership): void {
  if ('accountId' in membership) return
  checkText('account', 'name', membership.name)
  checkText('account', 'plan', membership.plan)
  checkMoney('account', 'credit', membership.credit)
}

function checkLink(link: NewLink, nowMs: number): void {
  checkRole(link.role)
  checkText('link', 'createdBy', link.createdBy)
  checkMoney('link', 'credit', link.credit)
  if (link.plan !== null) checkText('link', 'plan', link.plan)
  if (link.email !== null) checkEmail('link', link.email)
  checkFuture('link', link.expiresAt, nowMs)
  if ((link.kind === 'reset') !== (link.personId !== null)) {
    throw invalid('link: personId is required for a password-reset link and not allowed for an invitation.')
  }
}

function checkFuture(place: string, expiresAt: number, nowMs: number): void {
  if (Number.isSafeInteger(expiresAt) && expiresAt > nowMs) return
  throw invalid(`${place}: expiresAt ${expiresAt} is not in the future; expected milliseconds since the epoch.`)
}
