/**
 * The account API as a Koa middleware: finds the route, makes sure who asks and from where, checks what they send, lets the
 * route do its work and sends its answer. Refusals are thrown; the application around it (app.ts) makes the envelope.
 *
 * It has two doors. People come to the dashboard's with the cookie of a session; operators' machines come to the admin
 * listener's with a token, and find the operators' routes only. Neither takes the other's proof, nor an API key.
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

/** Whose door it is: people's with their sessions, or operators' machines' with their tokens. */
export type RoutePath = 'dashboard' | 'admin'

/** Whose body it is that comes, and how long it may be. */
export interface BodyOf {
  readonly limitBytes: number
  /** A network address, or the id of a person or a token: nobody's bodies take the room of all others. */
  readonly owner: string
  /** Strangers' bodies have room of their own. */
  readonly isStranger: boolean
}

export interface ApiOptions {
  /** Reads the body as JSON: bounded in size and depth, without duplicate keys; throws refusals. */
  readonly readJson: (ctx: Context, of: BodyOf) => Promise<unknown>
  /** Only for tests: one that counts. */
  readonly guard?: Guard
  readonly routes?: readonly ApiRoute[]
}

/** Answers everything at and below `/api`; any other path is left to what comes next. */
export function createApi(parts: ApiParts, door: RoutePath, options: ApiOptions): Middleware {
  const { readJson, guard = createGuard(parts), routes = ROUTES } = options
  const find = createTable([...routes.filter(each => isFor(each, door)), descriptionOf(routes, parts.version)])
  const journal = createJournal(parts.log, parts.clock)

  /** Who asks, once it is clear that they may. */
  async function admit(ctx: Context, asked: ApiRoute, secure: boolean): Promise<Caller> {
    const caller = door === 'dashboard' ? await personOf(ctx, guard, secure) : await machineOf(ctx, parts, asked)
    // For the log: somebody who may not any more is still whom it was.
    if (caller.maker !== null) ctx.state['caller'] = caller
    authorise(asked, caller, door)
    return caller
  }

  async function serve(ctx: Context, { entry, values }: Found, note: (about: About) => void): Promise<void> {
    const asked = entry.route
    const secure = door === 'admin' || originOf(ctx.req, parts.origins()).startsWith('https:')
    if (asked.method !== 'GET' && door === 'dashboard') checkOwnPage(ctx.req, parts.origins())
    // Before all that may be wrong with what they send: that helps nobody who may not send it.
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
      // It may have been long in coming, held back on purpose: whoever may do this has to be somebody who may do it now.
      caller = await admit(ctx, asked, secure)
      body = entry.check.body(sent)
    }
    const call: Call = { caller, parts, guard, ctx, params, query, body, note }
    const answer = await inWords(() => asked.handle(call))
    note({ ...idIn(answer), ...values })
    send(ctx, answer, asked, secure)
  }

  return async (ctx, next) => {
    if (ctx.path !== '/api' && !ctx.path.startsWith('/api/')) return next()
    ctx.set(HEADERS)
    // Before the routes: another name is told nothing of what there is.
    if (door === 'dashboard') originOf(ctx.req, parts.origins())
    const found = find(ctx.method, ctx.path)
    const asked = found.entry.route
    let about: About = {}
    const note = (more: About) => {
      about = { ...about, ...more }
    }
    const caller = () => (ctx.state['caller'] as Caller | undefined) ?? nobodyAt(ctx)
    try {
      await serve(ctx, found, note)
    } catch (error) {
      const code = isRefusal(error) ? error.code : 'failed'
      // A guess at a token is worth a line, whatever it is tried at.
      if (asked.method !== 'GET' || code === 'unauthorized') journal.refused(asked, caller(), about, code)
      throw error
    }
    if (asked.method !== 'GET') journal.made(asked, caller(), about)
  }
}

/** Enough for all that people and machines send but conversations, and for what strangers do. */
const BODY_BYTES = 64 * 1024
const STRANGERS_BODY_BYTES = 8 * 1024

