/**
 * People who use the dashboard, what proves who they are, and the links that let them in: as the account API sees them.
 * Secrets (passwords, sessions, links, tokens) are digested by the caller or here; none is ever stored as it is.
 */
import type { NanoUsd } from '#contract'
import type { Promised } from '../promised.ts'

/** How the ids of persons and of operators' tokens begin: nobody else is named so. */
export const PERSON_PREFIX = 'per_'
export const TOKEN_PREFIX = 'tok_'

/** A person has so many sessions at most: one more ends the oldest. */
export const MAX_SESSIONS = 20

/** A session ends so long after it began, however much it is used; the store keeps none for longer. */
export const MAX_SESSION_MS = 8 * 3_600_000

/** A browser in which somebody has signed in is known for so long. */
export const DEVICE_MS = 90 * 24 * 3_600_000

/** A member sees an account; an operator also sees all the others and what the gateway does. */
export type Role = 'member' | 'operator'

/** A person with a password. The e-mail address is a name to sign in with: nothing is ever sent to it. */
export interface Person {
  readonly id: string
  /** As email.ts keeps it: in lower case. No two are equal when they are folded, but for those of earlier versions. */
  readonly email: string
  readonly accountId: string
  readonly role: Role
  readonly createdAt: number
}

export interface PersonWithPassword extends Person {
  /** Algorithm, parameters, salt and hash in one text (PHC string format). */
  readonly password: string
}

/** Which account a new person belongs to: one that is there, or one made with them. */
export type Membership =
  | { readonly accountId: string }
  | { readonly name: string; readonly plan: string; readonly credit: NanoUsd }

export interface NewPerson {
  readonly email: string
  readonly password: string
  readonly role: Role
  readonly membership: Membership
}

/** A link that works once: it lets a new person in, or lets one choose a new password. */
export interface Link {
  readonly id: string
  readonly kind: 'invitation' | 'reset'
  /** Invitations: the role of whom it lets in. */
  readonly role: Role
  /** Invitations: the account they join; null: one is made with them. */
  readonly accountId: string | null
  /** Invitations that make an account: what it begins with. */
  readonly plan: string | null
  readonly credit: NanoUsd
  /** Invitations: the only address that may use it; null: any. Resets: the person's. */
  readonly email: string | null
  /** Resets: whose. */
  readonly personId: string | null
  readonly createdAt: number
  readonly expiresAt: number
  /** Who made it: a person's id, a token's id, `cli:USER`, `quick-start`. */
  readonly createdBy: string
}

export type NewLink = Pick<
  Link,
  'kind' | 'role' | 'accountId' | 'plan' | 'credit' | 'email' | 'personId' | 'createdBy'
> & {
  readonly expiresAt: number
}

export interface Session {
  readonly personId: string
  readonly createdAt: number
  /** When it was last used, to the minute: not every request is worth a write. */
  readonly seenAt: number
}

/** A browser in which a person has signed in with the password that they have now. */
export interface Device {
  /** Of the browser: another one each time. */
  readonly id: string
  readonly personId: string
}

/** A machine's way to the operators' API (a payment webhook, a script). */
export interface OperatorToken {
  readonly id: string
  readonly name: string
  readonly last4: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly createdBy: string
}

/** What is read of people. */
export interface PeopleReads {
  find(id: string): Person | undefined
  /** However the address is written. */
  findByEmail(email: string): PersonWithPassword | undefined
  /** The oldest first; of one account, or all of them. */
  list(accountId?: string): readonly Person[]
  /** Whether anybody is an operator yet. */
  hasOperator(): boolean
  /** By its secret; undefined when there is none, or its person is gone. Says nothing about its age. */
  findSession(secret: string): Session | undefined
  /**
   * A signed text by which a browser is known to have signed in: for `DEVICE_MS`, or until the password changes. Undefined
   * when there is no such person.
   */
  createDevice(personId: string): string | undefined
  /** Undefined when the text was not made here, is past, or its person has another password by now. */
  findDevice(text: string): Device | undefined
  /** By its secret; undefined when it was never made, is used, revoked or past. */
  findLink(token: string): Link | undefined
  /** By its id, whether it still works or not. */
  getLink(id: string): Link | undefined
  /** Those that still work, the newest first. */
  links(): readonly Link[]
  /** By its secret; undefined when it was never made, is revoked or past. */
  findToken(secret: string): OperatorToken | undefined
  tokens(): readonly OperatorToken[]
  /** By its id, whether it still works or not: for who asks who made something. */
  getToken(id: string): OperatorToken | undefined
}

/**
 * Mistakes of a caller are `StoreError`s; its `code` says which one where the account API has to know.
 *
 * Who asks for what only operators may (`createdBy`, `by`) is looked at in the same transaction: a person who is not there
 * or no operator, or a token that is revoked or past, is `forbidden`. Whoever is not named by an id of theirs (`cli:USER`)
 * may.
 */
export interface People extends Promised<PeopleReads> {
  /**
   * Makes the person, and with them the account and its credit where they say so; all or nothing. `conflict` when the
   * address is taken. An account's name that is taken gets a number: `ada@example.com (2)`.
   */
  create(person: NewPerson): Promise<Person>
  /**
   * The same by an invitation, which is used up in the same transaction: `link_invalid` when it was, or is revoked or past;
   * `invalid` when it is for another address. An account that is made is named by the address.
   */
  join(token: string, person: Pick<NewPerson, 'email' | 'password'>): Promise<Person>
  /**
   * Ends all sessions of the person, and the links that would set it once more.
   *
   * @param from The hash that it replaces; `conflict` when the password has been changed meanwhile.
   */
  setPassword(id: string, password: string, from?: string): Promise<void>
  /**
   * A better hash of the same password: sessions go on.
   *
   * @param from The hash that it replaces; when the password has been changed meanwhile, nothing happens.
   */
  upgradePassword(id: string, password: string, from?: string): Promise<void>
  /** Sets the password of the link's person, uses the link up and ends their sessions; all or nothing. */
  reset(token: string, password: string): Promise<Person>
  /**
   * `conflict` when it would leave no operator. The links and tokens that a former operator has made end, and the links that
   * were made with those tokens.
   *
   * @param by Who asks: the id of a person or of a token.
   */
  setRole(id: string, role: Role, by?: string): Promise<Person>
  /**
   * Ends their sessions, and whatever ends when somebody is no operator any more; the account stays. `conflict` for the last
   * operator.
   *
   * @param by Who asks: the id of a person or of a token.
   */
  remove(id: string, by?: string): Promise<void>

  /**
   * Answers with the session's secret: the only time it is seen. One more than `MAX_SESSIONS` ends the oldest.
   *
   * @param from The hash of the password that was shown; `conflict` when it has been changed meanwhile.
   */
  createSession(personId: string, from?: string): Promise<string>
  /** It was used now. */
  touchSession(secret: string): Promise<void>
  endSession(secret: string): Promise<void>
  /** All of a person's but one. */
  endSessions(personId: string, except?: string): Promise<void>

  /** Answers with the link's secret: the only time it is seen. */
  createLink(link: NewLink): Promise<{ readonly link: Link; readonly token: string }>
  revokeLink(id: string): Promise<void>

  createToken(token: {
    readonly name: string
    readonly expiresAt: number | null
    readonly createdBy: string
  }): Promise<{ readonly token: OperatorToken; readonly secret: string }>
  /** Ends the links that were made with it, too. */
  revokeToken(id: string): Promise<void>
}
