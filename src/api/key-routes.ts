/** The keys of an account, for its people. A key of another account is refused like a missing one. */

import { fitsPattern, type KeySummary, parseMoney, refuse } from '#contract'
import type { IssuedKey } from '../store/store.ts'
import { modelsOfAccount } from './declared-plans.ts'
import { ids, MONEY, NAME, TIME } from './inputs.ts'
import { type ApiRoute, type Call, route } from './route.ts'
import { type Fits, maybe, shape } from './schema.ts'
import { showAll, showKey, showKeys } from './show.ts'
import type { IssuedKeyView, KeyView } from './views.ts'

const HOUR_MS = 3_600_000

const CAP = maybe({
  ...MONEY,
  description: 'The lifetime limit of the key; null: the balance and the budgets of the account limit it.',
})
const EXPIRY = maybe({ ...TIME, description: 'The time of its expiry; null: never.' })
const MODELS = maybe({
  type: 'array',
  items: { type: 'string', minLength: 1, maxLength: 200 },
  minItems: 1,
  maxItems: 100,
  uniqueItems: true,
  description:
    'Ids of the models for the key. An entry with a *, such as openai/*, matches ids. null: all public models.',
})

const LIMITS = { 'models?': MODELS, 'expires_at?': EXPIRY, 'spending_cap?': CAP }
const NEW_KEY = shape({ name: NAME, ...LIMITS })
const CHANGE = shape({ 'name?': NAME, ...LIMITS })
const ROTATION = shape({
  'grace_hours?': {
    type: 'integer',
    minimum: 0,
    maximum: 168,
    default: 24,
    description: 'The time for which the previous secret still works.',
  },
  'expires_at?': maybe({ ...TIME, description: "The key's new expiry; null: never. Default: unchanged." }),
})

type OneKey<Body = unknown> = Call<{ id: string }, object, Body>

export const KEY_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'GET',
    path: '/api/keys',
    summary: "The account's keys: first those that work, then the newest others; at most 200.",
    audience: 'person',
    answers: 'KeyPage',
    handle: async call => {
      const now = call.parts.clock.now()
      return { body: showAll(showKeys(await call.parts.store.listKeys(accountOf(call)), now)) }
    },
  }),
  route({
    method: 'POST',
    path: '/api/keys',
    summary: 'Creates a key. Only this answer has its secret.',
    audience: 'person',
    body: NEW_KEY,
    answers: 'IssuedKeyView',
    status: 201,
    errors: ['conflict'],
    handle: createKey,
  }),
  route({
    method: 'POST',
    path: '/api/keys/{id}/rotate',
    summary: 'Gives a key a new secret. The previous one works for a grace period, older ones stop at once.',
    audience: 'person',
    params: ids(),
    body: ROTATION,
    answers: 'IssuedKeyView',
    errors: ['not_found', 'conflict'],
    handle: rotateKey,
  }),
  route({
    method: 'POST',
    path: '/api/keys/{id}/revoke',
    summary: 'Revokes a key: its next request is refused.',
    audience: 'person',
    params: ids(),
    body: shape({}),
    answers: 'KeyView',
    errors: ['not_found'],
    handle: async call => {
      await call.parts.store.revokeKey((await ownKey(call)).id)
      return { body: await keyNow(call, call.params.id) }
    },
  }),
  route({
    method: 'PATCH',
    path: '/api/keys/{id}',
    summary: 'Changes the name, the models, the expiry or the spending cap of a key.',
    audience: 'person',
    params: ids(),
    body: { ...CHANGE, minProperties: 1 },
    answers: 'KeyView',
    errors: ['not_found', 'conflict'],
    handle: changeKey,
  }),
]

async function createKey(call: Call<object, object, Fits<typeof NEW_KEY>>) {
  const { parts, body } = call
  const account = accountOf(call)
  const now = parts.clock.now()
  await checkModels(call, body.models ?? null)
  const expiresAt = expiryOf(body.expires_at ?? null, now)
  const spendingCap = capOf(body.spending_cap ?? null)
  const issued = await parts.store.createKey({
    account,
    name: body.name,
    models: body.models ?? null,
    expiresAt,
    spendingCap,
  })
  return { body: await issuedView(call, issued) }
}

async function changeKey(call: OneKey<Fits<typeof CHANGE>>) {
  const { name, models, expires_at, spending_cap } = call.body
  const { id, purpose, models: before } = await ownKey(call)
  if (purpose === 'playground' && expires_at != null) {
    throw refuse('conflict', { message: "This is the playground's own key: it does not expire." })
  }
  // Models that an operator has given this key may stay.
  await checkModels(call, models ?? null, before ?? [])
  const now = call.parts.clock.now()
  await call.parts.store.changeKey({
    id,
    name,
    models,
    expiresAt: expires_at === undefined ? undefined : expiryOf(expires_at, now),
    spendingCap: spending_cap === undefined ? undefined : capOf(spending_cap),
  })
  return { body: await keyNow(call, id) }
}

async function rotateKey(call: OneKey<Fits<typeof ROTATION>>) {
  const { parts, body } = call
  const key = await ownKey(call)
  if (key.purpose === 'playground') {
    throw refuse('conflict', { message: "This is the playground's own key: only the gateway rotates it." })
  }
  if (key.revokedAt !== null) {
    throw refuse('conflict', { message: 'This key was revoked. Create a new one.' })
  }
  const graceMs = body.grace_hours * HOUR_MS
  const expiry = body.expires_at === undefined ? undefined : expiryOf(body.expires_at, parts.clock.now())
  const issued = await parts.store.rotateKey(key.id, graceMs, expiry)
  return { body: await issuedView(call, issued) }
}

function accountOf({ caller }: Call): string {
  if (!caller.person) throw refuse('not_signed_in')
  return caller.person.accountId
}

async function ownKey(call: OneKey): Promise<KeySummary> {
  const key = await call.parts.store.findKey(call.params.id)
  if (key?.accountId !== accountOf(call)) throw refuse('not_found')
  return key
}

async function keyNow({ parts }: Pick<Call, 'parts'>, id: string): Promise<KeyView> {
  const key = await parts.store.findKey(id)
  if (!key) throw refuse('not_found')
  return showKey(key, parts.clock.now())
}

async function issuedView(call: Pick<Call, 'parts'>, { key, token }: IssuedKey): Promise<IssuedKeyView> {
  return { key: await keyNow(call, key.id), token }
}

/** Refuses models that the account may not use. */
async function checkModels(
  call: Call,
  models: readonly string[] | null,
  before: readonly string[] = [],
): Promise<void> {
  if (models === null) return
  const known = new Set(before)
  for (const model of await modelsOfAccount(call.parts, accountOf(call))) known.add(model.id)
  const wrong = models.findIndex(id => !known.has(id) && ![...known].some(each => fitsPattern(id, each)))
  if (wrong < 0) return
  const param = `models[${wrong}]`
  throw refuse('invalid_value', {
    message: `Invalid value for '${param}': the model does not exist; GET /api/models lists all.`,
    param,
  })
}

function capOf(text: string | null): bigint | null {
  if (text === null) return null
  const cap = parseMoney(text)
  if (cap > 0n) return cap
  throw refuse('invalid_value', {
    message: "Invalid value for 'spending_cap': it must be more than 0; to stop all spending, revoke the key.",
    param: 'spending_cap',
  })
}

function expiryOf(text: string | null, now: number): number | null {
  if (text === null) return null
  const at = Date.parse(text)
  if (at > now) return at
  throw refuse('invalid_value', { message: "Invalid value for 'expires_at': it is in the past.", param: 'expires_at' })
}
