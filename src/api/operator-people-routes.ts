/** Who may sign in, the links that let them in, and the tokens of operators' machines. */

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
  description: 'Operators see all accounts and what the gateway does.',
} as const

const INVITATION = shape({
  kind: { type: 'string', enum: ['invitation'], description: 'What the link is for.' },
  role: ROLE,
  'account_id?': maybe({ ...ID, description: 'The account to join; null: one of their own is made.' }),
  'plan?': line('Of the new account; that of those who register, when it is left out.'),
  'credit?': {
    ...MONEY,
    description: 'What the new account begins with in dollars; nothing, when it is left out.',
  },
  'email?': { ...EMAIL, description: 'The only address that may use it; any, when it is left out.' },
})

/** For operators, and for their machines with a token. */
export const OPERATOR_PEOPLE_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/operator/people',
    summary: 'Who can sign in, by e-mail address.',
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
    summary: 'Gives somebody another role. There is always an operator.',
    audience: 'operator',
    params: ids(),
    body: shape({ role: ROLE }),
    answers: 'PersonView',
    errors: ['not_found', 'conflict'],
    // The store keeps the last operator, in the same transaction: two who demote each other at once do not both succeed.
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
    summary: 'Removes somebody: they are signed out at once. Their account and its keys stay.',
    audience: 'operator',
    params: ids(),
    answers: null,
    status: 204,
    errors: ['not_found', 'conflict'],
    async handle({ parts: { store }, params, caller }) {
      const { id } = await personOf(store, params.id)
      if (id === caller.person?.id) {
        throw refuse('conflict', { message: 'Nobody removes themselves. Another operator can.' })
      }
      await store.people.remove(id, makerOf(caller))
      return { status: 204 }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/people/{id}/reset',
    summary: 'Makes a link by which somebody chooses a new password. It works once, for 24 hours.',
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
    summary: 'Makes an invitation: to an account that is there, or to one that is made with the person. For 7 days.',
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
    summary: 'Revokes a link, at once.',
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
    summary: "Machines' ways to the operators' API.",
    audience: 'operator',
    answers: 'TokenPage',
    async handle({ parts: { store } }) {
      return { body: showAll(await showTokens(store, await store.people.tokens())) }
    },
  }),
  route({
    method: 'POST',
    path: '/api/operator/tokens',
    summary: 'Makes a token. Its secret is in this answer, and never again.',
    audience: 'operator',
    body: shape({
      name: { ...NAME, description: 'Who will use it.' },
      'expires_at?': maybe({ ...TIME, description: 'When it ends; null: when it is revoked.' }),
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
    summary: 'Revokes a token, at once.',
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
  if (!person) throw refuse('not_found', { message: 'There is nobody by this id.' })
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
      throw refuse('invalid_value', { param, message: `\`${param}\` is for a new account; this invitation has one.` })
    }
  }
  if (email !== null && (await store.people.findByEmail(email))) {
    throw refuse('conflict', { param: 'email', message: 'There is somebody with this address already.' })
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

/** The address is told this once. Its secret is the fragment, which no browser sends and no log writes. */
async function issueLink({ store, origins }: ApiParts, wanted: NewLink): Promise<IssuedLinkView> {
  const [origin] = origins()
  if (origin === undefined) {
    throw refuse('conflict', {
      message: 'A link leads to the dashboard, and this gateway has none. Set `dashboard` in gateway.yaml.',
    })
  }
  const { link, token } = await store.people.createLink(wanted)
  return { link: await showLink(store, link), url: `${origin}/${PAGE_OF[link.kind]}#${token}` }
}

/** How the store knows who asks: it makes sure once more, when it writes, that they may. */
function makerOf({ maker }: Caller): string {
  if (maker === null) throw refuse('not_signed_in')
  return maker
}

function readFuture(param: string, text: string | null, nowMs: number): number | null {
  if (text === null) return null
  const ms = Date.parse(text)
  if (ms > nowMs) return ms
  throw refuse('invalid_value', { param, message: `\`${param}\` must be a time to come.` })
}
