/** The Koa application and its listeners: everything before the route is known, and everything that all answers share. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import Koa, { type Context } from 'koa'
import Router from 'koa-router'
import { asksModel, type ErrorCode, isRefusal, type Refusal, type RouteKind, refuse, retryHeaders } from '#contract'
import type { Address, Limits } from './config/configuration.ts'
import { isLoopback, urlHost } from './config/listen-address.ts'
import type { Gateway } from './gateway.ts'
import { parseJson } from './providers/dialects/json-parse.ts'
import { type Generation, type LiveRoute, routeFor } from './request/generation.ts'
import { headProblem, mediaTypeProblem, wantsUpgrade, wantsWebSocket } from './request/http/ambiguous.ts'
import { dropUnread, noteKnown, requestOwner, watchArrivals } from './request/http/arrivals.ts'
import { readBody } from './request/http/body.ts'
import { clientAddress } from './request/http/client-address.ts'
import { ClientRequest } from './request/http/client-request.ts'
import { Connections } from './request/http/connections.ts'
import { allowOrigins } from './request/http/cors.ts'
import { CutResponse } from './request/http/cut-response.ts'
import { guardAnswerAfterNext, skipKoaAfterGatewayAnswers } from './request/http/koa.ts'
import { lingerAtEnd } from './request/http/linger.ts'
import { answerMalformed, answerUnserved, refuseBody } from './request/http/malformed.ts'
import type { Overload } from './request/http/overload.ts'
import { THREAD_QUEUE } from './request/http/owners.ts'
import { Shares } from './request/http/shares.ts'
import { refusalOfUnknown } from './request/http/unknown-url.ts'
import { errorBody, sendRefusal } from './request/send/refusal.ts'

/** `configuration`: the problem of the files on disk, while an older configuration serves. */
export interface Readiness {
  readonly ready: boolean
  readonly reason?: string
  readonly configuration?: string
}

/** The answer to `GET /` on the clients' listener. */
export interface About {
  /** The base URL for clients; it ends in /v1. */
  readonly baseUrl: string
  /** The URL of the dashboard; null without one. */
  readonly dashboard: string | null
}

export interface AppParts {
  generation(): Generation
  nextId(): string
  /** Whether the gateway accepts new work; answers /readyz. May run checks first. */
  ready(): Readiness | Promise<Readiness>
  /** Returns the text of /metrics, for the operators' listener only. @param accept the `Accept` header */
  metrics(accept: string): Promise<{ readonly type: string; readonly text: string }>
  reportBug(exchange: string, error: unknown): void
}

/** `refused` counts requests that never become an exchange. */
type HealthParts = Omit<AppParts, 'metrics'> & { refused?(code: ErrorCode): void }

export interface ClientAppParts extends HealthParts {
  readonly gateway: Gateway
  /** The URLs for clients and people; undefined while the gateway starts, or without a listener. */
  about?(): About | undefined | Promise<About | undefined>
}

/** The application for clients: policies and routes of the current generation. */
export function createClientApp(parts: ClientAppParts): Koa {
  const app = createApp(parts)
  let router: { readonly generation: Generation; readonly routes: Koa.Middleware } | null = null
  let cors: Koa.Middleware | null = null
  app.use((ctx, next) => {
    const generation = parts.generation()
    const { hosts, corsOrigins } = generation.configuration
    if (hosts && !hosts.includes(ctx.hostname.toLowerCase())) throw refuse('unknown_host')
    if (router?.generation !== generation) {
      router = { generation, routes: createRoutes(parts, generation) }
      cors = allowOrigins(corsOrigins)
    }
    const { routes } = router
    return cors === null ? routes(ctx as never, next) : cors(ctx, () => routes(ctx as never, next))
  })
  app.use(async ctx => {
    const isRoot = ctx.path === '/' && (ctx.method === 'GET' || ctx.method === 'HEAD')
    const about = isRoot ? await parts.about?.() : undefined
    if (about === undefined) {
      const paths = parts.generation().routes.map(route => route.config.path)
      throw refusalOfUnknown(ctx.method, ctx.path, paths)
    }
    ctx.set('cache-control', 'no-store')
    ctx.body = welcome(about)
  })
  return app
}

