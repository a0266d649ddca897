/** CORS: pages of other origins that may call the clients' listener from a browser (WHATWG Fetch, "CORS protocol"). */
import koaCors from '@koa/cors'
import type { Middleware } from 'koa'

/** How long a browser may cache the permission. Browsers cap it at two hours (Chrome) or a day (Firefox). */
const MAX_AGE_SECONDS = 7200

/** @param origins `https://app.example.com`, or `*` for every page; null: no page of another origin may call */
export function allowOrigins(origins: readonly string[] | null): Middleware | null {
  if (origins === null) return null
  const isAny = origins.includes('*')
  return koaCors({
    origin: ({ headers: { origin = '' } }) => (isAny ? '*' : origins.includes(origin) ? origin : ''),
    // Raw routes may accept all of these.
    allowMethods: ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'],
    // Requests have a key in a header and no cookie, so browsers take the star for all headers.
    exposeHeaders: '*',
    maxAge: MAX_AGE_SECONDS,
    // The error boundary keeps the headers itself.
    keepHeadersOnError: false,
  })
}
