/** The verbs about people and operators' tokens; verbs.ts has the others and says what a verb is. */

import { StoreError } from '../../store/error.ts'
import type { Person, Role } from '../../store/people.ts'
import type { PersonOfAccount } from '../../store/reports.ts'
import type { Store } from '../../store/store.ts'
import { namesOf, showLink, showPerson, showToken } from '../show.ts'
import type { LinkView, PersonView, TokenView } from '../views.ts'
import { type Arguments, VerbError } from './arguments.ts'
import { resetFor } from './reset-link.ts'

/** A link with its secret: the only time the secret is seen. */
export interface IssuedLink {
  readonly link: LinkView
  readonly token: string
}

/** What each of these verbs answers with. */
export interface PeopleVerbResults {
  'person.invite': IssuedLink
  'person.reset': IssuedLink
  'person.list': { readonly people: readonly PersonView[] }
  'person.links': { readonly links: readonly LinkView[] }
  'person.revoke-link': { readonly link: LinkView }
  'person.role': { readonly person: PersonView }
  'person.remove': { readonly person: PersonView }
  'token.create': { readonly token: TokenView; readonly secret: string }
  'token.list': { readonly tokens: readonly TokenView[] }
  'token.revoke': { readonly token: TokenView }
}

type PeopleVerbs = {
  readonly [Name in keyof PeopleVerbResults]: (
    store: Store,
    args: Arguments,
  ) => Promise<PeopleVerbResults[Name]> | PeopleVerbResults[Name]
}

export const PEOPLE_VERBS: PeopleVerbs = {
  async 'person.invite'(store, args) {
    const role = roleOf(args.name('role'))
    const account = args.optional('account', args.name)
    const email = args.optional('email', args.name) ?? null
    const plan = args.optional('plan', args.name) ?? null
    const credit = args.optional('credit', args.money) ?? 0n
    const expiresAt = args.time('expires_at')
    const createdBy = args.name('actor')
    args.end()
    if (account !== undefined && (plan !== null || credit > 0n)) {
      throw new VerbError('person.invite: "plan" and "credit" are for an account that is made, and "account" names one')
    }
    const accountId = account === undefined ? null : idOf(store, account)
    const { link, token } = await store.people.createLink({
      kind: 'invitation',
      role,
      accountId,
      email: email?.toLowerCase() ?? null,
      plan,
      credit,
      personId: null,
      expiresAt,
      createdBy,
    })
    return { link: showLink(link, namesOf(store)), token }
  },

  async 'person.reset'(store, args) {
    const person = personOf(store, args.name('person'))
    const expiresAt = args.time('expires_at')
    const createdBy = args.name('actor')
    args.end()
    const { link, token } = await store.people.createLink(resetFor(person, { createdBy, expiresAt }))
    return { link: showLink(link, namesOf(store)), token }
  },

  'person.list'(store, args) {
    args.end()
    return { people: everybody(store).map(person => showPerson(person, person.account)) }
  },

  'person.links'(store, args) {
    args.end()
    const names = namesOf(store)
    return { links: store.people.links().map(link => showLink(link, names)) }
  },

  async 'person.revoke-link'(store, args) {
    const id = args.name('link')
    noteActor(args)
    args.end()
    const link = store.people.links().find(each => each.id === id)
    if (!link) throw new StoreError(`there is no link "${id}" that works (a link is named by its id)`)
    await store.people.revokeLink(id)
    return { link: showLink(link, namesOf(store)) }
  },

  async 'person.role'(store, args) {
    const person = personOf(store, args.name('person'))
    const role = roleOf(args.name('role'))
    noteActor(args)
    args.end()
    return { person: shown(store, await store.people.setRole(person.id, role)) }
  },

  async 'person.remove'(store, args) {
    const person = personOf(store, args.name('person'))
    noteActor(args)
    args.end()
    await store.people.remove(person.id)
    return { person: shown(store, person) }
  },

  async 'token.create'(store, args) {
    const name = args.name('name')
    const expiresAt = args.optional('expires_at', args.time) ?? null
    const createdBy = args.name('actor')
    args.end()
    const { token, secret } = await store.people.createToken({ name, expiresAt, createdBy })
    return { token: showToken(token, namesOf(store)), secret }
  },

  'token.list'(store, args) {
    args.end()
    const names = namesOf(store)
    return { tokens: store.people.tokens().map(token => showToken(token, names)) }
  },

  async 'token.revoke'(store, args) {
    const id = args.name('token')
    noteActor(args)
    args.end()
    const token = store.people.tokens().find(each => each.id === id)
    if (!token) throw new StoreError(`there is no operators' token "${id}"`)
    await store.people.revokeToken(id)
    return { token: showToken(token, namesOf(store)) }
  },
}

/** Who asks: the socket writes it into its log, and the store keeps nothing of it. */
function noteActor(args: Arguments): void {
  args.optional('actor', args.name)
}

function roleOf(text: string): Role {
  if (text === 'member' || text === 'operator') return text
  throw new VerbError(`"role" must be member or operator, not "${text}"`)
}

function idOf(store: Store, account: string): string {
  const found = store.findAccount(account)
  if (!found) throw new StoreError(`there is no account "${account}" (an account is named by its id or its name)`)
  return found.id
}

function shown(store: Store, person: Person): PersonView {
  return showPerson(person, namesOf(store).account(person.accountId))
}

const PAGE = 1000

function everybody({ reports }: Store): readonly PersonOfAccount[] {
  const people: PersonOfAccount[] = []
  let after: string | null = null
  do {
    const page = reports.people({ limit: PAGE, ...(after === null ? {} : { after }) })
    people.push(...page.items)
    after = page.next
  } while (after !== null)
  return people
}

/** By e-mail address or id. */
function personOf(store: Store, text: string): Person {
  const found = store.people.findByEmail(text.toLowerCase()) ?? store.people.find(text)
  if (!found) throw new StoreError(`there is nobody "${text}" (a person is named by the e-mail address or the id)`)
  return found
}
