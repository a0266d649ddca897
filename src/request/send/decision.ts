/** The header that tells a refused client who decided: `x-tollgate-decision`. */

/** An item of RFC 8941: `burst; code=rate_limit_exceeded`. */
export function decisionHeader(decider: string, code: string): string {
  return `${item(decider)}; code=${code}`
}

const TOKEN = /^[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/-]*$/

/** Names of policies are tokens; that of a package from npm (`@koa/cors`), which a step has without an `id`, is quoted. */
function item(text: string): string {
  if (TOKEN.test(text)) return text
  return `"${text.replace(/[^ -~]/g, '?').replace(/["\\]/g, '\\$&')}"`
}
