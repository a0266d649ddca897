/**
 * The rows of people: creates, changes and removes them. Each operation is one transaction and may be repeated, because the caller
 * makes the ids.
 */
import type { Clock, NanoUsd } from '#contract'
import type { Database, Row } from '../engine/database.ts'
import { conflict, invalid, noAccount, notFound } from '../mistakes.ts'
import type { LedgerOperations } from '../money/ledger.ts'
import type { AccountOperations } from './accounts.ts'
import type { Creators } from './creators.ts'
import { foldEmail, formerEmail } from './email.ts'
import type { PersonLinks } from './links.ts'
import type { PersonTokens } from './operator-tokens.ts'
import type { Membership, NewPerson, Person, PersonWithPassword, Role } from './people.ts'
import { passwordChanged, type SessionOperations } from './sessions.ts'

/** A new person's ids: `newAccount` is for an account that is made with the person. */
interface PersonIds {
  readonly id: string
  readonly newAccount: string
}

export interface CreatePerson extends NewPerson, PersonIds {}

export interface JoinByLink extends Pick<NewPerson, 'email' | 'password'>, PersonIds {
  readonly digest: Uint8Array
}

export interface ResetPassword {
  readonly digest: Uint8Array
  readonly password: string
  /** Identifies this use of the link, so that a repeat finds it. */
  readonly use: string
}

export interface PersonOperations {
  createPerson(person: CreatePerson): Person
  joinByLink(person: JoinByLink): Person
  setPassword(change: { readonly id: string; readonly password: string; readonly from: string | null }): void
  upgradePassword(change: { readonly id: string; readonly password: string; readonly from: string | null }): void
  resetPassword(reset: ResetPassword): Person
  setRole(change: { readonly id: string; readonly role: Role; readonly by: string | null }): Person
  removePerson(removal: { readonly id: string; readonly by: string | null }): void
}

/** Operations that the operations on people call in their transaction. */
export interface PersonParts {
  readonly accounts: AccountOperations
  readonly ledger: LedgerOperations
  readonly sessions: SessionOperations
  readonly links: PersonLinks
  readonly tokens: PersonTokens
  readonly creators: Creators
}

export interface PersonReader {
  find(id: string): Person | undefined
  findByEmail(email: string): PersonWithPassword | undefined
  passwordOf(id: string): string | undefined
  list(accountId?: string): readonly Person[]
  hasOperator(): boolean
}

const COLUMNS = 'id, email, account, role, created_at'
const DEFAULT_PLAN = 'default'
/** A name that is taken gets a number, and must stay within the limit of a name. */
const MAX_NAME_LENGTH = 190

export function createPersonOperations(database: Database, clock: Clock, parts: PersonParts): PersonOperations {
  const { sessions, links, tokens, creators } = parts
  const findById = database.prepare(`SELECT ${COLUMNS} FROM person WHERE id = ?`)
  const insert = createInsert(database, clock, parts)
  const passwordOf = database.prepare('SELECT password FROM person WHERE id = ?')
  const setPassword = database.prepare('UPDATE person SET password = ? WHERE id = ?')
  const upgradePassword = database.prepare(
    'UPDATE person SET password = ?1 WHERE id = ?2 AND password = coalesce(?3, password)',
  )
  const setRole = database.prepare('UPDATE person SET role = ? WHERE id = ?')
  const otherOperator = database.prepare("SELECT 1 FROM person WHERE role = 'operator' AND id <> ? LIMIT 1")
  const remove = database.prepare('DELETE FROM person WHERE id = ?')

  function find(id: string): Person | undefined {
    const row = findById.get(id)
    return row && toPerson(row)
  }

  function get(id: string): Person {
    const person = find(id)
    if (person === undefined) throw noPerson(id)
    return person
  }

  function create(person: CreatePerson, actor: string): Person {
    insert(person, actor)
    return get(person.id)
  }

  function isLastOperator({ id, role }: Person): boolean {
    return role === 'operator' && otherOperator.get(id) === undefined
  }

  /** Ends a former operator's links and tokens, which could invite another operator. */
  function endPowers(id: string): void {
    links.endMadeBy(id)
    tokens.endTokensOf(id)
  }

  function changePassword(id: string, password: string): Person {
    if (setPassword.run(password, id).changes === 0) throw noPerson(id)
    sessions.endSessions({ person: id, except: null })
    links.endResets(id)
    return get(id)
  }

  return {
    createPerson: person => find(person.id) ?? create(person, 'registration'),
    joinByLink(joining) {
      const { id, newAccount, digest, email, password } = joining
      const known = find(id)
      if (known !== undefined) return known
      const link = links.find(digest, 'invitation', id)
      if (link.email !== null && foldEmail(link.email) !== foldEmail(email)) {
        throw invalid(`This invitation is not for the address ${email}.`)
      }
      const { role, accountId, plan, credit, createdBy } = link
      const membership = accountId === null ? { name: email, plan: plan ?? DEFAULT_PLAN, credit } : { accountId }
      const person = create({ id, newAccount, email, password, role, membership }, createdBy)
      links.use(link.id, id)
      return person
    },
    setPassword({ id, password, from }) {
      const now = passwordOf.get(id)?.['password']
      // If the new password is stored already, this is a repeat.
      if (from !== null && now !== undefined && now !== from && now !== password) throw passwordChanged()
      changePassword(id, password)
    },
    upgradePassword: ({ id, password, from }) => void upgradePassword.run(password, id, from),
    resetPassword({ digest, password, use }) {
      const link = links.find(digest, 'reset', use)
      links.use(link.id, use)
      return changePassword(link.personId!, password)
    },
    setRole({ id, role, by }) {
      const person = get(id)
      // A repeat finds the role changed. It must not fail for an operator who made themselves a member.
      if (by !== null && person.role !== role) creators.check(by)
      if (role !== 'operator' && isLastOperator(person)) throw lastOperator(person)
      if (role !== 'operator') endPowers(id)
      setRole.run(role, id)
      return get(id)
    },
    removePerson({ id, by }) {
      const person = find(id)
      // This is a repeat: the caller has checked that the person existed.
      if (person === undefined) return
      if (by !== null) creators.check(by)
      if (isLastOperator(person)) throw lastOperator(person)
      sessions.endSessions({ person: id, except: null })
      endPowers(id)
      links.forget(id)
      remove.run(id)
    },
  }
}

