/**
 * The account API as a Koa middleware: finds the route, makes sure who asks and from where, checks what they send, lets the
 * route do its work and sends its answer. Refusals are thrown; the application around it (app.ts) makes the envelope.
 *
 * It has two doors. People come to the dashboard's with the cookie of a session; operators' machines come to the admin
 * listener's with a token, and find the operators' routes only. Neither takes the other's proof, nor an API key.
 */
import type { Context, Middleware } from 'koa'
import { isRefusal, type Refusal, refuse } from '#contract'
import { StoreError, StoreUnavailable } from '../../store/store.ts'
import { createCheck, type RouteCheck } from './check.ts'
import { createGuard, type Guard } from './guard.ts'
import { describeApi } from './openapi.ts'
import { checkJson, checkOwnPage, originOf } from './origin.ts'
import type { ApiParts } from './parts.ts'
import { type Answer, type ApiRoute, type Call, type Caller, route } from './route.ts'
import { ROUTES } from './routes.ts'
import { cookieFor, readCookie } from './sessions.ts'

/** Whose door it is: people's with their sessions, or operators' machines' with their tokens. */
export type Door = 'dashboard' | 'admin'

export interface ApiOptions {
  /** Reads the body as JSON: bounded in size and depth, without duplicate keys; throws refusals. */
  readonly readJson: (ctx: Context) => Promise<unknown>
  /** Only for tests: one that counts. */
  readonly guard?: Guard
  readonly routes?: readonly ApiRoute[]
}

/** Answers everything at and below `/api`; any other path is left to what comes next. */
export function createApi(parts: ApiParts, door: Door, options: ApiOptions): Middleware {
  const { readJson, guard = createGuard(parts), routes = ROUTES } = options
  const find = createTable([...routes.filter(each => isFor(each, door)), descriptionOf(routes, parts.version)])

  return async (ctx, next) => {
    if (ctx.path !== '/api' && !ctx.path.startsWith('/api/')) return next()
    ctx.set(HEADERS)
    const origin = door === 'dashboard' ? originOf(ctx.req, parts.origins()) : null
    const secure = origin?.startsWith('https:') ?? true
    const { entry, values } = find(ctx.method, ctx.path)
    const { method } = entry.route
    const changes = method !== 'GET'
    if (changes && door === 'dashboard') checkOwnPage(ctx.req, parts.origins())
    const takesBody = method === 'POST' || method === 'PATCH'
    if (takesBody) checkJson(ctx.req)
    else if (hasBody(ctx)) throw refuse('bad_request', { message: `A ${method} request has no body here.` })

    const caller = door === 'dashboard' ? await personOf(ctx, guard, secure) : machineOf(ctx, parts, entry.route)
    authorise(entry.route, caller, door)
    let about: Readonly<Record<string, string>> = {}
    try {
      const params = entry.check.params(values)
      about = values
      const query = entry.check.query(ctx.querystring)
      const body = takesBody ? entry.check.body(await readJson(ctx)) : undefined
      const call: Call = { caller, parts, guard, ctx, params, query, body }
      const answer = await inWords(() => entry.route.handle(call))
      about = { ...idIn(answer), ...values }
      send(ctx, answer, entry.route, secure)
    } catch (error) {
      const refused = isRefusal(error) ? error.code : 'failed'
      if (changes) writeDown(parts, entry.route, caller, { ...about, refused })
      throw error
    }
    if (changes) writeDown(parts, entry.route, caller, about)
  }
}

/** On every answer: it is kept by nobody, is what it says it is, and is for our own page. */
const HEADERS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
}

/** On the admin listener there are no people: only what an operator's token may do. */
function isFor({ audience }: ApiRoute, door: Door): boolean {
  return door === 'dashboard' || audience === 'operator'
}

/** The description is made of all routes, wherever they are served: it says which proof each takes. */
function descriptionOf(routes: readonly ApiRoute[], version: string): ApiRoute {
  const own = route({
    method: 'GET',
    path: '/api/openapi.json',
    summary: 'This description of the API.',
    audience: 'anyone',
    answers: 'document',
    handle: () => ({ body: document }),
  })
  const document = describeApi([...routes, own], version)
  return own
}

interface Entry {
  readonly route: ApiRoute
  readonly check: RouteCheck
  readonly parts: readonly string[]
}

/** Finds a route by method and path. Throws `unknown_url`, or `method_not_allowed` with those that are. */
function createTable(routes: readonly ApiRoute[]) {
  const entries: Entry[] = routes.map(each => ({ route: each, check: createCheck(each), parts: each.path.split('/') }))
  return (method: string, path: string): { readonly entry: Entry; readonly values: Record<string, string> } => {
    const segments = path.split('/')
    const here = entries
      .map(entry => ({ entry, values: match(entry.parts, segments) }))
      .filter((each): each is { entry: Entry; values: Record<string, string> } => each.values !== null)
    if (here.length === 0) throw refuse('unknown_url')
    // A path that is written out goes before one with a place for an id.
    const places = ({ values }: { readonly values: object }) => Object.keys(values).length
    const least = Math.min(...here.map(places))
    const nearest = here.filter(each => places(each) === least)
    const found = nearest.find(({ entry }) => entry.route.method === (method === 'HEAD' ? 'GET' : method))
    if (found) return found
    const allow = nearest.flatMap(({ entry: { route } }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]))
    throw refuse('method_not_allowed', { headers: { allow: allow.join(', ') } })
  }
}

