/**
 * A route of the account API as one value: audience, inputs, work and answer. The server (server.ts), the OpenAPI document (openapi.ts) and
 * the tests of access are made from these values.
 */

import type { Context } from 'koa'
import type { ErrorCode } from '#contract'
import type { Person } from '../store/people/people.ts'
import type { ApiParts } from './api-parts.ts'
import type { Schema } from './schema.ts'
import type { SchemaName } from './schemas.ts'
import type { Guard } from './sign-in.ts'

/** `anyone`: without a session; `person`: signed in; `operator`: signed in as one, or with an operator's token. */
export type Audience = 'anyone' | 'person' | 'operator'

/** The caller. A token has no person. */
export interface Caller {
  /** For the ledger and the log: a person's e-mail address, or `token:NAME`. */
  readonly actor: string
  /** The id of the person or the token, as the creator in the store; null: unknown caller. */
  readonly maker: string | null
  readonly person: Person | null
  /** The session's secret, for routes that end sessions; null for tokens. */
  readonly session: string | null
  /** The text of this browser's device cookie, from a sign-in of any person (known-clients.ts); null: no cookie, or a token. */
  readonly device: string | null
  readonly address: string
}

/** The answer of a route. */
export type Answer =
  | { readonly status?: 200 | 201; readonly body: object; readonly session?: SessionChange }
  | { readonly status: 204; readonly session?: SessionChange }
  /** The route sends it: it has put a stream on `ctx.body`, or writes to `ctx.res` and has set `ctx.respond = false`. */
  | { readonly stream: 'sent' }
  | { readonly csv: string; readonly filename: string }

/** Sets the session's cookie and that of the browser, or clears the session's. */
export type SessionChange = { readonly begin: string; readonly device: string | undefined } | { readonly end: true }

/** The details of a log line: ids and new values, without secrets. */
export type About = Readonly<Record<string, string | boolean | number>>

export interface Call<Params = unknown, Query = unknown, Body = unknown> {
  readonly caller: Caller
  readonly parts: ApiParts
  /** Passwords, sessions, and limits of attempts. */
  readonly guard: Guard
  /** For routes that stream. */
  readonly ctx: Context
  /** Checked against the route's schemas, with defaults filled in. */
  readonly params: Params
  readonly query: Query
  readonly body: Body
  /** Adds details to the log line, such as the new value. Never a possible secret. */
  note(about: About): void
}

/** A route's work. It refuses with `refuse(code)`; a `StoreError` of a caller's mistake becomes 409 or 404. */
type Handle<Params, Query, Body> = (call: Call<Params, Query, Body>) => Promise<Answer> | Answer

export interface ApiRoute<Params = unknown, Query = unknown, Body = unknown> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** `/api/keys/{id}` */
  readonly path: string
  readonly summary: string
  readonly audience: Audience
  /**
   * Object schemas (made by `shape` of schema.ts) with `additionalProperties: false`. Properties of `query` are converted from
   * text. A missing schema allows no properties. An invalid id in the path is `not_found`.
   */
  readonly params?: Schema<Params>
  readonly query?: Schema<Query>
  readonly body?: Schema<Body>
  /** The maximum length of the body. Default: enough for all but conversations, and less for unknown callers. */
  readonly bodyBytes?: number
  /** The name of a schema in schemas.ts; null: 204 without a body; `csv`, `events`, `document`: other formats. */
  readonly answers: SchemaName | 'csv' | 'events' | 'document' | null
  readonly status?: 200 | 201 | 204
  /** Exempts a change from the limit of changes by one person. */
  readonly isUnlimited?: true
  /** Its error codes (contract/errors.ts), beside those of each route. */
  readonly errors?: readonly ErrorCode[]
  readonly handle: Handle<Params, Query, Body>
}

/** Whether requests have a body, which may be `{}`. */
export function hasRequestBody({ method }: Pick<ApiRoute, 'method'>): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}

/** Whether it counts in the limit of changes of a person. */
export function isLimited({ method, audience, isUnlimited }: ApiRoute): boolean {
  return method !== 'GET' && audience !== 'anyone' && isUnlimited !== true
}

/** Infers the types of a route's inputs from its schemas. */
export function route<Params = object, Query = object, Body = object>(
  definition: ApiRoute<Params, Query, Body>,
): ApiRoute {
  return definition as unknown as ApiRoute
}
