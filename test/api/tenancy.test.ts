/**
 * Access control: every route, called by every role, for their own resources and those of others. The cases are made from
 * the list of routes, so a new route without a row fails.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ApiRoute, hasRequestBody } from '../../src/api/route.ts'
import { ROUTES } from '../../src/api/routes.ts'
import type { CallOptions, Client, Reply } from './rig.ts'
import { createWorld, type Resources, ROWS, type RouteInput, type Row, type World } from './tenancy-table.ts'

interface Case {
  readonly name: string
  readonly route: Pick<ApiRoute, 'method' | 'path' | 'audience' | 'answers' | 'status'>
  readonly row: Row
}

const DESCRIPTION = { method: 'GET', path: '/api/openapi.json', audience: 'anyone', answers: 'document' } as const

const cases: readonly Case[] = [...ROUTES, DESCRIPTION].flatMap(route => {
  const name = `${route.method} ${route.path}`
  return ROWS[name] ? [{ name, route, row: ROWS[name] }] : []
})
const isFor = (audience: ApiRoute['audience']) => (each: Case) => each.route.audience === audience
const open = cases.filter(isFor('anyone'))
const personal = cases.filter(isFor('person'))
const operators = cases.filter(isFor('operator'))

/** The world of all tests of refusals, which may not change it. */
let sharedWorld: World
beforeAll(async () => {
  sharedWorld = await createWorld()
})
afterAll(() => sharedWorld[Symbol.asyncDispose]())

test('every route has a row, and every row has a route', () => {
  const routes = [...ROUTES, DESCRIPTION].map(({ method, path }) => `${method} ${path}`)
  expect(new Set(routes).size).toBe(routes.length)
  expect(Object.keys(ROWS).sort()).toEqual(routes.sort())
  expect(cases.length).toBe(routes.length)
  // Rows of routes with an id in their path state the answer for an id of another person.
  const silent = cases.filter(({ route, row }) => route.path.includes('{') && !row.owned && !row.named)
  expect(silent.map(({ name }) => name)).toEqual([])
})

describe('signed out', () => {
  test.each(open)('$name: answers', async each => {
    await using world = await createWorld()
    expect(await ask(world.anonymous, each, world, world.resources.alice)).toMatchObject({ status: goodStatus(each) })
  })

  test.each([...personal, ...operators])('$name: is refused and changes nothing', async each => {
    const world = sharedWorld
    const before = stateOf(world)
    for (const resources of Object.values(world.resources)) {
      expect(await ask(world.anonymous, each, world, resources)).toMatchObject(refused(401, 'not_signed_in'))
    }
    expect(stateOf(world)).toEqual(before)
  })
})

describe('a member', () => {
  test.each(personal)('$name: returns their own resources, and nothing of others', async each => {
    await using world = await createWorld()
    const before = ofTenant(world, world.resources.bob)
    const reply = await ask(world.alice, each, world, world.resources.alice)
    expect(reply).toMatchObject({ status: goodStatus(each) })
    for (const secret of Object.values(world.resources.bob)) expect(reply.text).not.toContain(secret)
    expect(ofTenant(world, world.resources.bob)).toEqual(before)
  })

  test.each(personal.filter(({ row }) => row.owned))(
    '$name: the resource of another person is answered like a missing one',
    async each => {
      const world = sharedWorld
      const before = stateOf(world)
      const others = await ask(world.alice, each, world, world.resources.bob)
      expect(others).toMatchObject(refused(404, 'not_found'))
      const none = await ask(world.alice, each, world, world.resources.none)
      expect(comparable(others)).toEqual(comparable(none))
      expect(stateOf(world)).toEqual(before)
    },
  )

  test.each(operators)("$name: an operator's route is refused for any owner", async each => {
    const world = sharedWorld
    const before = stateOf(world)
    for (const resources of Object.values(world.resources)) {
      expect(await ask(world.alice, each, world, resources)).toMatchObject(refused(403, 'forbidden'))
    }
    expect(stateOf(world)).toEqual(before)
  })

  test("filters by another person's key find nothing", async () => {
    await using world = await createWorld()
    const { alice, resources } = world
    expect((await alice.get(`/api/receipts?key=${resources.alice.key}`)).text).toContain(resources.alice.receipt)
    expect((await alice.get(`/api/receipts?key=${resources.bob.key}`)).body).toEqual({ items: [], next: null })
  })

  test("a cursor of another person's list returns nothing of theirs", async () => {
    await using world = await createWorld()
    const { alice, bob, rig, resources } = world
    await rig.store.credit({ account: bob.accountId, amount: 1n, reference: 'another', actor: 'test' })
    const { next } = (await bob.get<{ next: string }>('/api/entries?limit=1')).body
    const page = await alice.get(`/api/entries?limit=100&after=${encodeURIComponent(next)}`)
    for (const secret of Object.values(resources.bob)) expect(page.text).not.toContain(secret)
  })

  test('two people of one account see the same', async () => {
    await using world = await createWorld()
    const carol = await world.rig.member('carol@example.com', world.alice.accountId)
    for (const path of ['/api/account', '/api/keys', '/api/budgets', '/api/receipts', '/api/entries', '/api/usage']) {
      expect((await carol.get(path)).body, path).toEqual((await world.alice.get(path)).body)
    }
  })
})

