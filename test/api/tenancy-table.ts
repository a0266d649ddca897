/**
 * The data of the access table: a world with two tenants, and for each route the request to send for each owner.
 * The columns are in tenancy.test.ts.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseMoney } from '#contract'
import { aHold, aSettle } from '../store/helpers.ts'
import { type Browser, type Client, PASSWORD, type Rig, type SignedIn, startRig } from './rig.ts'

/** The ids of a person's resources. */
export interface Resources {
  readonly account: string
  readonly person: string
  readonly email: string
  readonly key: string
  readonly receipt: string
}

export interface World extends AsyncDisposable {
  readonly rig: Rig
  readonly alice: SignedIn
  readonly bob: SignedIn
  readonly operator: SignedIn
  readonly anonymous: Browser
  /** An operator's token on the admin listener. */
  readonly machine: Client
  readonly token: string
  /** Alice's API key, as clients send it. */
  readonly apiKey: string
  readonly resources: { readonly alice: Resources; readonly bob: Resources; readonly none: Resources }
  /** Working links and their secrets. */
  readonly invitation: { readonly id: string; readonly secret: string }
  readonly reset: { readonly id: string; readonly secret: string }
  readonly tokenId: string
}

/** The input of a request. `path` has the values of `{id}` and other parameters. */
export interface RouteInput {
  readonly path?: Readonly<Record<string, string>>
  readonly query?: string
  readonly body?: unknown
}

export interface Row {
  /** Builds the request for the resources of the member, of another person, or for ids that do not exist. */
  readonly send: (resources: Resources, world: World) => RouteInput
  /** The path names a resource with an owner. The resource of another person is answered like a missing one. */
  readonly owned?: true
  /** For operators: the path names a resource, and a missing one is `not_found`. */
  readonly named?: true
}

const nothing: Row = { send: () => ({}) }
const byAccount = (more: Omit<RouteInput, 'path'> = {}, path: Readonly<Record<string, string>> = {}): Row => ({
  named: true,
  send: ({ account }) => ({ path: { id: account, ...path }, ...more }),
})
const byKey = (body?: unknown, more: Readonly<Record<string, string>> = {}): Row => ({
  owned: true,
  send: ({ key }) => ({ path: { id: key, ...more }, body }),
})
const byKeyOfAccount = (body?: unknown, more: Readonly<Record<string, string>> = {}): Row => ({
  named: true,
  send: ({ account, key }) => ({ path: { id: account, key, ...more }, body }),
})
const MONTH = { every: 'month' }
const BUDGET = { amount: '25', zone: 'Europe/Berlin' }
const someone = { email: 'new@example.com', password: PASSWORD }

/** By method and path. A route without a row fails the test, and so does a row without a route. */
export const ROWS: Readonly<Record<string, Row>> = {
  'GET /api/about': nothing,
  'GET /api/openapi.json': nothing,
  'POST /api/register': { send: () => ({ body: someone }) },
  'POST /api/link': { send: (_, { invitation }) => ({ body: { token: invitation.secret } }) },
  'POST /api/join': { send: (_, { invitation }) => ({ body: { ...someone, token: invitation.secret } }) },
  'POST /api/reset': { send: (_, { reset }) => ({ body: { token: reset.secret, password: PASSWORD } }) },
  'POST /api/session': { send: ({ email }) => ({ body: { email, password: PASSWORD } }) },
  'GET /api/session': nothing,
  'DELETE /api/session': nothing,
  'POST /api/password': { send: () => ({ body: { current: PASSWORD, new: 'another password' } }) },

  'GET /api/keys': nothing,
  'POST /api/keys': { send: () => ({ body: { name: 'another' } }) },
  'POST /api/keys/{id}/rotate': byKey({}),
  'POST /api/keys/{id}/revoke': byKey({}),
  'PATCH /api/keys/{id}': byKey({ name: 'renamed' }),

  'GET /api/budgets': nothing,
  'PUT /api/keys/{id}/budgets/{every}': byKey(BUDGET, MONTH),
  'DELETE /api/keys/{id}/budgets/{every}': byKey(undefined, MONTH),

  'GET /api/account': nothing,
  'GET /api/entries': nothing,
  'GET /api/entries.csv': nothing,
  'GET /api/receipts': nothing,
  'GET /api/receipts/{id}': { owned: true, send: ({ receipt }) => ({ path: { id: receipt } }) },
  'GET /api/usage': { send: () => ({ query: 'by=both' }) },
  'GET /api/usage.csv': nothing,
  'GET /api/models': nothing,
  'POST /api/playground': { send: () => ({ body: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] } }) },

  'GET /api/operator/summary': nothing,
  'GET /api/operator/accounts': nothing,
  'POST /api/operator/accounts': { send: () => ({ body: { name: 'another' } }) },
  'GET /api/operator/accounts/{id}': byAccount(),
  'PATCH /api/operator/accounts/{id}': byAccount({ body: { plan: 'gold' } }),
  'POST /api/operator/accounts/{id}/credit': byAccount({ body: { amount: '5', reference: 'payment 1' } }),
  'GET /api/operator/accounts/{id}/entries': byAccount(),
  'GET /api/operator/accounts/{id}/receipts': byAccount(),
  'GET /api/operator/accounts/{id}/usage': byAccount(),
  'POST /api/operator/accounts/{id}/keys/{key}/revoke': byKeyOfAccount({}),
  'GET /api/operator/accounts/{id}/budgets': byAccount(),
  'PUT /api/operator/accounts/{id}/budgets/{every}': byAccount({ body: BUDGET }, MONTH),
  'DELETE /api/operator/accounts/{id}/budgets/{every}': byAccount({}, MONTH),
  'PUT /api/operator/accounts/{id}/keys/{key}/budgets/{every}': byKeyOfAccount(BUDGET, MONTH),
  'DELETE /api/operator/accounts/{id}/keys/{key}/budgets/{every}': byKeyOfAccount(undefined, MONTH),
  'GET /api/operator/plans': nothing,
  'GET /api/operator/usage': nothing,
  'GET /api/operator/receipts/{id}': { named: true, send: ({ receipt }) => ({ path: { id: receipt } }) },
  'GET /api/operator/exchanges': nothing,
  'GET /api/operator/exchanges/{id}': { named: true, send: ({ receipt }) => ({ path: { id: receipt } }) },
  'GET /api/operator/shadow': nothing,
  'GET /api/operator/providers': nothing,
  'GET /api/alerts': nothing,
  'GET /api/operator/alerts': nothing,
  'POST /api/operator/alerts/resend': {
    named: true,
    send: ({ account }) => ({ body: { id: `alert of ${account}` } }),
  },
  'GET /api/operator/models': nothing,
  'GET /api/operator/configuration': nothing,
  'GET /api/operator/people': nothing,
  'PATCH /api/operator/people/{id}': {
    named: true,
    send: ({ person }) => ({ path: { id: person }, body: { role: 'operator' } }),
  },
  'DELETE /api/operator/people/{id}': { named: true, send: ({ person }) => ({ path: { id: person } }) },
  'POST /api/operator/people/{id}/reset': { named: true, send: ({ person }) => ({ path: { id: person }, body: {} }) },
  'GET /api/operator/links': nothing,
  'POST /api/operator/links': {
    send: ({ account }) => ({ body: { kind: 'invitation', role: 'member', account_id: account } }),
  },
  'DELETE /api/operator/links/{id}': {
    named: true,
    send: (resources, { invitation }) => ({ path: { id: resources.key === NONE.key ? 'lnk_none' : invitation.id } }),
  },
  'GET /api/operator/tokens': nothing,
  'POST /api/operator/tokens': { send: () => ({ body: { name: 'another' } }) },
  'DELETE /api/operator/tokens/{id}': {
    named: true,
    send: (resources, { tokenId }) => ({ path: { id: resources.key === NONE.key ? 'otk_none' : tokenId } }),
  },
}

