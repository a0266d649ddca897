/**
 * People who use the dashboard, with their credentials and links, for the account API. The store keeps no secret, only digests: the caller
 * hashes passwords, and the store digests the secrets of sessions, links and tokens.
 */
import type { NanoUsd } from '#contract'
import type { Promised } from '../promised.ts'

/** Prefixes of the ids of people and of operators' tokens. No other ids begin like this. */
export const PERSON_PREFIX = 'per_'
export const TOKEN_PREFIX = 'tok_'

/** Maximum number of sessions of a person: one more ends the oldest. */
export const MAX_SESSIONS = 20

/** Maximum length of a session, however much it is used. The store keeps none for longer. */
export const MAX_SESSION_MS = 8 * 3_600_000

/** How long a browser in which a person has signed in is remembered. */
export const DEVICE_MS = 90 * 24 * 3_600_000

/** A member sees one account. An operator also sees all other accounts and the state of the gateway. */
export type Role = 'member' | 'operator'

/** A person with a password. The e-mail address is a name to sign in with; mail is never sent to it. */
export interface Person {
  readonly id: string
  /** In the form that email.ts stores, in lower case. No two are equal when folded, except addresses from earlier versions. */
  readonly email: string
  readonly accountId: string
  readonly role: Role
  readonly createdAt: number
}

export interface PersonWithPassword extends Person {
  /** Algorithm, parameters, salt and hash in one text (PHC string format). */
  readonly password: string
}

/** The account of a new person: an existing one, or a new one with this name. */
export type Membership =
  | { readonly accountId: string }
  | { readonly name: string; readonly plan: string; readonly credit: NanoUsd }

export interface NewPerson {
  readonly email: string
  readonly password: string
  readonly role: Role
  readonly membership: Membership
}

/** A one-time link: an invitation for a new person, or a link to choose a new password. */
export interface Link {
  readonly id: string
  readonly kind: 'invitation' | 'reset'
  /** Invitations: the role of the new person. */
  readonly role: Role
  /** Invitations: the account to join; null: a new one is made. */
  readonly accountId: string | null
  /** Invitations that make an account: its plan and its credit. */
  readonly plan: string | null
  readonly credit: NanoUsd
  /** Invitations: the only address that may use it; null: any. Resets: the person's address. */
  readonly email: string | null
  /** Resets: the person. */
  readonly personId: string | null
  readonly createdAt: number
  readonly expiresAt: number
  /** The creator: a person's id, a token's id, `cli:USER` or `quick-start`. */
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
  /** The last use, to the minute, so that not every request causes a write. */
  readonly seenAt: number
}

/** A browser in which a person has signed in with the current password. */
export interface Device {
  /** The browser's id: a new one after each sign-in. */
  readonly id: string
  readonly personId: string
}

/** A token with which a program (a payment webhook, a script) calls the operators' API. */
export interface OperatorToken {
  readonly id: string
  readonly name: string
  readonly last4: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly createdBy: string
}

export interface PeopleReads {
  find(id: string): Person | undefined
  /** Finds the address in any spelling that folds to the same one. */
  findByEmail(email: string): PersonWithPassword | undefined
  /** Oldest first; of one account, or all people. */
  list(accountId?: string): readonly Person[]
  hasOperator(): boolean
  /** Finds a session by its secret; undefined if it does not exist or its person was removed. Does not check its age. */
  findSession(secret: string): Session | undefined
  /** A signed text that identifies a browser for `DEVICE_MS`, or until the password changes. Undefined if the person does not exist. */
  createDevice(personId: string): string | undefined
  /** Undefined if the text was not made here or has expired, or if the password has changed. */
  findDevice(text: string): Device | undefined
  /** Finds a link by its secret; undefined if it does not exist, was used, was revoked or has expired. */
  findLink(token: string): Link | undefined
  /** Finds a link by its id, whether it still works or not. */
  getLink(id: string): Link | undefined
  /** Links that still work, newest first. */
  links(): readonly Link[]
  /** Finds a token by its secret; undefined if it does not exist, was revoked or has expired. */
  findToken(secret: string): OperatorToken | undefined
  tokens(): readonly OperatorToken[]
  /** Finds a token by its id, whether it still works or not: to show who made something. */
  getToken(id: string): OperatorToken | undefined
}

/**
 * Mistakes of a caller are `StoreError`s, with a `code` where the account API needs one.
 *
 * Where only operators may act, the operation checks the actor (`createdBy`, `by`) in its transaction. `forbidden`: the person does not
 * exist or is not an operator, or the token was revoked or has expired. An actor without an id in the store (`cli:USER`) passes.
 */
export interface People extends Promised<PeopleReads> {
  /**
   * Creates a person, and if requested an account with credit, in one transaction. `conflict` if the address is taken. If the
   * account's name is taken, it gets a number: `ada@example.com (2)`.
   */
  create(person: NewPerson): Promise<Person>
  /**
   * The same with an invitation, which is used up in the same transaction. `link_invalid` if it was used or revoked or has expired;
   * `invalid` if it is for another address. A new account is named by the address.
   */
  join(token: string, person: Pick<NewPerson, 'email' | 'password'>): Promise<Person>
  /**
   * Sets the password; ends all sessions of the person and the links that could set it again.
   *
   * @param from the hash that it replaces; `conflict` if the password was changed meanwhile
   */
  setPassword(id: string, password: string, from?: string): Promise<void>
  /**
   * Stores a better hash of the same password; sessions continue.
   *
   * @param from the hash that it replaces; if the password was changed meanwhile, nothing happens
   */
  upgradePassword(id: string, password: string, from?: string): Promise<void>
  /** Sets the password of the link's person, uses up the link and ends the sessions, in one transaction. */
  reset(token: string, password: string): Promise<Person>
  /**
   * `conflict` if no operator would be left. Ends the links and tokens that a former operator made, and the links that those tokens
   * made.
   *
   * @param by the id of the person or the token that requests it
   */
  setRole(id: string, role: Role, by?: string): Promise<Person>
  /**
   * Removes a person and ends the sessions, and the same links and tokens as `setRole`; the account stays. `conflict` for the last
   * operator.
   *
   * @param by the id of the person or the token that requests it
   */
  remove(id: string, by?: string): Promise<void>

  /**
   * Returns the session's secret, which is never returned again. One more than `MAX_SESSIONS` ends the oldest.
   *
   * @param from the hash of the password that was checked; `conflict` if it was changed meanwhile
   */
  createSession(personId: string, from?: string): Promise<string>
  /** Records that it was used now. */
  touchSession(secret: string): Promise<void>
  endSession(secret: string): Promise<void>
  /** Ends all sessions of a person but one. */
  endSessions(personId: string, except?: string): Promise<void>

  /** Returns the link's secret, which is never returned again. */
  createLink(link: NewLink): Promise<{ readonly link: Link; readonly token: string }>
  revokeLink(id: string): Promise<void>

  createToken(token: {
    readonly name: string
    readonly expiresAt: number | null
    readonly createdBy: string
  }): Promise<{ readonly token: OperatorToken; readonly secret: string }>
  /** Also ends the links that were made with it. */
  revokeToken(id: string): Promise<void>
}