/** The values of the path's places, or null when it is another path. As written: no case, no slash is forgiven. */
function match(pattern: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) return null
  const values: Record<string, string> = {}
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index]!
    if (!part.startsWith('{')) {
      if (part !== segment) return null
    } else if (segment === '') return null
    // An id is letters, digits and a few signs: what is encoded is none, and is not decoded to become one.
    else values[part.slice(1, -1)] = segment
  }
  return values
}

function hasBody({ req }: Context): boolean {
  return req.headers['transfer-encoding'] !== undefined || (req.headers['content-length'] ?? '0') !== '0'
}

/** Whose session's cookie it is. Without one: nobody. */
async function personOf(ctx: Context, { sessions }: Guard, secure: boolean): Promise<Caller> {
  const address = addressOf(ctx)
  const secret = readCookie(ctx.req.headers.cookie, secure)
  const session = secret === null ? undefined : await inWords(() => sessions.find(secret))
  if (!session) return { actor: 'nobody', person: null, session: null, address }
  return { actor: session.person.email, person: session.person, session: session.secret, address }
}

/** Whose token it is. The description needs none. */
function machineOf(ctx: Context, { store }: ApiParts, { audience }: ApiRoute): Caller {
  const address = addressOf(ctx)
  if (audience === 'anyone') return { actor: 'nobody', person: null, session: null, address }
  const [scheme, secret, ...more] = (ctx.req.headers.authorization ?? '').split(' ')
  const isBearer = scheme?.toLowerCase() === 'bearer' && secret !== undefined && more.length === 0
  const token = isBearer ? store.people.findToken(secret) : undefined
  if (!token) {
    throw refuse('unauthorized', {
      message: "Send an operator's token: Authorization: Bearer tg_oper_...",
      headers: { 'www-authenticate': 'Bearer' },
    })
  }
  return { actor: `token:${token.name}`, person: null, session: null, address }
}

function addressOf(ctx: Context): string {
  return String(ctx.state['address'] ?? ctx.req.socket.remoteAddress ?? '')
}

function authorise({ audience }: ApiRoute, { person }: Caller, door: Door): void {
  if (audience === 'anyone' || door === 'admin') return
  if (!person) throw refuse('not_signed_in')
  if (audience === 'operator' && person.role !== 'operator') {
    throw refuse('forbidden', { message: 'This is for operators of the gateway.' })
  }
}

/** What the store says of a caller's mistake, or of its own trouble, as a refusal. */
async function inWords<Result>(work: () => Promise<Result> | Result): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw asRefusal(error) ?? error
  }
}

function asRefusal(error: unknown): Refusal | null {
  if (error instanceof StoreUnavailable) {
    const message =
      error.written === 'unknown'
        ? 'The store could not say whether it has written this. Look before you try again.'
        : 'The store could not be written. Nothing was changed; try again.'
    return refuse('store_unavailable', { message, retryAfterMs: 1000, cause: error })
  }
  if (!(error instanceof StoreError)) return null
  switch (error.code) {
    case 'not_found':
      return refuse('not_found')
    case 'link_invalid':
      return refuse('link_invalid')
    case 'conflict':
      return refuse('conflict', { message: inSentence(error.message) })
    default:
      return refuse('invalid_value', { message: inSentence(error.message) })
  }
}

/** The store's messages are parts of sentences, for terminals. */
function inSentence(message: string): string {
  const text = message.charAt(0).toUpperCase() + message.slice(1)
  return /[.!?]$/.test(text) ? text : `${text}.`
}

function send(ctx: Context, answer: Answer, { status }: ApiRoute, secure: boolean): void {
  if ('stream' in answer) return
  if ('csv' in answer) {
    ctx.type = 'text/csv; charset=utf-8'
    ctx.attachment(answer.filename)
    ctx.body = answer.csv
    return
  }
  if (answer.session) ctx.set('set-cookie', cookieFor('begin' in answer.session ? answer.session.begin : null, secure))
  if ('body' in answer) {
    ctx.status = answer.status ?? status ?? 200
    ctx.type = 'application/json; charset=utf-8'
    ctx.body = JSON.stringify(answer.body)
  } else ctx.status = 204
}

/** The id of what was made: the answer's own, or that of the thing it is about. */
function idIn(answer: Answer): { readonly id?: string } {
  if (!('body' in answer)) return {}
  const own = [answer.body, ...Object.values(answer.body)].find(each => typeof each?.id === 'string')
  return own === undefined ? {} : { id: own.id }
}

/** A line for every change: who, what, about which; never what was sent. */
function writeDown({ log }: ApiParts, { method, path }: ApiRoute, caller: Caller, about: object): void {
  const { actor, address } = caller
  log.info({ actor, address, route: `${method} ${path}`, about }, 'account api')
}