/** Well-formed ids that do not exist. */
const NONE: Resources = {
  account: `acc_${'0'.repeat(26)}`,
  person: `per_${'0'.repeat(26)}`,
  email: 'none@example.com',
  key: `key_${'0'.repeat(26)}`,
  receipt: `req_${'0'.repeat(26)}`,
}

/** Creates Alice and Bob, each with a used key, an operator, links and tokens. */
export async function createWorld(): Promise<World> {
  const listener = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: [DONE]\n\n')
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const { port } = listener.address() as AddressInfo
  const playground = { host: '127.0.0.1', port, path: '/v1/chat/completions', hostHeader: `127.0.0.1:${port}` }
  const rig = await startRig({ parts: { playground: () => playground } })
  const { people } = rig.store

  const [alice, bob, operator] = [
    await rig.member('alice@example.com'),
    await rig.member('bob@example.com'),
    await rig.operator(),
  ]
  const own = { alice: await resourcesOf(rig, alice), bob: await resourcesOf(rig, bob) }
  const link = { role: 'member', accountId: null, plan: null, credit: 0n, email: null, createdBy: 'test' } as const
  const expiresAt = rig.clock.ms + 3_600_000
  const invitation = await people.createLink({
    ...link,
    kind: 'invitation',
    personId: null,
    plan: 'default',
    expiresAt,
  })
  const reset = await people.createLink({ ...link, kind: 'reset', personId: alice.person.id, expiresAt })
  const token = await rig.token('used by the test')
  await rig.token('one more')
  return {
    rig,
    alice,
    bob,
    operator,
    anonymous: rig.browser(),
    machine: rig.machine(token),
    token,
    apiKey: own.alice.token,
    resources: { alice: own.alice.resources, bob: own.bob.resources, none: NONE },
    invitation: { id: invitation.link.id, secret: invitation.token },
    reset: { id: reset.link.id, secret: reset.token },
    tokenId: (await people.tokens()).find(({ name }) => name === 'one more')!.id,
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]()
      listener.closeAllConnections()
      await new Promise(resolve => listener.close(resolve))
    },
  }
}

async function resourcesOf(
  { store, clock }: Rig,
  { person, accountId }: SignedIn,
): Promise<{ resources: Resources; token: string }> {
  const { key, token } = await store.createKey({ account: accountId, name: `key of ${person.email}` })
  for (const [of, name] of [
    ['account', accountId],
    ['key', key.id],
  ] as const) {
    await store.setBudget({ of, name, every: 'month', budget: { amount: parseMoney('50') } })
  }
  const receipt = `req_${accountId.slice(4)}`
  const amount = parseMoney('0.01')
  await store.ledger.hold(aHold({ exchange: receipt, accountId, keyId: key.id, amount, model: 'm' }))
  await store.ledger.settle(aSettle({ exchange: receipt, amount }))
  const claim = { name: 'ops', events: ['low_balance'], nowMs: clock.ms, leaseMs: 1000, most: 10 }
  await store.alerts.claim(claim)
  const data = { below: '5', credit: '4' }
  await store.alerts.put([{ id: `alert of ${accountId}`, kind: 'low_balance', at: clock.ms, account: accountId, data }])
  await store.alerts.claim(claim)
  const resources = { account: accountId, person: person.id, email: person.email, key: key.id, receipt }
  return { resources, token }
}
