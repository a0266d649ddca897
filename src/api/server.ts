/**
 * The account API as a Koa middleware: authenticates the caller, checks the origin, validates the input, runs the route and sends
 * its answer. It throws refusals; app.ts makes the response.
 *
 * It serves two listeners. People use `dashboard` with a session cookie. Operators' machines use `admin` with a token, and have
 * the operators' routes only. Neither listener accepts the credential of the other, nor an API key.
 */
import type { Context, Middleware } from 'koa'
import { addressGroup, isRefusal, type Refusal, refuse } from '#contract'
import { StoreError } from '../store/error.ts'
import type { OperatorToken } from '../store/people/people.ts'
import { type Store, StoreUnavailable, type Written } from '../store/store.ts'
import type { ApiParts } from './api-parts.ts'
import { createJournal } from './journal.ts'
import { deviceCookieFor, readDevice } from './known-clients.ts'
import { describeApi } from './openapi.ts'
import { checkJson, checkOwnPage, originOf } from './origin.ts'
import {
  type About,
  type Answer,
  type ApiRoute,
  type Call,
  type Caller,
  hasRequestBody,
  isLimited,
  route,
  type SessionChange,
} from './route.ts'
import { ROUTES } from './routes.ts'
import { cookieFor, readCookie } from './sessions.ts'
import { createGuard, type Guard } from './sign-in.ts'
import { createCheck, type RouteCheck } from './validate.ts'

/** The listener: `dashboard` for people with sessions, `admin` for machines with tokens. */
export type ApiListener = 'dashboard' | 'admin'

/** The owner and the maximum length of a body. */
export interface BodyOf {
  readonly limitBytes: number
  /** A network address, or the id of a person or a token. Each has a share of the memory for bodies. */
  readonly owner: string
  /** Whether the client is unknown. Bodies of unknown clients have their own memory. */
  readonly isStranger: boolean
}

export interface ApiOptions {
  /** Reads the body as JSON: bounded in size and depth, without duplicate keys; throws refusals. */
  readonly readJson: (ctx: Context, of: BodyOf) => Promise<unknown>
  /** For tests only. */
  readonly guard?: Guard
  readonly routes?: readonly ApiRoute[]
}

/** Answers `/api` and all paths below it. Passes other paths on. */
export function createApi(parts: ApiParts, listener: ApiListener, options: ApiOptions): Middleware {
  const { readJson, guard = createGuard(parts), routes = ROUTES } = options
  const find = createTable([...routes.filter(each => isFor(each, listener)), descriptionOf(routes, parts.version)])
  const journal = createJournal(parts.log, parts.clock)

  /** Returns the caller, if the route allows it. */
  async function admit(ctx: Context, asked: ApiRoute, secure: boolean): Promise<Caller> {
    const caller = listener === 'dashboard' ? await personOf(ctx, guard, secure) : await machineOf(ctx, parts, asked)
    // Set before the check, so that the log names a caller without permission too.
    if (caller.maker !== null) ctx.state['caller'] = caller
    authorise(asked, caller, listener)
    return caller
  }

  async function serve(ctx: Context, { entry, values }: RouteMatch, note: (about: About) => void): Promise<void> {
    const asked = entry.route
    const secure = listener === 'admin' || originOf(ctx.req, parts.origins()).startsWith('https:')
    if (asked.method !== 'GET' && listener === 'dashboard') checkOwnPage(ctx.req, parts.origins())
    // Before the input is validated: callers without permission get no other error.
    let caller = await admit(ctx, asked, secure)
    if (isLimited(asked) && caller.person !== null) guard.changesByPerson.take(caller.person.id)
    const takesBody = hasRequestBody(asked)
    if (takesBody) checkJson(ctx.req)
    else if (hasBody(ctx)) throw refuse('bad_request', { message: `A ${asked.method} request has no body here.` })
    const params = entry.check.params(values)
    note(values)
    const query = entry.check.query(ctx.querystring)
    let body: unknown
    if (takesBody) {
      const sent = await readJson(ctx, bodyOf(asked, caller))
      // The body may have taken long: the caller must still have the permission.
      caller = await admit(ctx, asked, secure)
      body = entry.check.body(sent)
    }
    const call: Call = { caller, parts, guard, ctx, params, query, body, note }
    const answer = await withRefusals(() => asked.handle(call))
    note({ ...idIn(answer), ...values })
    send(ctx, answer, asked, secure)
  }

  return async (ctx, next) => {
    if (ctx.path !== '/api' && !ctx.path.startsWith('/api/')) return next()
    ctx.set(HEADERS)
    // Before the routes: requests to an unknown host name learn nothing of them.
    if (listener === 'dashboard') originOf(ctx.req, parts.origins())
    const found = find(ctx.method, ctx.path)
    const asked = found.entry.route
    let about: About = {}
    const note = (more: About) => {
      about = { ...about, ...more }
    }
    const caller = () => (ctx.state['caller'] as Caller | undefined) ?? unknownCaller(ctx)
    try {
      await serve(ctx, found, note)
    } catch (error) {
      const code = isRefusal(error) ? error.code : 'failed'
      // Each guess of a token is logged, on any path.
      if (asked.method !== 'GET' || code === 'unauthorized') journal.logRefusal(asked, caller(), about, code)
      throw error
    }
    if (asked.method !== 'GET') journal.logChange(asked, caller(), about)
  }
}

