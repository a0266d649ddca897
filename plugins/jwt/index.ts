/**
 * Who is asking, by the word of an identity provider: lets in people and services that carry its signed token (a JWT,
 * RFC 7519) in place of a gateway key, and gives the facts `key` and `account` as `api-key` does.
 */
import { type Accounts, definePlugin, refuse, unit } from '#contract'
import { bearerToken } from './bearer.ts'
import { type ClaimSettings, createReader, type Identity, keyOf } from './identity.ts'
import type { Jwks } from './jwks.ts'
import { complaintsAbout, createKeySet } from './key-set.ts'
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

/** With a public key to check them by. The others are checked by what signs them, which a gateway should not have. */
const ALGORITHMS = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
]

/** An address without a name and a password in it; plain HTTP only where nobody else is on the way. */
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
  description: 'Checks the token of an identity provider and finds whose it is; refuses everyone else.',
  needsBody: false,
  critical: true,
  gives: ['key', 'account', 'claims'],
  uses: ['accounts', 'clock', 'log'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['issuer', 'audience', 'jwks'],
    anyOf: [{ required: ['account'] }, { required: ['account_claim'] }],
    if: { required: ['account'] },
    then: {
      properties: { account_claim: { refused: 'account_claim and account exclude each other; choose one of them' } },
    },
    properties: {
      issuer: { type: 'string', minLength: 1, description: 'Who must have issued a token: its `iss`, exactly.' },
      audience: {
        type: ['string', 'array'],
        minLength: 1,
        items: { type: 'string', minLength: 1 },
        minItems: 1,
        description: 'For whom a token must be: its `aud` names this, or one of these.',
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
        description: "The provider's public keys: the address of its key set, or `keys` written out.",
      },
      algorithms: {
        type: 'array',
        items: { enum: ALGORITHMS },
        minItems: 1,
        uniqueItems: true,
        default: ['RS256', 'PS256', 'ES256', 'EdDSA'],
        description: 'How a token may be signed. All have public keys; tokens with shared secrets are never taken.',
      },
      account: claim('The account that pays for everyone whom this step lets in: its name or id.'),
      account_claim: claim('The claim that names the account, by name or id. Only the provider may be able to set it.'),
      key_claim: {
        ...claim('The claim that stands for the caller in limits, usage and receipts, as a key does.'),
        default: 'sub',
      },
      models_claim: claim('The claim that lists the models which the caller may use. Left out: every public one.'),
      clock_tolerance: duration('0s', '5m', '30s', "How far the provider's clock may be from this one."),
      refresh: duration('30s', '24h', '10m', 'The key set is fetched again after so long.'),
      keep: duration('1m', '30d', '24h', 'How long it is used while the provider cannot be reached.'),
      cooldown: duration('1s', '10m', '30s', 'A token with an unknown key makes it be fetched again at most so often.'),
      timeout: duration('100ms', '5s', '3s', 'How long a fetch may take.'),
    },
  },
  check: ({ jwks }: Settings) => complaintsAbout(jwks),
  create(settings: Settings, { accounts, clock, log }) {
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
        const account = await payer(accounts, identity)
        ctx.exchange.give('key', keyOf(identity, account))
        ctx.exchange.give('account', account)
        ctx.exchange.give('claims', identity.claims)
      },
      dispose: () => keys.close(),
    }
  },
})

/** Asked for each request, so that a freeze holds from the next one on. */
async function payer(accounts: Accounts, { account: name }: Identity) {
  const account = await accounts.find(name)
  if (!account) throw refuse('forbidden', { message: 'The token is good, but there is no account for it here.' })
  if (account.frozen) throw refuse('account_frozen')
  return account
}