describe('an operator', () => {
  test.each(operators)('$name: answers, with a session', async each => {
    await using world = await createWorld()
    expect(await ask(world.operator, each, world, world.resources.alice)).toMatchObject({ status: goodStatus(each) })
  })

  test.each(operators)('$name: answers, with a token on the admin listener', async each => {
    await using world = await createWorld()
    expect(await ask(world.machine, each, world, world.resources.alice)).toMatchObject({ status: goodStatus(each) })
  })

  test.each(operators.filter(({ row }) => row.named))('$name: a missing resource is not found', async each => {
    const world = sharedWorld
    const before = stateOf(world)
    expect(await ask(world.operator, each, world, world.resources.none)).toMatchObject(refused(404, 'not_found'))
    expect(await ask(world.machine, each, world, world.resources.none)).toMatchObject(refused(404, 'not_found'))
    expect(stateOf(world)).toEqual(before)
  })

  test.each(personal.filter(({ row }) => row.owned))(
    "$name: a person's route is for their own account only",
    async each => {
      await using world = await createWorld()
      expect(await ask(world.operator, each, world, world.resources.alice)).toMatchObject(refused(404, 'not_found'))
    },
  )
})

describe('wrong credentials', () => {
  test.each([...personal, ...operators])('$name: the dashboard accepts neither keys nor tokens', async each => {
    const world = sharedWorld
    const before = stateOf(world)
    for (const secret of [world.apiKey, world.token]) {
      const headers = { authorization: `Bearer ${secret}`, 'x-api-key': secret }
      const reply = await ask(world.anonymous, each, world, world.resources.alice, headers)
      expect(reply).toMatchObject(refused(401, 'not_signed_in'))
      // Nor as the session cookie.
      const cookie = await ask(world.anonymous, each, world, world.resources.alice, { cookie: `tollgate=${secret}` })
      expect(cookie).toMatchObject(refused(401, 'not_signed_in'))
    }
    expect(stateOf(world)).toEqual(before)
  })

  test.each(operators)('$name: the admin listener accepts neither keys nor sessions', async each => {
    const world = sharedWorld
    const before = stateOf(world)
    const admin = world.rig.machine()
    const session = world.operator.cookie!
    for (const headers of [
      {},
      { cookie: `tollgate=${session}` },
      { authorization: `Bearer ${session}` },
      { authorization: `Bearer ${world.apiKey}` },
      { authorization: `Basic ${Buffer.from(`x:${world.token}`).toString('base64')}` },
      { authorization: `Bearer ${world.token}x` },
      { authorization: `Bearer ${world.token} x` },
      { authorization: 'Bearer ' },
      { 'x-api-key': world.token },
    ]) {
      const reply = await ask(admin, each, world, world.resources.alice, headers)
      expect(reply, JSON.stringify(headers)).toMatchObject(refused(401, 'unauthorized'))
      expect(reply.headers['www-authenticate']).toBe('Bearer')
    }
    expect(stateOf(world)).toEqual(before)
  })

  test.each([...personal, ...open.filter(({ route }) => route !== DESCRIPTION)])(
    '$name: is not on the admin listener',
    async each => {
      const world = sharedWorld
      const before = stateOf(world)
      expect(await ask(world.machine, each, world, world.resources.alice)).toMatchObject(refused(404, 'unknown_url'))
      expect(stateOf(world)).toEqual(before)
    },
  )

  test('a revoked or expired token is refused', async () => {
    await using world = await createWorld()
    const { rig, machine } = world
    const { people } = rig.store
    const short = await people.createToken({ name: 'short', expiresAt: rig.clock.ms + 1000, createdBy: 'test' })
    expect((await rig.machine(short.secret).get('/api/operator/plans')).status).toBe(200)
    rig.clock.ms += 1000
    expect((await rig.machine(short.secret).get('/api/operator/plans')).status).toBe(401)
    expect((await machine.get('/api/operator/plans')).status).toBe(200)
    for (const { id } of await people.tokens()) await people.revokeToken(id)
    expect((await machine.get('/api/operator/plans')).status).toBe(401)
  })
})

function ask(
  client: Client,
  { route, row }: Case,
  world: World,
  resources: Resources,
  headers: NonNullable<CallOptions['headers']> = {},
): Promise<Reply> {
  const { path = {}, query, body }: RouteInput = row.send(resources, world)
  const filled = route.path.replace(/\{(\w+)\}/g, (_, name: string) => path[name]!)
  const takesBody = hasRequestBody(route)
  return client.call(route.method, query === undefined ? filled : `${filled}?${query}`, {
    ...(takesBody ? { body: body ?? {} } : {}),
    headers,
  })
}

function goodStatus({ route }: Case): number {
  return route.status ?? (route.answers === null ? 204 : 200)
}

function refused(status: number, code: string) {
  return { status, body: { error: { code } } }
}

/** An answer without the fields that name this one request. */
function comparable({ headers: { date, 'x-request-id': id, ...headers }, ...rest }: Reply) {
  return { ...rest, headers }
}

/** All state that a request could have changed. */
function stateOf(world: World): unknown {
  const { people } = world.rig.store.reads
  return [
    ofTenant(world, world.resources.alice),
    ofTenant(world, world.resources.bob),
    world.rig.store.reads.listAccounts(),
    people.list(),
    people.links(),
    people.tokens(),
    [world.alice, world.bob, world.operator].map(({ cookie }) => people.findSession(cookie!)),
  ]
}

function ofTenant({ rig: { store } }: World, { account, person, email }: Resources): unknown {
  const { entries, receipts } = store.reads.reports
  return [
    store.reads.findAccount(account),
    store.reads.listKeys(account),
    store.reads.people.find(person),
    store.reads.people.findByEmail(email),
    entries(account, { limit: 100 }),
    receipts(account, { limit: 100 }),
  ]
}
