/** People, links for sign-in, and tokens of operators' machines. */

import { formatMoney, parseMoney, refuse } from '#contract'
import type { Link, NewLink, Person } from '../store/people/people.ts'
import type { Store } from '../store/store.ts'
import type { ApiParts } from './api-parts.ts'
import { resetFor } from './control/reset-link.ts'
import { checkPlan } from './declared-plans.ts'
import { EMAIL, ID, ids, line, MONEY, NAME, TIME } from './inputs.ts'
import { PAGE } from './report-routes.ts'
import { type ApiRoute, type Caller, route } from './route.ts'
import { type Fits, maybe, shape } from './schema.ts'
import { namesOf, showAll, showLink, showLinks, showPerson, showToken, showTokens } from './show.ts'
import type { IssuedLinkView } from './views.ts'

const HOUR_MS = 3_600_000
const INVITATION_MS = 7 * 24 * HOUR_MS
const RESET_MS = 24 * HOUR_MS

const ROLE = {
  type: 'string',
  enum: ['member', 'operator'],
  description: 'Operators see all accounts and the state of the gateway.',
} as const

const INVITATION = shape({
  kind: { type: 'string', enum: ['invitation'], description: 'The purpose of the link.' },
  role: ROLE,
  'account_id?': maybe({ ...ID, description: 'The account to join; null: a new one.' }),
  'plan?': line('The plan of the new account. Default: that of registrations.'),
  'credit?': {
    ...MONEY,
    description: 'The first credit of the new account in dollars. Default: none.',
  },
  'email?': { ...EMAIL, description: 'The only address that may use it. Default: any.' },
})