function bodyOf({ audience, bodyBytes }: ApiRoute, { maker, address }: Caller): BodyOf {
  // Also of somebody who is signed in: nobody has to be, for these.
  if (maker === null || audience === 'anyone') {
    return { limitBytes: bodyBytes ?? STRANGERS_BODY_BYTES, owner: addressGroup(address), isStranger: true }
  }
  return { limitBytes: bodyBytes ?? BODY_BYTES, owner: maker, isStranger: false }
}

/** On every answer: it is kept by nobody, is what it says it is, and is for our own page. */
const HEADERS = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
}

/** On the admin listener there are no people: only what an operator's token may do. */
function isFor({ audience }: ApiRoute, door: RoutePath): boolean {
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

interface Found {
  readonly entry: Entry
  /** What stands in the places of its path. */
  readonly values: Readonly<Record<string, string>>
}

/** Finds a route by method and path. Throws `unknown_url`, or `method_not_allowed` with those that are. */
function createTable(routes: readonly ApiRoute[]) {
  const entries: Entry[] = routes.map(each => ({ route: each, check: createCheck(each), parts: each.path.split('/') }))
  return (method: string, path: string): Found => {
    const segments = path.split('/')
    const here = entries
      .map(entry => ({ entry, values: match(entry.parts, segments) }))
      .filter((each): each is Found => each.values !== null)
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

function nobodyAt(ctx: Context): Caller {
  const address = String(ctx.state['address'] ?? ctx.req.socket.remoteAddress ?? '')
  return { actor: 'nobody', maker: null, person: null, session: null, device: null, address }
}

/** Whose session's cookie it is. Without one: nobody. */
async function personOf(ctx: Context, { sessions }: Guard, secure: boolean): Promise<Caller> {
  const { cookie } = ctx.req.headers
  const nobody = { ...nobodyAt(ctx), device: readDevice(cookie, secure) }
  const secret = readCookie(cookie, secure)
  const session = secret === null ? undefined : await inWords(() => sessions.find(secret))
  if (!session) return nobody
  const { person } = session
  return { ...nobody, actor: person.email, maker: person.id, person, session: session.secret }
}

/** The secret that a request brings; null: none. */
export function bearerOf(ctx: Context): string | null {
  const [scheme, secret, ...more] = (ctx.req.headers.authorization ?? '').split(' ')
  const isBearer = scheme?.toLowerCase() === 'bearer' && secret !== undefined && more.length === 0
  return isBearer ? secret : null
}

/** The operator's token with a secret, if it works. */
export async function tokenOf(
  secret: string | null,
  { people }: Pick<Store, 'people'>,
): Promise<OperatorToken | undefined> {
  return secret === null ? undefined : await inWords(() => people.findToken(secret))
}

/** Whose token it is. The description needs none. */
async function machineOf(ctx: Context, { store }: ApiParts, { audience }: ApiRoute): Promise<Caller> {
  const nobody = nobodyAt(ctx)
  if (audience === 'anyone') return nobody
  const token = await tokenOf(bearerOf(ctx), store)
  if (!token) {
    throw refuse('unauthorized', {
      message: "Send an operator's token: Authorization: Bearer tg_oper_...",
      headers: { 'www-authenticate': 'Bearer' },
    })
  }
  return { ...nobody, actor: `token:${token.name}`, maker: token.id }
}

function authorise({ audience }: ApiRoute, { person }: Caller, door: RoutePath): void {
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

const UNAVAILABLE: Readonly<Record<Written, string>> = {
  not_written: 'The store could not be written. Nothing was changed; try again.',
  unknown: 'The store could not say whether it has written this. Look before you try again.',
  not_read: 'The store could not be read. If you asked for a change, check whether it was made before you try again.',
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

/** The id of what was made: the answer's own, or that of the thing it is about. */
function idIn(answer: Answer): { readonly id?: string } {
  if (!('body' in answer)) return {}
  const own = [answer.body, ...Object.values(answer.body)].find(each => typeof each?.id === 'string')
  return own === undefined ? {} : { id: own.id }
}
