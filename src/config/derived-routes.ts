/**
 * The policies of derived routes: models and receipts beside a route, and kept responses below it. They accept the
 * credentials of that route: their policy is the default one, with the route's identifying steps in place of `api-key`. An
 * operator's default policy without `api-key` stays unchanged.
 */
import type { FactName } from '#contract'
import type { PolicyConfig } from './configuration.ts'
import type { LoadedPolicy, LoadedStep } from './policy/loaded-policy.ts'
import { factsNeeded } from './policy/order.ts'
import { CATALOG_POLICY, type PlannedRoute } from './routes.ts'

const IDENTITY: readonly FactName[] = ['key', 'account']

/**
 * Returns the routes with their actual policies. A path beside routes of several policies gets one route for each: the
 * credential of a request chooses. Adds the new policies to `policies`.
 */
export function deriveRoutes(routes: readonly PlannedRoute[], policies: Map<string, LoadedPolicy>): PlannedRoute[] {
  return routes.flatMap(route => {
    if (route.policy !== CATALOG_POLICY || route.beside.length === 0) return [route]
    const names = new Set(route.beside.map(policy => policyBeside(policy, policies)).filter(name => name !== null))
    return names.size === 0 ? [route] : [...names].map(policy => ({ ...route, policy }))
  })
}

/** The name of the policy with this policy's identifying steps; null: it has none, or was not loaded. */
function policyBeside(name: string, policies: Map<string, LoadedPolicy>): string | null {
  const policy = policies.get(name)
  const standard = policies.get(CATALOG_POLICY)
  if (!policy?.complete || !policy.config || !standard?.config) return null
  const [apiKey, ...others] = identifyingSteps(standard.steps)
  if (apiKey === undefined || others.length > 0 || !isApiKey(apiKey)) return null
  const identifying = identifyingSteps(policy.steps)
  if (identifying.length === 0) return null
  if (identifying.every(isApiKey)) return CATALOG_POLICY
  // No file can have a name with a colon.
  const derived = `${name}:${CATALOG_POLICY}`
  if (policies.has(derived)) return derived
  const { config: own } = policy
  const { config: common } = standard
  const ids = new Set(identifying.map(({ id }) => id))
  const facts = new Set(identifying.flatMap(({ gives }) => gives))
  const pairs = standard.steps.flatMap(step => {
    if (step === apiKey) return identifying.map(each => [each, configOf(each, own)] as const)
    if (step.gives.some(fact => facts.has(fact))) return []
    // Ids are unique within a file only: both may have a "limit". No id in a file has a colon.
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

/** The steps that always give the key and the account, and the steps that these need. */
function identifyingSteps(steps: readonly LoadedStep[]): readonly LoadedStep[] {
  const needed = new Set<FactName>(IDENTITY)
  const found: LoadedStep[] = []
  for (const step of steps.toReversed()) {
    if (step.weakness !== null || !step.gives.some(fact => needed.has(fact))) continue
    found.unshift(step)
    for (const kind of step.needs.keys()) for (const fact of factsNeeded(step, kind)) needed.add(fact)
  }
  return found.some(step => step.gives.includes('key')) ? found : []
}

const isApiKey = ({ plugin, builtIn }: LoadedStep): boolean => builtIn && plugin.name === 'api-key'
