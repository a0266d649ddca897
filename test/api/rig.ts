/**
 * The account API on real listeners, with a real store in memory and a test clock. Its clients behave like
 * a browser (a cookie jar, the headers of our own page) or like an operator's machine.
 *
 * Every answer is checked against the schema of its route, and every error against the route's error codes.
 * So a test that calls a route tests its description too.
 *
 * @example
 * await using rig = await startRig()
 * const alice = await rig.member('alice@example.com')
 * const { body } = await alice.post<IssuedKeyView>('/api/keys', { name: 'first' })
 */

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { Agent, createServer, type IncomingHttpHeaders, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect } from 'vitest'
import { type ErrorEnvelope, type Log, type Model, parseMoney, plainPrice } from '#contract'
import type { ApiParts } from '../../src/api/api-parts.ts'
import { deviceCookieName } from '../../src/api/known-clients.ts'
import { createObservers } from '../../src/api/observers.ts'
import { errorCodesOf } from '../../src/api/openapi.ts'
import { createPasswords, type Derive } from '../../src/api/password.ts'
import type { ApiRoute } from '../../src/api/route.ts'
import { ROUTES } from '../../src/api/routes.ts'
import type { Schema } from '../../src/api/schema.ts'
import { SCHEMAS, type SchemaName } from '../../src/api/schemas.ts'
import { type ApiListener, createApi } from '../../src/api/server.ts'
import { cookieName } from '../../src/api/sessions.ts'
import { createGuard, type Guard } from '../../src/api/sign-in.ts'
import { createAjv } from '../../src/api/validate.ts'
import { type AppParts, createAdminApp, createDashboardApp, createJsonReader } from '../../src/app.ts'
import type { Generation } from '../../src/request/generation.ts'
import { openStore } from '../../src/store/engine/sqlite.ts'
import { createIds } from '../../src/store/ids.ts'
import type { LocalStore } from '../../src/store/local-store.ts'
import type { Membership, Person, Role } from '../../src/store/people/people.ts'
import { SECRET, type TestClock, testClock } from '../store/helpers.ts'

/** The password of every person in a rig. */
export const PASSWORD = 'correct horse battery'

export interface RigOptions {
  /** Replaces parts of the API. */
  readonly parts?: Partial<ApiParts>
  /** Behind a proxy: `https://gate.example.com`. Default: plain http on loopback. */
  readonly dashboardUrl?: string
  /** Computes the password hashes. Default: SHA-256, because the real hash takes 19 MiB. */
  readonly derive?: Derive
  readonly routes?: readonly ApiRoute[]
  /** The configured host of the admin listener, which is on loopback. Default: loopback. */
  readonly adminHost?: string
  /** Access to /metrics. Default: open. */
  readonly metrics?: 'token' | 'open'
  /** Problems with the files on disk. */
  readonly configurationProblem?: string
}

/** A reply. `body` is parsed if it is JSON. */
export interface Reply<Body = unknown> {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  readonly body: Body
}

export interface CallOptions {
  readonly body?: unknown
  /** Sent unchanged, in place of `body`. */
  readonly raw?: string
  /** Added to or replacing the client's own; undefined removes one. */
  readonly headers?: Readonly<Record<string, string | undefined>>
}

/** The test chooses the type of a body; the rig checks the body against the schema of the route. */
export interface Client {
  call<Body>(method: string, path: string, options?: CallOptions): Promise<Reply<Body>>
  get<Body>(path: string): Promise<Reply<Body>>
  post<Body>(path: string, body?: unknown): Promise<Reply<Body>>
  put<Body>(path: string, body?: unknown): Promise<Reply<Body>>
  patch<Body>(path: string, body?: unknown): Promise<Reply<Body>>
  delete<Body>(path: string): Promise<Reply<Body>>
}

/** A client of the dashboard listener that keeps cookies. */
export interface Browser extends Client {
  /** The session's secret; null when signed out. */
  cookie: string | null
  /** The cookie of a known browser; null before the first sign-in. */
  device: string | null
}

export interface SignedIn extends Browser {
  readonly person: Person
  readonly accountId: string
}

