/** Converts models that are not for chat, such as embeddings, to raw routes with their provider and price. */

import type { Deployment } from './deployments.ts'
import { type ModelParts, rawPriceOf } from './known-prices.ts'
import type { BudgetYaml } from './litellm-budgets.ts'
import { RAW_PATHS, type RawUse } from './raw-paths.ts'

/** A route in gateway.yaml. */
export interface RawRouteYaml {
  readonly path: string
  readonly kind: 'raw'
  readonly policy: 'raw'
  readonly provider: string
  readonly upstream_path?: string
  readonly models: string[]
  readonly price: object | 'free'
}

/** The policy of these routes. */
export function rawPolicy(budgets: readonly BudgetYaml[]): { readonly steps: readonly object[] } {
  const credits = budgets.length === 0 ? { use: 'credits' } : { use: 'credits', with: { budgets } }
  return { steps: [{ use: 'api-key' }, credits] }
}

/** A model that is not for chat. */
type RawDeployment = Deployment & { readonly use: RawUse }

/** One route for each use, provider and price. The first has the usual path; the others begin with their provider's name. */
export function rawRoutes(deployments: readonly Deployment[], parts: ModelParts): RawRouteYaml[] {
  const routes = new Map<string, RawRouteYaml>()
  const raw = deployments.filter((each): each is RawDeployment => each.use !== 'chat')
  for (const [id, group] of Map.groupBy(raw, each => each.group)) {
    const [first, ...others] = group as [RawDeployment, ...RawDeployment[]]
    for (const { params } of others)
      parts.remarks.add('lost', params, "a raw route has one provider: the first deployment's is used", null, id)
    addRoute(id, first, routes, parts)
    for (const { params, info } of group) {
      parts.remarks.rest(params, 'params')
      parts.remarks.rest(info, 'info')
    }
  }
  return [...routes.values()]
}

function addRoute(id: string, deployment: RawDeployment, routes: Map<string, RawRouteYaml>, parts: ModelParts): void {
  const { remarks, unpriced } = parts
  const { params, model, rpm, tpm, maxInflight, use } = deployment
  const usual = RAW_PATHS[use]
  const known = rawPriceOf(deployment, parts)
  const { provider, upstream } = placeOf(deployment, parts)
  if (upstream === null || deployment.name.includes('*')) {
    const message = 'the provider uses another format for these requests'
    remarks.add(
      'lost',
      params,
      message,
      'add a raw route with its upstream_path and a price',
      `${id}: ${deployment.source}`,
    )
    return
  }
  if (known === null && unpriced === 'disable') {
    const route = 'add path, kind: raw, policy: raw, provider, models and price to routes'
    remarks.add('yours', params, 'a model has no raw route: its price is unknown', route, `${id}: ${usual}`)
    return
  }
  const price = known ?? 'free'
  const mark = JSON.stringify([use, provider, upstream, price])
  let route = routes.get(mark)
  if (!route) {
    const paths = new Set([...routes.values()].map(({ path }) => path))
    const path =
      [usual, `/${provider}${usual}`].find(each => !paths.has(each)) ?? `/${provider}-${routes.size + 1}${usual}`
    const upstreamPath = path === usual && upstream === usual.slice(3) ? {} : { upstream_path: upstream }
    routes.set(mark, (route = { path, kind: 'raw', policy: 'raw', provider, ...upstreamPath, models: [], price }))
  }
  if (!route.models.includes(model)) route.models.push(model)
  const message = "a model is on a raw route: clients must send the provider's model name to the path of the route"
  remarks.add('changed', params, message, null, `${id}: ${model} to ${route.path}`)
  if (rpm !== null || tpm !== null || maxInflight !== null)
    remarks.add('lost', params, 'a raw route has no limit', 'add the step rate-limit to policies/raw.yaml', id)
}

/** The provider, and the path below its base URL; null: the provider has another format. */
function placeOf(
  { provider, source, use }: RawDeployment,
  { providers }: ModelParts,
): { readonly provider: string; readonly upstream: string | null } {
  const { api_version, ...made } = providers.get(provider)!
  const { dialect, base_url: url } = made as { dialect: string; base_url: string }
  const path = RAW_PATHS[use].slice(3)
  if (dialect === 'ollama') return { provider, upstream: use === 'embedding' ? '/v1/embeddings' : null }
  if (dialect === 'azure' && url.endsWith('/v1')) return { provider, upstream: path }
  if (dialect === 'azure' && !url.endsWith('/models')) {
    // The classic API has the model in its path. Each resource also has the API without versions.
    providers.set(`${provider}-v1`, { ...made, base_url: `${url}/openai/v1` })
    return { provider: `${provider}-v1`, upstream: path }
  }
  const isOpenai = ['openai', 'mistral', 'together', 'zai', 'groq'].includes(dialect)
  return { provider, upstream: isOpenai && !source.startsWith('huggingface/') ? path : null }
}
