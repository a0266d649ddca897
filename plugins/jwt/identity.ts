/** The caller that the claims of a verified token identify. */
import { createHash } from 'node:crypto'
import { type Account, type Key, refuse } from '#contract'

/** The settings that name claims. */
export interface ClaimSettings {
  readonly issuer: string
  readonly account?: string
  readonly account_claim?: string
  readonly key_claim: string
  readonly models_claim?: string
  readonly plan_claim?: string
  /** Plans by values of that claim. If a token has several, the first one here counts. */
  readonly plans?: Readonly<Record<string, string>>
  readonly plan?: string
}

/** The part of a token that is cached. It cannot authenticate a request. */
export interface Identity {
  /** Identifies the caller as the id of a key does. */
  readonly keyId: string
  readonly name: string
  /** Name or id of the account. */
  readonly account: string
  readonly models: readonly string[] | null
  /** Null: the account's own. */
  readonly plan: string | null
  readonly claims: Claims
  /** Milliseconds since the epoch. */
  readonly issuedAt: number
  readonly expiresAt: number
}

export type Claims = Readonly<Record<string, unknown>>

/** Names that the ledger accepts: no control characters, no lone surrogates. */
const NAME = /^[^\p{C}]{1,200}$/u
const MAX_MODELS = 1000

/** Reads the claims that the settings name. Throws a refusal if a required one is missing. */
export function createReader(settings: ClaimSettings): (claims: Claims) => Identity {
  // Two providers may both have a user "1".
  const issuerTag = createHash('sha256').update(settings.issuer).digest('hex').slice(0, 8)
  const { account, account_claim, key_claim, models_claim } = settings
  return claims => {
    const name = nameIn(claims, key_claim, 'the caller')
    return {
      keyId: `jwt:${issuerTag}:${name}`,
      name,
      account: account ?? nameIn(claims, account_claim!, 'an account'),
      models: models_claim === undefined ? null : modelsIn(claims, models_claim),
      plan: planIn(claims, settings),
      claims: frozen(claims),
      issuedAt: typeof claims['iat'] === 'number' ? claims['iat'] * 1000 : 0,
      expiresAt: (claims['exp'] as number) * 1000,
    }
  }
}

/** The fact `key`. It has no row in the store. */
export function keyOf({ keyId, name, models, issuedAt, expiresAt }: Identity, account: Account): Key {
  return { id: keyId, accountId: account.id, name, models, createdAt: issuedAt, expiresAt, revokedAt: null }
}

/** The account with the plan of the token. */
export function withPlan(account: Account, { plan }: Identity): Account {
  return plan === null || plan === account.plan ? account : { ...account, plan }
}

const MAX_GROUPS = 1000

/** The plan of the token, mapped by the settings if they have a map; else the plan of the settings. */
function planIn(claims: Claims, { plan_claim, plans, plan }: ClaimSettings): string | null {
  if (plan_claim === undefined) return plan ?? null
  const value = Object.hasOwn(claims, plan_claim) ? claims[plan_claim] : undefined
  const values = value === undefined && plan !== undefined ? [] : [value].flat()
  if (values.length > MAX_GROUPS || !values.every(each => typeof each === 'string' && NAME.test(each))) {
    throw refuse('forbidden', {
      message: `The token has no claim ${JSON.stringify(plan_claim)} with the name of a plan.`,
    })
  }
  const texts = values as readonly string[]
  if (plans === undefined && texts.length > 1) {
    const message = `The claim ${JSON.stringify(plan_claim)} of the token names several plans, and one is needed.`
    throw refuse('forbidden', { message })
  }
  const found = plans === undefined ? texts[0] : Object.keys(plans).find(each => texts.includes(each))
  const named = found === undefined || plans === undefined ? found : plans[found]
  if (named !== undefined) return named
  if (plan !== undefined) return plan
  throw refuse('forbidden', {
    message: `No value of the claim ${JSON.stringify(plan_claim)} of the token has a plan here.`,
  })
}

/** Frozen, because all requests of a token share the object. */
function frozen<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value
  for (const each of Object.values(value)) frozen(each)
  return Object.freeze(value)
}

function nameIn(claims: Claims, claim: string, whom: string): string {
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  if (typeof value === 'string' && NAME.test(value) && value.trim() === value) return value
  throw refuse('forbidden', { message: `The token has no claim ${JSON.stringify(claim)} with the name of ${whom}.` })
}

/** A list, or words separated by spaces, as in `scope` (RFC 8693, 4.2). */
function modelsIn(claims: Claims, claim: string): readonly string[] {
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  const models = typeof value === 'string' ? value.split(' ').filter(word => word !== '') : value
  if (Array.isArray(models) && models.length <= MAX_MODELS && models.every(each => typeof each === 'string')) {
    return models
  }
  throw refuse('forbidden', { message: `The token has no claim ${JSON.stringify(claim)} with a list of models.` })
}