function welcome({ baseUrl, dashboard }: About): object {
  return {
    message: 'This is a Tollgate gateway. Point clients at base_url, with a key as their API key.',
    base_url: baseUrl,
    dashboard,
    docs: dashboard === null ? null : `${dashboard}/api/openapi.json`,
  }
}

/** The application for people: the account API, and the page for all other paths. */
export function createDashboardApp(parts: AppParts, api: Koa.Middleware, page: Koa.Middleware): Koa {
  const app = createApp(parts)
  app.use(page)
  app.use(api)
  return app
}

/**
 * The application for operators: their part of the account API, metrics, and health.
 *
 * @param isOperator whether a request carries an operator's token
 */
export function createAdminApp(
  parts: AppParts,
  api: Koa.Middleware,
  isOperator: (ctx: Context) => Promise<boolean>,
): Koa {
  const mayObserve = async (ctx: Context) =>
    parts.generation().configuration.metrics === 'open' || (await isOperator(ctx))
  const app = createApp(parts, mayObserve)
  app.use((ctx, next) => {
    checkLocalName(ctx.hostname, parts.generation().configuration.admin)
    return next()
  })
  app.use(api)
  app.use(async ctx => {
    if (ctx.path !== '/metrics') throw refuse('unknown_url')
    if (ctx.method !== 'GET') throw refuse('method_not_allowed', { headers: { allow: 'GET' } })
    if (!(await mayObserve(ctx))) {
      throw refuse('unauthorized', {
        message: "Metrics need an operator's token here: Authorization: Bearer tg_oper_...",
        headers: { 'www-authenticate': 'Bearer' },
      })
    }
    const { type, text } = await parts.metrics(ctx.get('accept'))
    ctx.type = type
    ctx.body = text
  })
  return app
}

/**
 * On loopback, only names of this machine are accepted. Any other name may come from a hostile page (DNS rebinding). Beyond loopback, the
 * operator chooses the names.
 */
function checkLocalName(hostname: string, admin: Address | null): void {
  if (!admin || !isLoopback(urlHost(admin.host)) || isLoopback(hostname.toLowerCase())) return
  throw refuse('unknown_host', {
    message:
      'The admin listener is on loopback, and serves the names of this machine only: localhost, 127.0.0.1, [::1].',
  })
}

/**
 * Shared by all applications: the request id, the error boundary, the checks of the head, and health.
 * @param isForOperators whether the requester may see file names and lines
 */
function createApp(parts: HealthParts, isForOperators: (ctx: Context) => Promise<boolean> = async () => false): Koa {
  const app = new Koa()
  // Koa does not print errors: the boundary below sees all of them first.
  app.silent = true
  guardAnswerAfterNext(app)
  skipKoaAfterGatewayAnswers(app)
  const fail = (ctx: Context, error: unknown): void => {
    const id = ctx.state['requestId'] as string
    if (!isRefusal(error)) parts.reportBug(id, error)
    const refusal = isRefusal(error) ? error : refuse('internal_error')
    parts.refused?.(refusal.code)
    const body = errorBody(ctx.req, ctx.state['kind'] as RouteKind | undefined, refusal, id)
    sendRefusal(ctx, refusal, body, (status, headers, body) => {
      ctx.status = status
      ctx.set(headers)
      ctx.body = body
    })
  }
  const pass = (ctx: Context, next: Koa.Next): Promise<void> => {
    const problem = headProblem(ctx.req)
    // A proxy that sees another end of this request must not find a second request after it.
    if (problem) ctx.res.shouldKeepAlive = false
    if (problem) throw problem
    if (ctx.path === '/livez' || ctx.path === '/readyz') return answerHealth(ctx, parts, isForOperators)
    ctx.state['address'] = clientAddress(ctx.req, parts.generation().configuration.trustProxy)
    return next()
  }
  app.use((ctx, next) => {
    ctx.res.setHeader('x-request-id', (ctx.state['requestId'] = parts.nextId()))
    try {
      return pass(ctx, next).catch((error: unknown) => fail(ctx, error))
    } catch (error) {
      return fail(ctx, error)
    }
  })
  return app
}

/** The owner of a body, and its limit. */
interface ApiBody {
  readonly limitBytes: number
  readonly owner: string
  /** Unauthenticated senders have room of their own. */
  readonly isStranger: boolean
}

