/**
 * Authenticates people and services by the signed token of an identity provider (a JWT, RFC 7519) in place of a gateway key. Gives the
 * facts `key` and `account`, as `api-key` does.
 */
import { type Accounts, definePlugin, refuse, type SettingsProblem, unit } from '#contract'
import { bearerToken, saysIssuer } from './bearer.ts'
import { type ClaimSettings, createReader, type Identity, keyOf, withPlan } from './identity.ts'
import type { Jwks } from './jwks.ts'
import { createKeySet, problemsOf } from './key-set.ts'
import { createVerifier } from './verify.ts'

interface Settings extends ClaimSettings {
  readonly issuer: string
  readonly audience: string | readonly string[]
  readonly jwks: string | Jwks
  readonly algorithms: readonly string[]
  readonly clock_tolerance: number
  readonly refresh: number
  readonly keep: number
  readonly cooldown: number
  readonly timeout: number
}

/** Algorithms with public keys. The others need the secret that signs, which a gateway should not have. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
]

/** An address without user and password; plain HTTP on the same machine only. */
const KEYS_URL = '^(https://[^\\s/?#@]+|http://(localhost|127(\\.\\d{1,3}){3}|\\[::1\\])(:\\d{1,5})?)([/?][^\\s#]*)?$'

const duration = (from: string, to: string, standard: string, description: string) => ({
  ...unit('duration'),
  within: { unit: 'duration', from, to },
  default: standard,
  description,
})

const claim = (description: string) => ({ type: 'string', minLength: 1, maxLength: 200, description })

export default definePlugin({
  name: 'jwt',
  description: 'Authenticates with the token of an identity provider.',
  needsBody: false,
  critical: true,
  gives: ['key', 'account', 'claims'],
  uses: ['accounts', 'clock', 'log', 'plans'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['issuer', 'audience', 'jwks'],
    anyOf: [{ required: ['account'] }, { required: ['account_claim'] }],
    dependentRequired: { plans: ['plan_claim'] },
    if: { required: ['account'] },
    then: {
      properties: { account_claim: { refused: 'account_claim and account exclude each other; choose one of them' } },
    },
    properties: {
      issuer: { type: 'string', minLength: 1, description: 'The exact `iss` of a token.' },
      audience: {
        type: ['string', 'array'],
        minLength: 1,
        items: { type: 'string', minLength: 1 },
        minItems: 1,
        description: 'The `aud` of a token must have this value, or one of these.',
      },
      jwks: {
        type: ['string', 'object'],
        pattern: KEYS_URL,
        sentence: 'must be an https:// address (http:// on this machine only), or the keys themselves: { keys: [...] }',
        required: ['keys'],
        properties: {
          keys: {
            type: 'array',
            description: 'The public keys, each a JWK (RFC 7517).',
            minItems: 1,
            maxItems: 100,
            items: {
              type: 'object',
              required: ['kty'],
              properties: {
                kty: { enum: ['RSA', 'EC', 'OKP'], description: 'The family of the key.' },
                d: { refused: 'd is a part of a private key, and the keys here are public ones' },
              },
            },
          },
        },
        description: "The provider's public keys: the address of its key set, or the `keys` themselves.",
      },
      algorithms: {
        type: 'array',
        items: { enum: ALGORITHMS },
        minItems: 1,
        uniqueItems: true,
        default: ['RS256', 'PS256', 'ES256', 'EdDSA'],
        description: 'Allowed algorithms. All have public keys; tokens with shared secrets are never accepted.',
      },
      account: claim('The account of all callers, by name or id.'),
      account_claim: claim(
        'The claim with the account, by name or id. Callers must not be able to set it at the provider.',
      ),
      key_claim: {
        ...claim('The claim that identifies the caller in limits, usage and receipts, as a key does.'),
        default: 'sub',
      },
      models_claim: claim('The claim with the models that the caller may use. Default: all public models.'),
      plan_claim: claim(
        "The claim with the caller's plan, or with groups that `plans` maps to one: a text or a list of texts.",
      ),
      plans: {
        type: 'object',
        minProperties: 1,
        additionalProperties: { type: 'string', minLength: 1, description: 'The name of a plan.' },
        description:
          'The plan for each value of `plan_claim`. If a token has several of them, the first in this order counts.',
      },
      plan: {
        type: 'string',
        minLength: 1,
        description:
          'The plan of callers without one from `plan_claim`; without `plan_claim`, of all callers. If this is missing, `plan_claim` is required in tokens; without `plan_claim`, the plan of the account counts.',
      },
      clock_tolerance: duration(
        '0s',
        '5m',
        '30s',
        'The maximum difference between the clocks of the provider and the gateway.',
      ),
      refresh: duration('30s', '24h', '10m', 'The time after which the key set is fetched again.'),
      keep: duration('1m', '30d', '24h', 'How long the keys stay in use while the provider cannot be reached.'),
      cooldown: duration('1s', '10m', '30s', 'The minimum time between two fetches for tokens with an unknown key.'),
      timeout: duration('100ms', '5s', '3s', 'The maximum time of a fetch.'),
    },
  },
  check: ({ jwks, plans }: Settings) => [...problemsOf(jwks), ...unorderedPlans(plans)],
  create(settings: Settings, { accounts, clock, log, plans }) {
    const keys = createKeySet(settings.jwks, {
      clock,
      log,
      refreshMs: settings.refresh,
      keepMs: settings.keep,
      cooldownMs: settings.cooldown,
      timeoutMs: settings.timeout,
    })
    const verify = createVerifier({
      keys,
      clock,
      issuer: settings.issuer,
      audience: settings.audience,
      algorithms: settings.algorithms,
      toleranceMs: settings.clock_tolerance,
      read: createReader(settings),
    })
    return {
      async decide(ctx) {
        const identity = await verify(bearerToken(ctx.req.rawHeaders))
        const account = withPlan(await payer(accounts, identity), identity)
        ctx.exchange.give('key', keyOf(identity, account))
        ctx.exchange.give('account', account)
        ctx.exchange.give('claims', identity.claims)
        // After the facts, so that the log has the caller of a refusal.
        plans.of(account)
      },
      takes: rawHeaders => saysIssuer(rawHeaders, settings.issuer),
      dispose: () => keys.close(),
    }
  },
})

/** JavaScript sorts keys that are whole numbers, and puts them first. */
function unorderedPlans(plans: Settings['plans'] = {}): SettingsProblem[] {
  const values = Object.keys(plans)
  const number = values.length < 2 ? undefined : values.find(value => /^\d+$/.test(value))
  if (number === undefined) return []
  const message = `the order of plans matters, and a whole number such as ${number} loses its place`
  return [{ at: `/plans/${number}`, message }]
}

/** Read for each request, so that a freeze takes effect with the next one. */
async function payer(accounts: Accounts, { account: name }: Identity) {
  const account = await accounts.find(name)
  if (!account) throw refuse('forbidden', { message: 'The token is valid, but its account does not exist here.' })
  if (account.frozen) throw refuse('account_frozen')
  return account
}
