/** The OpenAPI 3.1 document of the account API, made from the routes and schemas of the server. */

import { ERRORS, type ErrorCode } from '#contract'
import { type ApiRoute, type Audience, hasRequestBody, isLimited } from './route.ts'
import type { Schema } from './schema.ts'
import { SCHEMAS } from './schemas.ts'
import { cookieName } from './sessions.ts'

/** The document; JSON. */
export function describeApi(routes: readonly ApiRoute[], version: string): Record<string, unknown> {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    paths[route.path]![route.method.toLowerCase()] = operationOf(route)
  }
  return {
    openapi: '3.1.0',
    jsonSchemaDialect: 'https://json-schema.org/draft/2020-12/schema',
    info: {
      title: 'Tollgate: the account API',
      version,
      description:
        'Accounts, keys, credit and usage, as the dashboard uses them. Money is a text in dollars with 9 decimals, times ' +
        'are ISO 8601 in UTC, lists are { items, next }. The dashboard takes sessions; the admin listener takes tokens ' +
        "and has the operators' routes only. Through the dashboard each change needs the header " +
        'x-tollgate-dashboard: 1 and comes from its own origin.',
    },
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: cookieName(true),
          description: `A session of the dashboard. On plain http, which only loopback may be: ${cookieName(false)}.`,
        },
        token: { type: 'http', scheme: 'bearer', description: "An operator's token, on the admin listener." },
      },
    },
  }
}

const TAGS: Readonly<Record<string, string>> = {
  people: 'Registration, sign-in, sign-out, passwords.',
  keys: 'Keys of the account.',
  account: 'Balance, usage and receipts of the account.',
  operator: 'For operators: all accounts, and the state of the gateway.',
}

function tagOf(path: string): string {
  const [, , first = ''] = path.split('/')
  if (first === 'operator' || first === 'keys') return first
  return ['about', 'register', 'link', 'join', 'reset', 'session', 'password', 'openapi.json'].includes(first)
    ? 'people'
    : 'account'
}

function operationOf(route: ApiRoute): Record<string, unknown> {
  const parameters = [...parametersOf('path', route.params), ...parametersOf('query', route.query)]
  const takesBody = hasRequestBody(route)
  const body = route.body ?? { type: 'object', additionalProperties: false }
  return {
    operationId: operationIdOf(route),
    summary: route.summary,
    tags: [tagOf(route.path)],
    security: SECURITY[route.audience],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(takesBody ? { requestBody: { required: true, content: { 'application/json': { schema: body } } } } : {}),
    responses: { ...successOf(route), ...errorsOf(route) },
  }
}

const SECURITY: Readonly<Record<Audience, readonly Readonly<Record<string, readonly string[]>>[]>> = {
  anyone: [],
  person: [{ session: [] }],
  operator: [{ session: [] }, { token: [] }],
}

/** `POST /api/keys/{id}/rotate` is `post_keys_id_rotate`. */
export function operationIdOf({ method, path }: Pick<ApiRoute, 'method' | 'path'>): string {
  const words = path.split(/[^A-Za-z0-9]+/).filter(word => word !== '' && word !== 'api')
  return [method.toLowerCase(), ...words].join('_')
}

function parametersOf(place: 'path' | 'query', schema: Schema | undefined): Record<string, unknown>[] {
  const { properties = {}, required = [] } = (schema ?? {}) as {
    readonly properties?: Readonly<Record<string, Schema>>
    readonly required?: readonly string[]
  }
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }))
}

const OTHER_FORMATS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  csv: { 'text/csv': { schema: { type: 'string' } } },
  events: { 'text/event-stream': { schema: { type: 'string' } } },
  document: { 'application/json': { schema: { type: 'object' } } },
}

function successOf({ answers, status }: ApiRoute): Record<string, unknown> {
  if (answers === null) return { [status ?? 204]: { description: 'Done.' } }
  const content = OTHER_FORMATS[answers] ?? {
    'application/json': { schema: { $ref: `#/components/schemas/${answers}` } },
  }
  return { [status ?? 200]: { description: 'The answer.', content } }
}

/** The error codes of a route: its own, and those that follow from its inputs and its audience. */
export function errorCodesOf(route: ApiRoute): readonly ErrorCode[] {
  // The playground relays each answer of the chat route, with any error code.
  if (route.answers === 'events') return Object.keys(ERRORS) as ErrorCode[]
  const codes: ErrorCode[] = ['bad_request', 'unknown_host', 'store_unavailable', 'internal_error', 'unknown_parameter']
  if (route.query || route.body) codes.push('missing_required_parameter', 'invalid_type', 'invalid_value')
  if (route.method !== 'GET') codes.push('cross_site_request')
  if (hasRequestBody(route)) {
    codes.push('unsupported_media_type', 'request_too_large', 'invalid_json', 'request_too_complex', 'invalid_type')
    codes.push('overloaded')
  }
  if (isLimited(route)) codes.push('too_many_attempts')
  if (route.params) codes.push('not_found')
  if (route.audience !== 'anyone') codes.push('not_signed_in')
  if (route.audience === 'operator') codes.push('forbidden', 'unauthorized')
  return [...new Set([...codes, ...(route.errors ?? [])])]
}

/** One response for each status, with its codes. */
function errorsOf(route: ApiRoute): Record<string, unknown> {
  const byStatus = Map.groupBy(errorCodesOf(route), code => ERRORS[code].status)
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      status,
      {
        description: codes.map(code => `${code}: ${ERRORS[code].message}`).join(' '),
        content: { 'application/json': { schema: { $ref: '#/components/schemas/ErrorView' } } },
      },
    ]),
  )
}