export interface Rig extends AsyncDisposable {
  readonly store: LocalStore
  readonly clock: TestClock
  readonly parts: ApiParts
  readonly guard: Guard
  /** The origin of the page. */
  readonly origin: string
  readonly ports: { readonly dashboard: number; readonly admin: number }
  readonly log: readonly Readonly<Record<string, unknown>>[]
  /** The number of passwords hashed so far. */
  hashes(): number
  browser(): Browser
  /** A client of the admin listener. */
  machine(token?: string): Client
  /** A person with their own account and $10, or one who joins an account, signed in. */
  member(email: string, accountId?: string): Promise<SignedIn>
  operator(email?: string): Promise<SignedIn>
  /** An operator's token. */
  token(name?: string): Promise<string>
}

/** On a slow machine a client may need minutes to send its request. */
const NO_TIMEOUTS = { headersTimeout: 0, requestTimeout: 0 }

export async function startRig(options: RigOptions = {}): Promise<Rig> {
  const clock = testClock()
  const store = await openStore({ url: 'memory', secret: SECRET, clock })
  const log: Record<string, unknown>[] = []
  let hashes = 0
  const derive: Derive = options.derive ?? quickly
  const passwords = createPasswords(parameters => {
    hashes++
    return derive(parameters)
  })
  // Set before the first request.
  const ports = { dashboard: 0, admin: 0 }
  const origins = () =>
    options.dashboardUrl === undefined
      ? [`http://127.0.0.1:${ports.dashboard}`, `http://localhost:${ports.dashboard}`]
      : [options.dashboardUrl]
  const parts: ApiParts = { ...plainParts(store, clock, lines(log)), origins, ...options.parts }
  const guard = createGuard(parts, passwords)
  const routes = options.routes ?? ROUTES
  const around = appParts(log, options)
  const api = (listener: ApiListener) => createApi(parts, listener, { readJson: createJsonReader(), guard, routes })
  const servers = [
    createDashboardApp(around, api('dashboard'), (_, next) => next()),
    createAdminApp(around, api('admin'), createObservers(store, clock)),
  ].map(app => createServer(NO_TIMEOUTS, app.callback()))
  ;[ports.dashboard, ports.admin] = (await Promise.all(servers.map(listen))) as [number, number]
  const origin = origins()[0]!
  const agent = new Agent({ keepAlive: true })
  // The admin listener has only the routes for operators.
  const clientOf = (port: number) =>
    createClient({ port, agent, routes: routes.filter(each => port !== ports.admin || each.audience === 'operator') })

  function browser(): Browser {
    const jar: { cookie: string | null; device: string | null } = { cookie: null, device: null }
    const secure = origin.startsWith('https:')
    const names = [
      ['cookie', cookieName(secure)],
      ['device', deviceCookieName(secure)],
    ] as const
    const client = clientOf(ports.dashboard)
    const call = async (method: string, path: string, { headers, ...rest }: CallOptions = {}): Promise<Reply> => {
      const cookies = names.flatMap(([kind, name]) => (jar[kind] === null ? [] : [`${name}=${jar[kind]}`]))
      const own = {
        host: new URL(origin).host,
        ...(cookies.length === 0 ? {} : { cookie: cookies.join('; ') }),
        ...(method === 'GET' || method === 'HEAD'
          ? { 'sec-fetch-site': 'same-origin' }
          : { origin, 'sec-fetch-site': 'same-origin', 'x-tollgate-dashboard': '1' }),
      }
      const reply = await client(method, path, { ...rest, headers: { ...own, ...headers } })
      for (const set of reply.headers['set-cookie'] ?? []) {
        const [pair = ''] = set.split(';')
        for (const [kind, name] of names) {
          if (pair.startsWith(`${name}=`)) jar[kind] = pair.slice(name.length + 1) || null
        }
      }
      return reply
    }
    return Object.assign(jar, verbs(call))
  }

  async function signIn(email: string, role: Role, membership: Membership): Promise<SignedIn> {
    const password = await passwords.hash(PASSWORD)
    const person = await store.people.create({ email, password, role, membership })
    const own = browser()
    own.cookie = await store.people.createSession(person.id)
    return Object.assign(own, { person, accountId: person.accountId })
  }

  const stop = async () => {
    agent.destroy()
    for (const server of servers) server.closeAllConnections()
    await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
    await store.close()
  }

  return {
    store,
    clock,
    parts,
    guard,
    origin,
    ports,
    log,
    hashes: () => hashes,
    browser,
    machine(token) {
      const client = clientOf(ports.admin)
      const own = token === undefined ? {} : { authorization: `Bearer ${token}` }
      return verbs((method, path, { headers, ...rest } = {}) =>
        client(method, path, { ...rest, headers: { ...own, ...headers } }),
      )
    },
    member: (email, accountId) =>
      signIn(
        email,
        'member',
        accountId === undefined ? { name: email, plan: 'default', credit: parseMoney('10') } : { accountId },
      ),
    operator: (email = 'operator@example.com') =>
      signIn(email, 'operator', { name: email, plan: 'default', credit: 0n }),
    async token(name = 'a machine') {
      const { secret } = await store.people.createToken({ name, expiresAt: null, createdBy: 'test' })
      return secret
    },
    [Symbol.asyncDispose]: stop,
  }
}

