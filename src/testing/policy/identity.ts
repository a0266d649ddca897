/**
 * The identity provider of policy tests, instead of the one that a `jwt` step trusts. It creates its own keys, so none are fetched. Its
 * tokens pass all checks of the step.
 */
import type { Model } from '#contract'
import type { Configuration, RouteConfig, StepConfig } from '../../config/configuration.ts'
import { BUILT_IN } from '../../loader/builtin.ts'

export interface TokenContents {
  /** Name of the account that pays. */
  readonly account: string
  /** The plan of the account, which becomes a claim if the step reads it there. */
  readonly plan: string
  /** The models of the token. Default: every public one. */
  readonly models?: readonly string[]
  /** Further claims. They cannot replace those that the step itself reads. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** Milliseconds since the epoch. */
  readonly nowMs: number
}

/** The settings of a `jwt` step that its tokens depend on. */
export interface JwtSettings {
  readonly issuer: string
  readonly audience: string | readonly string[]
  readonly algorithms: readonly string[]
  readonly account?: string
  readonly account_claim?: string
  readonly key_claim: string
  readonly models_claim?: string
  readonly plan_claim?: string
  readonly plans?: Readonly<Record<string, string>>
}

interface Signer {
  readonly privateKey: CryptoKey
  readonly jwk: object
}

/** Algorithms with fast key generation first: a long RSA key takes a tenth of a second. */
const QUICK = ['EdDSA', 'Ed25519', 'ES256', 'ES384', 'ES512']
const KEY_ID = 'policy-test'
const HOUR_S = 3_600

/** By algorithm and provider; shared by all tests of a process. */
const signers = new Map<string, Promise<Signer>>()

/** The step that takes tokens on a route; null if it takes gateway keys, or nothing. */
export function tokenStepOf({ steps }: RouteConfig): StepConfig | null {
  const active = steps.steps.filter(({ mode }) => mode !== 'off')
  if (active.some(({ plugin }) => plugin.name === 'api-key' && BUILT_IN.includes(plugin))) return null
  return active.find(isJwt) ?? null
}

// Another plugin may have the same name.
const isJwt = ({ plugin }: StepConfig) => plugin.name === 'jwt' && BUILT_IN.includes(plugin)

/** Makes the `jwt` steps of a configuration trust this provider. A fixed account for all callers becomes the account of the test. */
export async function trusting(configuration: Configuration, account: string): Promise<Configuration> {
  if (!configuration.routes.some(({ steps }) => steps.steps.some(isJwt))) return configuration
  const trusted = async (step: StepConfig): Promise<StepConfig> => {
    if (!isJwt(step)) return step
    const settings = step.settings as JwtSettings
    const { jwk } = await signerFor(settings, 'provider')
    const payer = settings.account === undefined ? {} : { account }
    return { ...step, settings: { ...settings, ...payer, jwks: { keys: [jwk] } } }
  }
  const routes = configuration.routes.map(async route => {
    const steps = await Promise.all(route.steps.steps.map(trusted))
    return { ...route, steps: { ...route.steps, steps } }
  })
  return { ...configuration, routes: await Promise.all(routes) }
}

/** A token for a `jwt` step: valid for an hour, expired for an hour, or signed by an unknown key. */
export async function tokenFor(
  step: StepConfig,
  which: 'good' | 'unknown' | 'expired',
  { account, plan, models, claims: further, nowMs }: TokenContents,
  catalog: Iterable<Model>,
): Promise<string> {
  const settings = step.settings as JwtSettings
  const { privateKey } = await signerFor(settings, which === 'unknown' ? 'stranger' : 'provider')
  const { SignJWT } = await import('jose')
  const now = Math.floor(nowMs / 1000)
  const publicModels = () => [...catalog].filter(model => model.enabled && model.public).map(({ id }) => id)
  const claims = {
    ...further,
    [settings.key_claim]: 'policy-test',
    ...(settings.models_claim === undefined ? {} : { [settings.models_claim]: models ?? publicModels() }),
    ...(settings.account_claim === undefined ? {} : { [settings.account_claim]: account }),
    ...(settings.plan_claim === undefined ? {} : { [settings.plan_claim]: planValue(settings, plan) }),
    iss: settings.issuer,
    aud: [settings.audience].flat()[0]!,
    iat: now - 2 * HOUR_S,
    exp: which === 'expired' ? now - HOUR_S : now + HOUR_S,
  }
  return new SignJWT(claims).setProtectedHeader({ alg: algorithmOf(settings), kid: KEY_ID }).sign(privateKey)
}

/** The value of the claim that the step maps to the plan; the plan's name if it maps none. */
function planValue({ plans = {} }: JwtSettings, plan: string): string {
  return Object.keys(plans).find(value => plans[value] === plan) ?? plan
}

function algorithmOf({ algorithms }: JwtSettings): string {
  return QUICK.find(each => algorithms.includes(each)) ?? algorithms[0]!
}

function signerFor(settings: JwtSettings, whose: 'provider' | 'stranger'): Promise<Signer> {
  const algorithm = algorithmOf(settings)
  const name = `${algorithm} ${whose}`
  const known = signers.get(name) ?? makeSigner(algorithm)
  signers.set(name, known)
  return known
}

async function makeSigner(algorithm: string): Promise<Signer> {
  const { exportJWK, generateKeyPair } = await import('jose')
  const { privateKey, publicKey } = await generateKeyPair(algorithm)
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), alg: algorithm, use: 'sig', kid: KEY_ID } }
}