/** For operators, and for their machines with a token. */
export const OPERATOR_PEOPLE_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/operator/people',
    summary: 'People who can sign in, by e-mail address.',
    audience: 'operator',
    query: shape({ 'search?': line('A part of the address.', 200), ...PAGE }),
    answers: 'PersonPage',
    async handle({ parts, query }) {
      const { items, next } = await parts.store.reports.people(query)
      return { body: { items: items.map(person => showPerson(person, person.account)), next } }
    },
  }),
  route({
    method: 'PATCH',
    path: '/api/operator/people/{id}',
    summary: 'Changes the role of a person. The last operator stays one.',
    audience: 'operator',
    params: ids(),
    body: shape({ role: ROLE }),
    answers: 'PersonView',
    errors: ['not_found', 'conflict'],
    // The store checks the last operator in the same transaction: two operators cannot demote each other at once.
    async handle({ parts: { store }, params, body, caller, note }) {
      const { id } = await personOf(store, params.id)
      note({ role: body.role })
      const person = await store.people.setRole(id, body.role, makerOf(caller))
      return { body: showPerson(person, (await namesOf(store, [person.accountId]))(person.accountId)) }
    },
  }),
  route({
    method: 'DELETE',
    path: '/api/operator/people/{id}',
    summary: 'Removes a person, who is signed out at once. The account and its keys stay.',
    audience: 'operator',
    params: ids(),
    answers: null,
    status: 204,
    errors: ['not_found', 'conflict'],
    async handle({ parts: { store }, params, caller }) {
      const { id } = await personOf(store, params.id)
      if (id === caller.person?.id) {
        throw refuse('conflict', { message: 'You cannot remove yourself. Ask another operator.' })
      }
      await store.people.remove(id, makerOf(caller))
      return { status: 204 }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/people/{id}/reset',
    summary: 'Creates a password-reset link. It works once, for 24 hours.',
    audience: 'operator',
    params: ids(),
    answers: 'IssuedLinkView',
    status: 201,
    errors: ['not_found', 'conflict'],
    async handle({ parts, params, caller, note }) {
      const person = await personOf(parts.store, params.id)
      note({ person: person.id })
      const expiresAt = parts.clock.now() + RESET_MS
      const link = await issueLink(parts, resetFor(person, { createdBy: makerOf(caller), expiresAt }))
      return { status: 201, body: link }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/links',
    summary: 'Links that still work, the newest first.',
    audience: 'operator',
    answers: 'LinkPage',
    async handle({ parts: { store } }) {
      return { body: showAll(await showLinks(store, await store.people.links())) }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/links',
    summary: 'Creates an invitation to an existing or a new account. It works for 7 days.',
    audience: 'operator',
    body: INVITATION,
    answers: 'IssuedLinkView',
    status: 201,
    errors: ['not_found', 'conflict'],
    async handle({ parts, body, caller, note }) {
      const wanted = { ...(await readInvitation(parts, body)), createdBy: makerOf(caller) }
      note({ role: wanted.role, credit: formatMoney(wanted.credit) })
      return { status: 201, body: await issueLink(parts, wanted) }
    },
  }),
  route({
    method: 'DELETE',
    path: '/api/operator/links/{id}',
    summary: 'Revokes a link.',
    audience: 'operator',
    params: ids(),
    answers: null,
    status: 204,
    errors: ['not_found'],
    async handle({ parts: { store }, params }) {
      if (!(await store.people.links()).some(({ id }) => id === params.id)) throw refuse('not_found')
      await store.people.revokeLink(params.id)
      return { status: 204 }
    },
  }),
  route({
    method: 'GET',
    path: '/api/operator/tokens',
    summary: "The tokens of the operators' API.",
    audience: 'operator',
    answers: 'TokenPage',
    async handle({ parts: { store } }) {
      return { body: showAll(await showTokens(store, await store.people.tokens())) }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/tokens',
    summary: 'Creates a token. Only this answer has its secret.',
    audience: 'operator',
    body: shape({
      name: { ...NAME, description: 'The program that uses it.' },
      'expires_at?': maybe({ ...TIME, description: 'The time of its expiry; null: never.' }),
    }),
    answers: 'IssuedTokenView',
    status: 201,
    async handle({ parts: { store, clock }, body, caller }) {
      const { token, secret } = await store.people.createToken({
        name: body.name,
        expiresAt: readFuture('expires_at', body.expires_at ?? null, clock.now()),
        createdBy: makerOf(caller),
      })
      return { status: 201, body: { token: await showToken(store, token), secret } }
    },
  }),
  route({
    method: 'DELETE',
    path: '/api/operator/tokens/{id}',
    summary: 'Revokes a token.',
    audience: 'operator',
    params: ids(),
    answers: null,
    status: 204,
    errors: ['not_found'],
    async handle({ parts: { store }, params }) {
      if (!(await store.people.tokens()).some(({ id }) => id === params.id)) throw refuse('not_found')
      await store.people.revokeToken(params.id)
      return { status: 204 }
    },
  }),
]

async function personOf(store: Store, id: string): Promise<Person> {
  const person = await store.people.find(id)
  if (!person) throw refuse('not_found', { message: 'No person has this id.' })
  return person
}

async function readInvitation(
  { store, clock, registration, plans }: ApiParts,
  body: Fits<typeof INVITATION>,
): Promise<Omit<NewLink, 'createdBy'>> {
  const { role, account_id: accountId = null, plan, credit } = body
  const email = body.email ?? null
  checkPlan(plans(), plan)
  if (accountId !== null) {
    for (const param of ['plan', 'credit'] as const) {
      if (body[param] === undefined) continue
      throw refuse('invalid_value', {
        param,
        message: `\`${param}\` is for a new account, and this invitation is to an existing one.`,
      })
    }
  }
  if (email !== null && (await store.people.findByEmail(email))) {
    throw refuse('conflict', { param: 'email', message: 'A person already has this address.' })
  }
  return {
    kind: 'invitation',
    role,
    accountId,
    plan: accountId === null ? (plan ?? registration.plan) : null,
    credit: credit === undefined ? 0n : parseMoney(credit),
    email,
    personId: null,
    expiresAt: clock.now() + INVITATION_MS,
  }
}

const PAGE_OF: Readonly<Record<Link['kind'], string>> = { invitation: 'join', reset: 'reset' }

/** Only this answer has the link's address. Its secret is the fragment, which browsers do not send and logs do not contain. */
async function issueLink({ store, origins }: ApiParts, wanted: NewLink): Promise<IssuedLinkView> {
  const [origin] = origins()
  if (origin === undefined) {
    throw refuse('conflict', {
      message: 'Links lead to the dashboard, which this gateway does not have. Set `dashboard` in gateway.yaml.',
    })
  }
  const { link, token } = await store.people.createLink(wanted)
  return { link: await showLink(store, link), url: `${origin}/${PAGE_OF[link.kind]}#${token}` }
}

/** The caller for the store, which checks the permission again when it writes. */
function makerOf({ maker }: Caller): string {
  if (maker === null) throw refuse('not_signed_in')
  return maker
}

function readFuture(param: string, text: string | null, nowMs: number): number | null {
  if (text === null) return null
  const ms = Date.parse(text)
  if (ms > nowMs) return ms
  throw refuse('invalid_value', { param, message: `\`${param}\` must be in the future.` })
}