/** $1 and $2 a million: 1,000 and 2,000 nano-dollars a token. */
export const MODEL_PRICE = plainPrice({
  input: parseMoney('1'),
  cached_input: parseMoney('0.1'),
  cache_write: parseMoney('1.25'),
  output: parseMoney('2'),
  request: 0n,
})

export function aModel(id: string, change: Partial<Model> = {}): Model {
  return {
    id,
    targets: [],
    price: MODEL_PRICE,
    context: 131_072,
    maxOutput: 16_384,
    defaultOutput: 4096,
    reasoning: false,
    inputOverhead: 1024,
    allow: [],
    public: true,
    enabled: true,
    created: 1_800_000_000,
    ownedBy: 'tollgate',
    description: null,
    ...change,
  }
}

const MODELS: readonly Model[] = [
  aModel('m'),
  aModel('free', { price: null }),
  aModel('hidden', { public: false }),
  aModel('off', { enabled: false }),
]

function plainParts(store: LocalStore, clock: TestClock, log: Log): ApiParts {
  return {
    store,
    clock,
    log,
    version: '0.0.0-test',
    startedAt: clock.now(),
    registration: { mode: 'open', credit: parseMoney('1'), plan: 'default' },
    origins: () => [],
    budgetRules: () => new Map(),
    baseUrl: () => 'http://127.0.0.1:8080/v1',
    models: () => MODELS,
    plans: () => null,
    aliases: id => (id === 'm' ? ['m-latest'] : []),
    readiness: () => ({ ready: true }),
    past: {
      exchange: async () => undefined,
      shadow: () => ({ since: new Date(clock.now()).toISOString(), steps: [] }),
      most: 10_000,
    },
    exchanges: async () => [],
    counts: async () => ({ inflight: 0, openHolds: 0 }),
    providers: async () => [],
    configuration: async () => ({
      files: [],
      loaded_at: new Date(clock.now()).toISOString(),
      problems: [],
      routes: [],
    }),
    playground: () => null,
  }
}

function lines(log: Record<string, unknown>[]): Log {
  const write = (level: string) => (fields: Readonly<Record<string, unknown>>, msg: string) =>
    void log.push({ level, ...fields, msg })
  return { info: write('info'), warn: write('warn'), error: write('error') }
}

/** The parts of the gateway that app.ts needs; one trusted proxy, so that a test can choose the client address. */
function appParts(log: Record<string, unknown>[], options: RigOptions): AppParts {
  const admin = { host: options.adminHost ?? '127.0.0.1', port: 0 }
  const { metrics = 'open', configurationProblem: configuration } = options
  const ids = createIds(testClock())
  return {
    generation: () => ({ configuration: { trustProxy: 1, admin, metrics } }) as Generation,
    nextId: () => ids.next('req_'),
    ready: () => ({ ready: true, ...(configuration === undefined ? {} : { configuration }) }),
    metrics: async () => ({ type: 'text/plain', text: 'up 1\n' }),
    reportBug: (exchange, err) => log.push({ level: 'error', exchange, err, msg: 'bug' }),
  }
}