/** Enough for all requests except conversations; less for unknown callers. */
const BODY_BYTES = 64 * 1024
const STRANGERS_BODY_BYTES = 8 * 1024

function bodyOf({ audience, bodyBytes }: ApiRoute, { maker, address }: Caller): BodyOf {
  // Routes for anyone need no session, so their bodies count for the address, also for a person who is signed in.
  if (maker === null || audience === 'anyone') {
    return { limitBytes: bodyBytes ?? STRANGERS_BODY_BYTES, owner: addressGroup(address), isStranger: true }
  }
  return { limitBytes: bodyBytes ?? BODY_BYTES, owner: maker, isStranger: false }
}

/** Headers of each answer: not cached, no sniffing of types, for our own page only. */
const HEADERS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
}

/** The admin listener has no routes for people: only those of operators' tokens. */
function isFor({ audience }: ApiRoute, listener: ApiListener): boolean {
  return listener === 'dashboard' || audience === 'operator'
}

/** The document has all routes of both listeners, each with its credential. */
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

interface RouteMatch {
  readonly entry: Entry
  /** The values of the placeholders in its path. */
  readonly values: Readonly<Record<string, string>>
}

/** Finds a route by method and path. Throws `unknown_url`, or `method_not_allowed` with the allowed ones. */
function createTable(routes: readonly ApiRoute[]) {
  const entries: Entry[] = routes.map(each => ({ route: each, check: createCheck(each), parts: each.path.split('/') }))
  return (method: string, path: string): RouteMatch => {
    const segments = path.split('/')
    const here = entries
      .map(entry => ({ entry, values: match(entry.parts, segments) }))
      .filter((each): each is RouteMatch => each.values !== null)
    if (here.length === 0) throw refuse('unknown_url')
    // A literal path comes before one with a placeholder.
    const places = ({ values }: { readonly values: object }) => Object.keys(values).length
    const least = Math.min(...here.map(places))
    const nearest = here.filter(each => places(each) === least)
    const found = nearest.find(({ entry }) => entry.route.method === (method === 'HEAD' ? 'GET' : method))
    if (found) return found
    const allow = nearest.flatMap(({ entry: { route } }) => (route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]))
    throw refuse('method_not_allowed', { headers: { allow: allow.join(', ') } })
  }
}

/** The values of the placeholders; null: the path does not match. The match is exact, with case and slashes. */
function match(pattern: readonly string[], segments: readonly string[]): Record<string, string> | null {
  if (pattern.length !== segments.length) return null
  const values: Record<string, string> = {}
  for (const [index, part] of pattern.entries()) {
    const segment = segments[index]!
    if (!part.startsWith('{')) {
      if (part !== segment) return null
    } else if (segment === '') return null
    // Ids need no encoding, so an encoded text is not an id and is not decoded.
    else values[part.slice(1, -1)] = segment
  }
  return values
}

function hasBody({ req }: Context): boolean {
  return req.headers['transfer-encoding'] !== undefined || (req.headers['content-length'] ?? '0') !== '0'
}

function unknownCaller(ctx: Context): Caller {
  const address = String(ctx.state['address'] ?? ctx.req.socket.remoteAddress ?? '')
  return { actor: 'nobody', maker: null, person: null, session: null, device: null, address }
}

