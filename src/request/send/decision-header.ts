/** The `x-tollgate-decision` header: who refused a request. */

/** An item of RFC 8941: `burst; code=rate_limit_exceeded`. */
export function decisionHeader(decider: string, code: string): string {
  return `${item(decider)}; code=${code}`
}

const TOKEN = /^[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*$/

/** Ids of steps are tokens. The name of an npm package (`@koa/cors`), which a step without an `id` has, is quoted. */
function item(text: string): string {
  if (TOKEN.test(text)) return text
  return `"${text.replace(/[^ -~]/g, '?').replace(/["\\]/g, '\\$&')}"`
}
