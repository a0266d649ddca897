/**
 * Who is asking: finds the key that a request presents, and gives the facts `key` and `account`.
 *
 * There is one way to present a key, `Authorization: Bearer KEY`. A second one (a query parameter, say) would be a second
 * place for every rule about keys, and queries end up in logs. The one exception is the header of Anthropic's own
 * clients, `x-api-key`, on a messages route and where they list models: they have no other when they are given a key.
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
  description: 'Finds the key of the Authorization header and whose it is; refuses everyone else.',
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
        if (found instanceof Promise) return found.then(lookup => letIn(exchange, secret, lookup, plans))
        letIn(exchange, secret, found, plans)
      },
      takes: rawHeaders => rawHeaders.some((value, i) => i % 2 === 1 && /^(bearer +)?tg_/i.test(value)),
    }
  },
})

function letIn(exchange: Exchange, secret: string, lookup: KeyLookup, plans: Plans): void {
  if (lookup.found === 'malformed' && secret.startsWith('tg_oper_')) {
    throw unauthorized('malformed_api_key', OPERATORS_TOKEN)
  }
  if (lookup.found !== 'live') {
    throw unauthorized(REFUSED[lookup.found], lookup.found === 'rotated' ? ROTATED : undefined)
  }
  if (lookup.account.frozen) throw refuse('account_frozen')
  exchange.give('key', lookup.key)
  exchange.give('account', lookup.account)
  // Behind the facts: the log then shows whose plan it is.
  plans.of(lookup.account)
}

/** Where Anthropic's clients ask. */
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

/** For who has an earlier secret of a key that goes on. */
const ROTATED = 'This secret has expired, because its key was rotated. Use the new secret of the key.'

/**
 * The key as it was sent. Read from the raw headers: Node drops the second of two Authorization headers without a word,
 * and a proxy before us may have looked at that one.
 */
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
      // Some clients send an empty one beside their token.
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

/** Visible ASCII after exactly one space (RFC 6750, 2.1 allows less); the words are never shown: they may be the key. */
function bearer(value: string, takesApiKey: boolean): string {
  const match = /^bearer ([\x21-\x7e]+)$/i.exec(value)
  if (match) return match[1]!
  if (value.trim() === '') throw missing('The Authorization header is empty.', takesApiKey)
  if (/^bearer\s*$/i.test(value)) throw missing('There is no key after Bearer.', takesApiKey)
  if (/^bearer\s/i.test(value)) {
    throw unauthorized('malformed_api_key', 'After Bearer must come one space and the key, without spaces in it.')
  }
  const scheme = /^(basic|digest|negotiate|token|apikey|api-key)\s/i.exec(value)
  const found = scheme
    ? `The Authorization header has the scheme ${scheme[1]!.toLowerCase()}, not Bearer.`
    : 'The Authorization header does not begin with the word Bearer and a space.'
  throw missing(found, takesApiKey)
}

/** Where both headers are read, the message names both: Anthropic's clients send the first. */
function missing(found: string, takesApiKey: boolean) {
  const headers = takesApiKey ? 'x-api-key: KEY, or Authorization: Bearer KEY' : 'Authorization: Bearer KEY'
  return unauthorized('missing_api_key', `${found} Send ${found === NONE ? 'it' : 'the key'} as: ${headers}`)
}

/** RFC 9110, 11.6.1: an answer 401 says which scheme would do. */
function unauthorized(code: ErrorCode, message?: string) {
  const options: RefusalOptions = { headers: { 'www-authenticate': 'Bearer' } }
  return refuse(code, message === undefined ? options : { ...options, message })
}
