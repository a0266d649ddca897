/**
 * The policies of routes that come with others: models and receipts beside a route, and kept responses below it. They take the
 * credentials of that route: their policy is the default one, with its identifying steps in place of `api-key`. A default
 * policy of the operator's that identifies in another way is left as it is.
 */
import type { FactName } from '#contract'
import type { PolicyConfig } from './configuration.ts'
import type { LoadedPolicy, LoadedStep } from './policy/loaded-policy.ts'
import { wants } from './policy/order.ts'
import { CATALOG_POLICY, type PlannedRoute } from './routes.ts'

const IDENTITY: readonly FactName[] = ['key', 'account']

/**
 * The routes with the policies that they really have. Where a path comes with routes of several policies, there is a route
 * for each: the credential of a request chooses. Adds the new policies to `policies`.
 */
export function deriveRoutes(routes: readonly PlannedRoute[], policies: Map<string, LoadedPolicy>): PlannedRoute[] {
  return routes.flatMap(route => {
    if (route.policy !== CATALOG_POLICY || route.beside.length === 0) return [route]
    const names = new Set(route.beside.map(policy => policyBeside(policy, policies)).filter(name => name !== null))
    return names.size === 0 ? [route] : [...names].map(policy => ({ ...route, policy }))
  })
}

/** The name of the policy with the identifying steps of this one; null: it has none, or is not known. */
function policyBeside(name: string, policies: Map<string, LoadedPolicy>): string | null {
  const policy = policies.get(name)
  const standard = policies.get(CATALOG_POLICY)
  if (!policy?.complete || !policy.config || !standard?.config) return null
  const [door, ...others] = identifyingSteps(standard.steps)
  if (door === undefined || others.length > 0 || !isApiKey(door)) return null
  const identifying = identifyingSteps(policy.steps)
  if (identifying.length === 0) return null
  if (identifying.every(isApiKey)) return CATALOG_POLICY
  // A name that no file can have.
  const derived = `${name}:${CATALOG_POLICY}`
  if (policies.has(derived)) return derived
  const { config: own } = policy
  const { config: common } = standard
  const ids = new Set(identifying.map(({ id }) => id))
  const facts = new Set(identifying.flatMap(({ gives }) => gives))
  const pairs = standard.steps.flatMap(step => {
    if (step === door) return identifying.map(each => [each, configOf(each, own)] as const)
    if (step.gives.some(fact => facts.has(fact))) return []
    // An id is one within a file: both may have a "limit". No file can have an id with a colon.
    const id = ids.has(step.id) ? `${step.id}:${CATALOG_POLICY}` : step.id
    return [[{ ...step, id }, Object.freeze({ ...configOf(step, common), id })] as const]
  })
  policies.set(derived, {
    ...policy,
    name: derived,
    steps: pairs.map(([step]) => step),
    config: Object.freeze({
      name: derived,
      from: name,
      tracesContent: false,
      steps: pairs.map(([, config]) => config),
    }),
  })
  return derived
}

const configOf = ({ id }: LoadedStep, { steps }: PolicyConfig) => steps.find(each => each.id === id)!

/** The steps that surely give the key and the account, and those that they need. */
function identifyingSteps(steps: readonly LoadedStep[]): readonly LoadedStep[] {
  const needed = new Set<FactName>(IDENTITY)
  const found: LoadedStep[] = []
  for (const step of steps.toReversed()) {
    if (step.weakness !== null || !step.gives.some(fact => needed.has(fact))) continue
    found.unshift(step)
    for (const kind of step.needs.keys()) for (const fact of wants(step, kind)) needed.add(fact)
  }
  return found.some(step => step.gives.includes('key')) ? found : []
}

const isApiKey = ({ plugin, builtIn }: LoadedStep): boolean => builtIn && plugin.name === 'api-key'