/** Writes a new person, and an account that is made with the person. */
function createInsert(database: Database, clock: Clock, { accounts, ledger }: PersonParts) {
  const isTaken = database.prepare('SELECT 1 FROM person WHERE folded = ?')
  const put = database.prepare(
    'INSERT INTO person (id, email, folded, password, account, role, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)',
  )
  const isAccount = database.prepare('SELECT 1 FROM account WHERE id = ?')
  const isName = database.prepare('SELECT 1 FROM account WHERE name = ?')

  /** @param actor the giver of the account's first credit */
  function insert({ id, newAccount, email, password, role, membership }: CreatePerson, actor: string): void {
    const folded = foldEmail(email)
    if (isTaken.get(folded) !== undefined) throw conflict(`The address ${email} is taken by another person.`)
    put.run(id, email, folded, password, accountFor(membership, newAccount, actor), role, clock.now())
  }

  function accountFor(membership: Membership, newAccount: string, actor: string): string {
    if ('accountId' in membership) {
      if (isAccount.get(membership.accountId) === undefined) throw noAccount(membership.accountId)
      return membership.accountId
    }
    const { name, plan, credit } = membership
    const { id } = accounts.createAccount({ id: newAccount, name: freeName(name), plan })
    giveCredit(id, credit, actor)
    return id
  }

  function giveCredit(account: string, amount: NanoUsd, actor: string): void {
    if (amount === 0n) return
    ledger.credit({ account, amount, reference: `start of ${account}`, actor, note: 'credit to begin with' })
  }

  function freeName(wanted: string): string {
    // No name may begin like an id.
    const name = wanted.startsWith('acc_') ? `account ${wanted}` : wanted
    const short = [...name].slice(0, MAX_NAME_LENGTH).join('').trim()
    let free = short
    for (let number = 2; isName.get(free) !== undefined; number++) free = `${short} (${number})`
    return free
  }

  return insert
}

export function createPersonReader(database: Database): PersonReader {
  const byId = database.prepare(`SELECT ${COLUMNS} FROM person WHERE id = ?`)
  // Addresses of earlier versions may fold to the same one: prefer the person whose address is equal as written.
  const byEmail = database.prepare(
    `SELECT ${COLUMNS}, password FROM person WHERE folded = ? ORDER BY email <> ?, id LIMIT 1`,
  )
  const passwordById = database.prepare('SELECT password FROM person WHERE id = ?')
  const all = database.prepare(`SELECT ${COLUMNS} FROM person ORDER BY id`)
  const ofAccount = database.prepare(`SELECT ${COLUMNS} FROM person WHERE account = ? ORDER BY id`)
  const operator = database.prepare("SELECT 1 FROM person WHERE role = 'operator' LIMIT 1")
  return {
    find(id) {
      const row = byId.get(id)
      return row && toPerson(row)
    },
    findByEmail(email) {
      const row = byEmail.get(foldEmail(email), formerEmail(email))
      return row && { ...toPerson(row), password: row['password'] as string }
    },
    passwordOf: id => passwordById.get(id)?.['password'] as string | undefined,
    list: accountId => (accountId === undefined ? all.all() : ofAccount.all(accountId)).map(toPerson),
    hasOperator: () => operator.get() !== undefined,
  }
}

export function noPerson(id: string): Error {
  return notFound(`The person ${JSON.stringify(id)} does not exist.`)
}

function lastOperator({ email }: Person): Error {
  return conflict(`${email} is the only operator. Make another person an operator first.`)
}

/** Converts a row with `COLUMNS`. */
export function toPerson(row: Row): Person {
  return {
    id: row['id'] as string,
    email: row['email'] as string,
    accountId: row['account'] as string,
    role: row['role'] as Role,
    createdAt: row['created_at'] as number,
  }
}
