/** Whom the claims of a token stand for. The token has been checked: what is missing now is the provider's matter. */
import { createHash } from 'node:crypto'
import { type Account, type Key, refuse } from '#contract'

/** The settings that say which claims mean what. */
export interface ClaimSettings {
  readonly issuer: string
  readonly account?: string
  readonly account_claim?: string
  readonly key_claim: string
  readonly models_claim?: string
  readonly plan_claim?: string
  /** From the values of that claim to plans; the first that a token has counts. */
  readonly plans?: Readonly<Record<string, string>>
  readonly plan?: string
}

/** The part of a token that is kept. It cannot authenticate a request. */
export interface Identity {
  /** Stands for the caller as the id of a key does. */
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

/** As the ledger takes names: no control characters, no halves of characters. */
const NAME = /^[^\p{C}]{1,200}$/u
const MAX_MODELS = 1000

/** Reads the claims as the settings say; throws the refusal when one that is needed is not there. */
export function createReader(settings: ClaimSettings): (claims: Claims) => Identity {
  // Two providers may both know somebody as "1".
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

/** The fact `key`: no row of the store has it, and the ledger needs none. */
export function keyOf({ keyId, name, models, issuedAt, expiresAt }: Identity, account: Account): Key {
  return { id: keyId, accountId: account.id, name, models, createdAt: issuedAt, expiresAt, revokedAt: null }
}

/** The account as this request has it: with the plan of the token. */
export function withPlan(account: Account, { plan }: Identity): Account {
  return plan === null || plan === account.plan ? account : { ...account, plan }
}

const MAX_GROUPS = 1000

/** The plan that the token says, by the map of the settings where there is one; else the plan of the settings. */
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

/** Later steps get the same object for each request of the token. */
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

/** A list, or words with spaces between them, as `scope` has them (RFC 8693, 4.2). */
function modelsIn(claims: Claims, claim: string): readonly string[] {
  const value = Object.hasOwn(claims, claim) ? claims[claim] : undefined
  const models = typeof value === 'string' ? value.split(' ').filter(word => word !== '') : value
  if (Array.isArray(models) && models.length <= MAX_MODELS && models.every(each => typeof each === 'string')) {
    return models
  }
  throw refuse('forbidden', { message: `The token has no claim ${JSON.stringify(claim)} with a list of models.` })
}