/** The limit for all unread bodies at one listener. */
const API_BODIES_BYTES = 16 * 1024 * 1024
/** The limit for one address or one person: four conversations of the playground. */
const API_SHARE_BYTES = 1024 * 1024

/**
 * Reads the JSON bodies at one listener of the account API, as strictly as those of clients. Each listener has its own room, and so have
 * unauthenticated senders. Bodies that never end therefore block neither the other listener nor people who are signed in.
 */
export function createJsonReader(): (ctx: Context, of: ApiBody) => Promise<unknown> {
  const limits = { total: () => API_BODIES_BYTES, share: () => API_SHARE_BYTES }
  const known = new Shares(limits)
  const strangers = new Shares(limits)
  return async ({ req, res }, { limitBytes, owner, isStranger }) => {
    const problem = mediaTypeProblem(req)
    if (problem) throw problem
    if (!isStranger) noteKnown(req, THREAD_QUEUE.owners.account(owner))
    const body = await readBody(req, res, { bytes: limitBytes }, (isStranger ? strangers : known).of(owner))
    try {
      return parseJson(body.bytes)
    } finally {
      body.release()
    }
  }
}

function createRoutes({ gateway }: ClientAppParts, generation: Generation): Koa.Middleware {
  // Strict: two paths that differ in case or in a last slash may have two policies.
  const router = new Router({ sensitive: true, strict: true })
  /** Most requests are for one of these; the router's patterns are skipped. */
  const exact = new Map<string, Koa.Middleware>()
  for (const [path, routes] of Map.groupBy(generation.routes, ({ config }) => config.path)) {
    const [route] = routes as [LiveRoute]
    const { methods } = route.config
    const takesOptions = routes.some(({ plan }) => plan.steps.some(step => step.foreign))
    const serve = (ctx: Koa.ParameterizedContext, id: string): Promise<void> => {
      ctx.state['kind'] = route.config.kind
      if (!methods.includes(ctx.method) && !(takesOptions && ctx.method === 'OPTIONS')) {
        if (asksModel(route.config.kind) && wantsWebSocket(ctx.req)) throw refuse('websocket_not_supported')
        const message = `${ctx.method} is not for ${path}; use ${methods.join(' or ')}.`
        throw refuse('method_not_allowed', { message, headers: { allow: methods.join(', ') } })
      }
      if (ctx.method === 'POST' && asksModel(route.config.kind)) {
        const problem = mediaTypeProblem(ctx.req)
        if (problem) throw problem
      }
      ctx.state['id'] = id
      return gateway.handle(ctx as unknown as Context, routeFor(ctx.req.rawHeaders, routes), generation)
    }
    if (/^[\w/.~-]+$/.test(path)) exact.set(path, ctx => serve(ctx, ''))
    else router.all(path.replace('{id}', '*id'), ctx => serve(ctx, idOf(ctx.params['id'])))
  }
  const patterns = router.routes() as unknown as Koa.Middleware
  return (ctx, next) => (exact.get(ctx.path) ?? patterns)(ctx, next)
}

/** The router decodes a wildcard's segments one by one. Joining them restores an id that contains slashes. */
function idOf(parameter: unknown): string {
  return Array.isArray(parameter) ? parameter.join('/') : String(parameter ?? '')
}

const REFUSED_RELOAD = 'the last reload was refused: the log says why'