/** The caller by the session's cookie; without one: unknown. */
async function personOf(ctx: Context, { sessions }: Guard, secure: boolean): Promise<Caller> {
  const { cookie } = ctx.req.headers
  const unknown = { ...unknownCaller(ctx), device: readDevice(cookie, secure) }
  const secret = readCookie(cookie, secure)
  const session = secret === null ? undefined : await withRefusals(() => sessions.find(secret))
  if (!session) return unknown
  const { person } = session
  return { ...unknown, actor: person.email, maker: person.id, person, session: session.secret }
}

/** The secret of a request; null: none. */
export function bearerOf(ctx: Context): string | null {
  const [scheme, secret, ...more] = (ctx.req.headers.authorization ?? '').split(' ')
  const isBearer = scheme?.toLowerCase() === 'bearer' && secret !== undefined && more.length === 0
  return isBearer ? secret : null
}

/** The token with a secret, if it is valid. */
export async function tokenOf(
  secret: string | null,
  { people }: Pick<Store, 'people'>,
): Promise<OperatorToken | undefined> {
  return secret === null ? undefined : await withRefusals(() => people.findToken(secret))
}

/** The caller by the token. The OpenAPI document needs none. */
async function machineOf(ctx: Context, { store }: ApiParts, { audience }: ApiRoute): Promise<Caller> {
  const unknown = unknownCaller(ctx)
  if (audience === 'anyone') return unknown
  const token = await tokenOf(bearerOf(ctx), store)
  if (!token) {
    throw refuse('unauthorized', {
      message: "Send an operator's token: Authorization: Bearer tg_oper_...",
      headers: { 'www-authenticate': 'Bearer' },
    })
  }
  return { ...unknown, actor: `token:${token.name}`, maker: token.id }
}

function authorise({ audience }: ApiRoute, { person }: Caller, listener: ApiListener): void {
  if (audience === 'anyone' || listener === 'admin') return
  if (!person) throw refuse('not_signed_in')
  if (audience === 'operator' && person.role !== 'operator') {
    throw refuse('forbidden', { message: 'This route is for operators of the gateway.' })
  }
}

/** Runs the work, and converts errors of the store to refusals. */
async function withRefusals<Result>(work: () => Promise<Result> | Result): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw asRefusal(error) ?? error
  }
}

const UNAVAILABLE: Readonly<Record<Written, string>> = {
  not_written: 'The store could not be written. Nothing has changed. Try again.',
  unknown: 'The store may or may not have written this. Check before you try again.',
  not_read: 'The store could not be read. After a change, check whether it was made before you try again.',
}

function asRefusal(error: unknown): Refusal | null {
  if (error instanceof StoreUnavailable) {
    return refuse('store_unavailable', { message: UNAVAILABLE[error.written], retryAfterMs: 1000, cause: error })
  }
  if (!(error instanceof StoreError)) return null
  switch (error.code) {
    case 'not_found':
      return refuse('not_found')
    case 'link_invalid':
      return refuse('link_invalid')
    case 'conflict':
      return refuse('conflict', { message: inSentence(error.message) })
    case 'forbidden':
      return refuse('forbidden', { message: inSentence(error.message) })
    default:
      return refuse('invalid_value', { message: inSentence(error.message) })
  }
}

/** Messages of the store are parts of sentences, for terminals. */
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
  if (answer.session) ctx.set('set-cookie', cookiesFor(answer.session, secure))
  if ('body' in answer) {
    ctx.status = answer.status ?? status ?? 200
    ctx.type = 'application/json; charset=utf-8'
    ctx.body = JSON.stringify(answer.body)
  } else ctx.status = 204
}

function cookiesFor(change: SessionChange, secure: boolean): string[] {
  if ('end' in change) return [cookieFor(null, secure)]
  const { begin, device } = change
  return [cookieFor(begin, secure), ...(device === undefined ? [] : [deviceCookieFor(device, secure)])]
}

/** The id of the created object: that of the answer, or of the object in it. */
function idIn(answer: Answer): { readonly id?: string } {
  if (!('body' in answer)) return {}
  const own = [answer.body, ...Object.values(answer.body)].find(each => typeof each?.id === 'string')
  return own === undefined ? {} : { id: own.id }
}
