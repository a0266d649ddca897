/** The verbs for people and operators' tokens. verbs.ts has the others and explains verbs. */

import { StoreError } from '../../store/error.ts'
import type { Page, PersonOfAccount } from '../../store/money/reports.ts'
import type { OperatorToken, Person, Role } from '../../store/people/people.ts'
import type { Store } from '../../store/store.ts'
import { type PlanNames, whyNotPlan } from '../declared-plans.ts'
import { namesOf, showLink, showLinks, showPerson, showToken, showTokens } from '../show.ts'
import type { LinkView, PersonView, TokenView } from '../views.ts'
import { type Arguments, VerbError } from './arguments.ts'
import { accountNamed } from './named.ts'
import { resetFor } from './reset-link.ts'

/** A link with its secret, which is shown only once. */
export interface IssuedLink {
  readonly link: LinkView
  readonly token: string
}

/** The results of these verbs. */
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
    running: { plans?(): PlanNames | null },
  ) => Promise<PeopleVerbResults[Name]> | PeopleVerbResults[Name]
}

/** Throws for a plan that gateway.yaml does not declare. */
export function refusePlan(verb: string, plans: PlanNames | null, plan: string | undefined): void {
  const why = whyNotPlan(plans, plan)
  if (why !== null) throw new VerbError(`${verb}: the plan ${why}`)
}

export const PEOPLE_VERBS: PeopleVerbs = {
  async 'person.invite'(store, args, { plans }) {
    const role = roleOf(args.name('role'))
    const account = args.optional('account', args.name)
    const email = args.optional('email', args.name) ?? null
    const plan = args.optional('plan', args.name) ?? null
    const credit = args.optional('credit', args.money) ?? 0n
    const expiresAt = args.time('expires_at')
    const createdBy = args.name('actor')
    args.end()
    if (account !== undefined && (plan !== null || credit > 0n)) {
      throw new VerbError(
        'person.invite: "plan" and "credit" are for a new account, and "account" names an existing one',
      )
    }
    refusePlan('person.invite', plans?.() ?? null, plan ?? undefined)
    const accountId = account === undefined ? null : (await accountNamed(store, account)).id
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
    return { link: await showLink(store, link), token }
  },

  async 'person.reset'(store, args) {
    const person = await personOf(store, args.name('person'))
    const expiresAt = args.time('expires_at')
    const createdBy = args.name('actor')
    args.end()
    const { link, token } = await store.people.createLink(resetFor(person, { createdBy, expiresAt }))
    return { link: await showLink(store, link), token }
  },

  async 'person.list'(store, args) {
    args.end()
    return { people: (await allPeople(store)).map(person => showPerson(person, person.account)) }
  },

  async 'person.links'(store, args) {
    args.end()
    return { links: await showLinks(store, await store.people.links()) }
  },

  async 'person.revoke-link'(store, args) {
    const id = args.name('link')
    allowActor(args)
    args.end()
    const link = (await store.people.links()).find(each => each.id === id)
    if (!link) throw new StoreError(`a working link "${id}" does not exist; give its id`)
    await store.people.revokeLink(id)
    return { link: await showLink(store, link) }
  },

  async 'person.role'(store, args) {
    const person = await personOf(store, args.name('person'))
    const role = roleOf(args.name('role'))
    allowActor(args)
    args.end()
    return { person: await shown(store, await store.people.setRole(person.id, role)) }
  },

  async 'person.remove'(store, args) {
    const person = await personOf(store, args.name('person'))
    allowActor(args)
    args.end()
    await store.people.remove(person.id)
    return { person: await shown(store, person) }
  },

  async 'token.create'(store, args) {
    const name = args.name('name')
    const expiresAt = args.optional('expires_at', args.time) ?? null
    const createdBy = args.name('actor')
    args.end()
    const { token, secret } = await store.people.createToken({ name, expiresAt, createdBy })
    return { token: await showToken(store, token), secret }
  },

  async 'token.list'(store, args) {
    args.end()
    return { tokens: await showTokens(store, await store.people.tokens()) }
  },

  async 'token.revoke'(store, args) {
    const idOrName = args.name('token')
    allowActor(args)
    args.end()
    const token = tokenCalled(idOrName, await store.people.tokens())
    await store.people.revokeToken(token.id)
    return { token: await showToken(store, token) }
  },
}

/** Allows the argument `actor`. The socket logs it, and the store does not keep it. */
function allowActor(args: Arguments): void {
  args.optional('actor', args.name)
}

function roleOf(text: string): Role {
  if (text === 'member' || text === 'operator') return text
  throw new VerbError(`"role" must be member or operator, not "${text}"`)
}

async function shown(store: Store, person: Person): Promise<PersonView> {
  return showPerson(person, (await namesOf(store, [person.accountId]))(person.accountId))
}

const PAGE = 1000

async function allPeople({ reports }: Store): Promise<readonly PersonOfAccount[]> {
  const people: PersonOfAccount[] = []
  let after: string | null = null
  do {
    const page: Page<PersonOfAccount> = await reports.people({ limit: PAGE, ...(after === null ? {} : { after }) })
    people.push(...page.items)
    after = page.next
  } while (after !== null)
  return people
}

/** By e-mail address or id. */
async function personOf(store: Store, text: string): Promise<Person> {
  const found = (await store.people.findByEmail(text.toLowerCase())) ?? (await store.people.find(text))
  if (!found) throw new StoreError(`the person "${text}" does not exist; give the e-mail address or the id`)
  return found
}

/** Several tokens may have one name: then only the id identifies one. */
function tokenCalled(idOrName: string, tokens: readonly OperatorToken[]): OperatorToken {
  const byId = tokens.find(({ id }) => id === idOrName)
  const byName = tokens.filter(({ name }) => name === idOrName)
  const token = byId ?? byName[0]
  if (token === undefined) {
    throw new StoreError(`the operators' token "${idOrName}" does not exist; give its id or its name`)
  }
  if (byId !== undefined || byName.length === 1) return token
  const ids = byName.map(({ id }) => id).join(', ')
  throw new StoreError(`${byName.length} operators' tokens have the name "${idOrName}": revoke one by its id: ${ids}`)
}