async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

const quickly: Derive = async ({ message, nonce }) =>
  createHash('sha256')
    .update(message as Uint8Array)
    .update(nonce as Uint8Array)
    .digest()

type Call = (method: string, path: string, options?: CallOptions) => Promise<Reply>

function verbs(call: Call): Client {
  const typed = <Body>(...asked: Parameters<Call>) => call(...asked) as Promise<Reply<Body>>
  return {
    call: typed,
    get: path => typed('GET', path),
    post: (path, body = {}) => typed('POST', path, { body }),
    put: (path, body = {}) => typed('PUT', path, { body }),
    patch: (path, body = {}) => typed('PATCH', path, { body }),
    delete: path => typed('DELETE', path),
  }
}

interface ClientOptions {
  readonly port: number
  readonly agent: Agent
  readonly routes: readonly ApiRoute[]
}

function createClient({ port, agent, routes }: ClientOptions): Call {
  return async (method, path, { body, raw, headers = {} } = {}) => {
    const sent = raw ?? (body === undefined ? undefined : JSON.stringify(body))
    const own = sent === undefined ? {} : { 'content-type': 'application/json' }
    const all = Object.entries({ ...own, ...headers }).filter((pair): pair is [string, string] => pair[1] !== undefined)
    const asked = request({ host: '127.0.0.1', port, agent, method, path, headers: Object.fromEntries(all) })
    asked.end(sent)
    const [answer] = await once(asked, 'response')
    const received = await text(answer)
    const isJson = String(answer.headers['content-type']).startsWith('application/json')
    const reply: Reply = {
      status: answer.statusCode,
      headers: answer.headers,
      text: received,
      body: isJson && received !== '' ? JSON.parse(received) : received,
    }
    checkReply(method, path, reply, routes)
    return reply
  }
}

const ajv = createAjv(false)
for (const [name, schema] of Object.entries(SCHEMAS))
  ajv.addSchema({ $id: `view:${name}`, ...withViewReferences(schema) })

/** Replaces references into the API description by the ids that `ajv` has. */
function withViewReferences(schema: Schema): Schema {
  return JSON.parse(JSON.stringify(schema).replaceAll('"#/components/schemas/', '"view:'))
}

/** Throws unless a value matches the schema of this name. */
export function checkView(name: SchemaName, value: unknown): void {
  const validate = ajv.getSchema(`view:${name}`)!
  if (!validate(value)) throw new Error(`not a ${name}: ${ajv.errorsText(validate.errors)}\n${JSON.stringify(value)}`)
}

/** The route of a path, for tests: of those that match, the one with the fewest parameters. */
export function routeOf(method: string, path: string, routes: readonly ApiRoute[] = ROUTES): ApiRoute | undefined {
  const [pathname = ''] = path.split('?')
  const fits = (route: ApiRoute) =>
    new RegExp(`^${route.path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`).test(pathname)
  return routes
    .filter(route => route.method === (method === 'HEAD' ? 'GET' : method) && fits(route))
    .sort((a, b) => a.path.split('{').length - b.path.split('{').length)[0]
}

function checkReply(method: string, path: string, reply: Reply, routes: readonly ApiRoute[]): void {
  if (method === 'HEAD' || !path.startsWith('/api/')) return
  const what = `${method} ${path}: ${reply.status} ${reply.text.slice(0, 300)}`
  expect(reply.headers['cache-control'], what).toBe('no-store')
  const route = routeOf(method, path, routes)
  if (reply.status >= 400) {
    checkView('ErrorView', reply.body)
    if (route) expect(errorCodesOf(route), what).toContain((reply.body as ErrorEnvelope).error.code)
    return
  }
  if (!route || route.answers === 'document') return
  expect(reply.status, what).toBe(route.status ?? (route.answers === null ? 204 : 200))
  if (route.answers === null) expect(reply.text).toBe('')
  else if (route.answers === 'csv') expect(reply.headers['content-type']).toBe('text/csv; charset=utf-8')
  else if (route.answers === 'events') expect(reply.headers['content-type']).toMatch(/^text\/event-stream/)
  else checkView(route.answers, reply.body)
}
