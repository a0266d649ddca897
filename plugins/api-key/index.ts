/**
 * Authenticates with a Tollgate key, and gives the facts `key` and `account`.
 *
 * A key is sent as `Authorization: Bearer KEY`. Query parameters are not read, because queries appear in logs. Anthropic's clients send a
 * key only in `x-api-key`, so that header is read on the routes that they use.
 */
import {
  definePlugin,
  type ErrorCode,
  type Exchange,
  type KeyLookup,
  type Plans,
  type RefusalOptions,
  type RouteKind,
  refuse,
} from '#contract'

export default definePlugin({
  name: 'api-key',
  description: 'Authenticates with the key in the Authorization header.',
  dryRun: true,
  needsBody: false,
  critical: true,
  gives: ['key', 'account'],
  uses: ['keys', 'clock', 'plans'],
  settings: { type: 'object', additionalProperties: false, properties: {} },
  create(_settings: Record<string, never>, { keys, clock, plans }) {
    return {
      decide({ exchange, req }) {
        const secret = presented(req.rawHeaders, TAKE_API_KEY.includes(exchange.route.kind))
        const found = keys.find(secret, clock.now())
        if (found instanceof Promise) return found.then(lookup => admit(exchange, secret, lookup, plans))
        admit(exchange, secret, found, plans)
      },
      takes: rawHeaders => rawHeaders.some((value, i) => i % 2 === 1 && /^(bearer +)?tg_/i.test(value)),
    }
  },
})

function admit(exchange: Exchange, secret: string, lookup: KeyLookup, plans: Plans): void {
  if (lookup.found === 'malformed' && secret.startsWith('tg_oper_')) {
    throw unauthorized('malformed_api_key', OPERATORS_TOKEN)
  }
  if (lookup.found !== 'live') {
    throw unauthorized(REFUSED[lookup.found], lookup.found === 'rotated' ? ROTATED : undefined)
  }
  if (lookup.account.frozen) throw refuse('account_frozen')
  exchange.give('key', lookup.key)
  exchange.give('account', lookup.account)
  // After the facts, so that the log has the account of a refusal.
  plans.of(lookup.account)
}

/** Routes that Anthropic's clients use. */
const TAKE_API_KEY: readonly RouteKind[] = ['messages', 'models', 'model']

const OPERATORS_TOKEN =
  "This is an operator's token, not an API key: it opens the operators' API on the admin listener. Make a key."

const REFUSED = {
  malformed: 'malformed_api_key',
  unknown: 'invalid_api_key',
  revoked: 'revoked_api_key',
  expired: 'expired_api_key',
  rotated: 'expired_api_key',
} as const

/** For the earlier secret of a key that is still valid. */
const ROTATED = 'This secret has expired, because its key was rotated. Use the new secret of the key.'

/** Reads the key from the raw headers: Node silently drops the second of two Authorization headers, and a proxy may have checked that one. */
function presented(rawHeaders: readonly string[], takesApiKey: boolean): string {
  let value: string | undefined
  let apiKey: string | undefined
  let elsewhere: string | undefined
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!
    if (name.length === 13 && name.toLowerCase() === 'authorization') {
      if (value !== undefined)
        throw refuse('bad_request', { message: 'There are two Authorization headers; send one.' })
      value = rawHeaders[i + 1]!
    } else if (takesApiKey && name.length === 9 && name.toLowerCase() === 'x-api-key') {
      if (apiKey !== undefined) throw refuse('bad_request', { message: 'There are two x-api-key headers; send one.' })
      // Some clients send an empty header beside their token.
      if (rawHeaders[i + 1] !== '') apiKey = rawHeaders[i + 1]!
      else elsewhere = 'The x-api-key header is empty.'
    } else if (name.length <= 9 && /^(x-)?api-key$/i.test(name)) {
      elsewhere = `The key is in the ${name.toLowerCase()} header, which is not read here.`
    }
  }
  if (value !== undefined && apiKey !== undefined && bearer(value, true) !== apiKey) {
    throw refuse('bad_request', { message: 'The Authorization and x-api-key headers hold two keys; send one.' })
  }
  if (value !== undefined) return bearer(value, takesApiKey)
  if (apiKey === undefined) throw missing(elsewhere ?? NONE, takesApiKey)
  if (ONE_KEY.test(apiKey)) return apiKey
  throw unauthorized('malformed_api_key', 'The x-api-key header must hold the key alone, without spaces in it.')
}

const NONE = 'No API key.'
const ONE_KEY = /^[\x21-\x7e]+$/

/** Visible ASCII after exactly one space (RFC 6750, 2.1 allows less). Errors never show the value: it may be the key. */
function bearer(value: string, takesApiKey: boolean): string {
  const match = /^bearer ([\x21-\x7e]+)$/i.exec(value)
  if (match) return match[1]!
  if (value.trim() === '') throw missing('The Authorization header is empty.', takesApiKey)
  if (/^bearer\s*$/i.test(value)) throw missing('The key after Bearer is missing.', takesApiKey)
  if (/^bearer\s/i.test(value)) {
    throw unauthorized('malformed_api_key', 'After Bearer, send one space and the key, without spaces in it.')
  }
  const scheme = /^(basic|digest|negotiate|token|apikey|api-key)\s/i.exec(value)
  const found = scheme
    ? `The Authorization header has the scheme ${scheme[1]!.toLowerCase()}, not Bearer.`
    : 'The Authorization header does not begin with the word Bearer and a space.'
  throw missing(found, takesApiKey)
}

/** Names both headers on routes that read both: Anthropic's clients send the first. */
function missing(found: string, takesApiKey: boolean) {
  const headers = takesApiKey ? 'x-api-key: KEY, or Authorization: Bearer KEY' : 'Authorization: Bearer KEY'
  return unauthorized('missing_api_key', `${found} Send ${found === NONE ? 'it' : 'the key'} as: ${headers}`)
}

/** A 401 with the authentication scheme (RFC 9110, 11.6.1). */
function unauthorized(code: ErrorCode, message?: string) {
  const options: RefusalOptions = { headers: { 'www-authenticate': 'Bearer' } }
  return refuse(code, message === undefined ? options : { ...options, message })
}
