/**
 * A route of the account API: one value says who may call it, what it takes, what it does and what it answers. The server
 * (server.ts), the OpenAPI description (openapi.ts) and the tests' table of who-may-see-what are all made from these.
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

/** Who calls. A token's caller has no person. */
export interface Caller {
  /** For the ledger and the log: a person's e-mail address, or `token:NAME`. */
  readonly actor: string
  /** Their id, under which the store keeps what they make: a person's or a token's; null for nobody. */
  readonly maker: string | null
  readonly person: Person | null
  /** The session's secret, for routes that end sessions; null for tokens. */
  readonly session: string | null
  /** What the browser shows of an earlier sign-in (known.ts), whoever's it was; null for none, and for tokens. */
  readonly device: string | null
  readonly address: string
}

/** What a route answers with. */
export type Answer =
  | { readonly status?: 200 | 201; readonly body: object; readonly session?: SessionChange }
  | { readonly status: 204; readonly session?: SessionChange }
  /** The route sends it: it has put a stream on `ctx.body`, or writes to `ctx.res` and has set `ctx.respond = false`. */
  | { readonly stream: 'sent' }
  | { readonly csv: string; readonly filename: string }

/** Sets the session's cookie and that of the browser, or clears the session's. */
export type SessionChange = { readonly begin: string; readonly device: string | undefined } | { readonly end: true }

/** What a line in the log says beside who did it: ids and new values that are no secrets. */
export type About = Readonly<Record<string, string | boolean | number>>

export interface Call<Params = unknown, Query = unknown, Body = unknown> {
  readonly caller: Caller
  readonly parts: ApiParts
  /** Passwords, sessions, and how often somebody may try. */
  readonly guard: Guard
  /** For routes that stream; nobody else looks at it. */
  readonly ctx: Context
  /** Checked against the route's schemas, with defaults filled in. */
  readonly params: Params
  readonly query: Query
  readonly body: Body
  /** Says more in the log: whom it was about, the new value. Never what may be a secret. */
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
   * An object schema each (`shape` of schema.ts makes them), `additionalProperties: false`; properties of `query` are
   * converted from text. Left out: nothing may be sent. An id in the path that does not fit is `not_found`.
   */
  readonly params?: Schema<Params>
  readonly query?: Schema<Query>
  readonly body?: Schema<Body>
  /** How long the body may be; left out: what is enough for all but conversations, and less for strangers. */
  readonly bodyBytes?: number
  /** Name of a schema in schemas.ts; null: 204 without a body; `csv`, `events`, `document`: not one of those. */
  readonly answers: SchemaName | 'csv' | 'events' | 'document' | null
  readonly status?: 200 | 201 | 204
  /** A change that needs no limit on how often one person makes it, or has limits of its own. */
  readonly isUnlimited?: true
  /** Codes of contract/errors.ts that it can refuse with beyond those of every route. */
  readonly errors?: readonly ErrorCode[]
  readonly handle: Handle<Params, Query, Body>
}

/** Whether requests have a body, which may be `{}`. */
export function hasRequestBody({ method }: Pick<ApiRoute, 'method'>): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH'
}

/** Whether it counts towards the limit on what one person changes. */
export function isLimited({ method, audience, isUnlimited }: ApiRoute): boolean {
  return method !== 'GET' && audience !== 'anyone' && isUnlimited !== true
}

/** Takes the types of what a route takes from the schemas that check it. */
export function route<Params = object, Query = object, Body = object>(
  definition: ApiRoute<Params, Query, Body>,
): ApiRoute {
  return definition as unknown as ApiRoute
}