/** `/livez` checks the process, `/readyz` whether it should receive requests. Neither asks a provider or the log. */
async function answerHealth(
  ctx: Context,
  { ready }: HealthParts,
  isForOperators: (ctx: Context) => Promise<boolean>,
): Promise<void> {
  if (ctx.method !== 'GET' && ctx.method !== 'HEAD')
    throw refuse('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
  const state: Readiness = ctx.path === '/livez' ? { ready: true } : await ready()
  ctx.status = state.ready ? 200 : 503
  ctx.set('cache-control', 'no-store')
  const { ready: isReady, reason, configuration } = state
  const known = configuration && ((await isForOperators(ctx)) ? configuration : REFUSED_RELOAD)
  ctx.body = isReady ? { status: 'ok', ...(known ? { configuration: known } : {}) } : { status: 'not ready', reason }
}

export interface Listener {
  readonly server: Server
  /** Refuses the requests whose bodies are still arriving. */
  cutBodies(refusal: Refusal): void
}

/** Creates an HTTP server with limits that Node leaves wide. @param work that of the thread, unless time is simulated */
export function createListener(
  app: Koa,
  limits: Limits,
  nextId: () => string,
  overload?: Overload,
  work = THREAD_QUEUE,
): Listener {
  const callback = app.callback()
  const begin = (request: IncomingMessage, response: ServerResponse) => {
    // A closed server accepts no further request. Node's parser drops the bytes after an upgrade request.
    if (!server.listening || wantsUpgrade(request)) response.shouldKeepAlive = false
    if (overload?.isActive() && isRefused(request, overload)) {
      overload.refused()
      return refuseOverloaded(request, response, nextId())
    }
    void callback(request, response)
  }
  const connections = new Connections(begin, { isClosed: () => !server.listening, stallMs: () => stalls.get(server)! })
  const beginInTurn = (request: IncomingMessage, response: ServerResponse) => connections.begin(request, response)
  const server = createServer(
    {
      IncomingMessage: ClientRequest,
      ServerResponse: CutResponse,
      connectionsCheckingInterval: 1000,
      keepAliveTimeout: 75_000, // longer than load balancers keep theirs, so that they close first
      // Memory of a client that does not read; the pump stops at the first `false`. (Node's 64 KiB cost 40 KiB more each.)
      highWaterMark: 16 * 1024,
      maxHeaderSize: 16 * 1024,
      // Node would answer without JSON; `headProblem` refuses these instead.
      requireHostHeader: false,
    },
    beginInTurn,
  )
  setTimeouts(server, limits)
  watchArrivals(server, work)
  // `readBody` sends `100 Continue` when it reads the body.
  for (const event of ['checkContinue', 'checkExpectation']) server.on(event, beginInTurn)
  server.once('listening', () => {
    const look = setInterval(() => connections.cutStalled(performance.now()), STALLS_EVERY_MS)
    look.unref()
    server.once('close', () => clearInterval(look))
  })
  server.on('clientError', (error, socket) => {
    dropUnread(socket)
    const target = connections.giveUp(socket)
    if (target !== 'none') answerMalformed(error, socket, { isInProgress: target === 'current', requestId: nextId() })
  })
  server.on('connect', (_request, socket) => {
    answerUnserved(socket, refuse('bad_request', { message: 'The request target must be a path.' }), nextId())
  })
  return {
    server,
    cutBodies(refusal) {
      for (const request of connections.current()) refuseBody(request, refusal)
    },
  }
}

/** Sets the limits that the server enforces itself. Call it again when the configuration changes. */
export function setTimeouts(server: Server, { headersMs, requestMs, stallMs }: Limits): void {
  Object.assign(server, { headersTimeout: headersMs, requestTimeout: requestMs })
  stalls.set(server, stallMs)
}

/** In milliseconds. Node's servers have no timeout for a client that does not read its answer. */
const stalls = new WeakMap<Server, number>()
const STALLS_EVERY_MS = 1000

/** A malformed head is always answered, because a proxy sends requests of many clients on one connection. */
function isRefused(request: IncomingMessage, overload: Overload): boolean {
  if (request.url === '/livez' || request.url === '/readyz' || headProblem(request) !== null) return false
  return overload.refuses(request, requestOwner(request))
}

/** Bypasses Koa: a refusal has to cost much less than an answer. */
function refuseOverloaded(request: IncomingMessage, response: ServerResponse, id: string): void {
  const refusal = refuse('overloaded', { retryAfterMs: 1000, detail: 'the event loop is overloaded' })
  const body = errorBody(request, undefined, refusal, id)
  const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers
  if (encoding !== undefined || Number(length) > LARGE_BODY_BYTES) {
    response.shouldKeepAlive = false
    lingerAtEnd(request)
  }
  response.writeHead(refusal.status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-store',
    'x-request-id': id,
    ...retryHeaders(refusal),
  })
  response.end(body)
}

const LARGE_BODY_BYTES = 64 * 1024

/**
 * Listens; resolves with the actual port. Rejects with the system's error (EADDRINUSE, EACCES).
 *
 * @param isShared several listeners of the process share the address, and the kernel distributes the connections
 */
export function listen(server: Server, { host, port }: Address, isShared = false): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host, reusePort: isShared }, () => {
      server.off('error', reject)
      const address = server.address()
      resolve(typeof address === 'object' && address !== null ? address.port : port)
    })
  })
}
