/** Models for embeddings: each is on a raw route of its provider, at its price. */
import type { Deployment } from './deployments.ts'
import { inputPriceOf, type ModelParts } from './known-prices.ts'

/** A route as gateway.yaml has it. */
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
export const RAW_POLICY = { steps: [{ use: 'api-key' }, { use: 'credits' }] }

const PATH = '/v1/embeddings'

/** One for each provider and price: the first has the usual path, the others one below the name of their provider. */
export function embeddingRoutes(deployments: readonly Deployment[], parts: ModelParts): RawRouteYaml[] {
  const routes = new Map<string, RawRouteYaml>()
  for (const [id, group] of Map.groupBy(deployments, each => each.group)) {
    const [first, ...others] = group as [Deployment, ...Deployment[]]
    for (const { params } of others)
      parts.remarks.add('lost', params, 'a raw route has one provider: that of the first deployment', null, id)
    addRoute(id, first, routes, parts)
    for (const { params, info } of group) {
      parts.remarks.rest(params, 'params')
      parts.remarks.rest(info, 'info')
    }
  }
  return [...routes.values()]
}

function addRoute(id: string, deployment: Deployment, routes: Map<string, RawRouteYaml>, parts: ModelParts): void {
  const { remarks, unpriced } = parts
  const { params, provider, model, rpm, tpm, maxInflight } = deployment
  const known = inputPriceOf(deployment, parts)
  const upstream = upstreamOf(deployment, parts)
  if (upstream === null || deployment.name.includes('*')) {
    const why = 'the provider takes embeddings in another format'
    remarks.add(
      'lost',
      params,
      why,
      'add a raw route with its upstream_path and a price',
      `${id}: ${deployment.source}`,
    )
    return
  }
  if (known === null && unpriced === 'disable') {
    const route = `add path: ${PATH}, kind: raw, policy: raw, provider, models and price to routes`
    remarks.add('yours', params, 'the embeddings have no route: their price is not known', route, `${id}: ${model}`)
    return
  }
  const price = known ?? 'free'
  const mark = JSON.stringify([provider, upstream, price])
  let route = routes.get(mark)
  if (!route) {
    const paths = new Set([...routes.values()].map(({ path }) => path))
    const path =
      [PATH, `/${provider}${PATH}`].find(each => !paths.has(each)) ?? `/${provider}-${routes.size + 1}${PATH}`
    const there = path === PATH && upstream === '/embeddings' ? {} : { upstream_path: upstream }
    routes.set(mark, (route = { path, kind: 'raw', policy: 'raw', provider, ...there, models: [], price }))
  }
  if (!route.models.includes(model)) route.models.push(model)
  const why = 'embeddings are on a raw route: clients send the model of the provider, to the path of the route'
  remarks.add('changed', params, why, null, `${id}: ${model} to ${route.path}`)
  if (rpm !== null || tpm !== null || maxInflight !== null)
    remarks.add('lost', params, 'a raw route has no limit', 'add the step rate-limit to policies/raw.yaml', id)
}

/** The path of embeddings below the base URL of the provider; null: it has a format of its own. */
function upstreamOf({ provider, source }: Deployment, { providers }: ModelParts): string | null {
  const { dialect, base_url } = providers.get(provider) as { dialect: string; base_url: string }
  if (dialect === 'ollama') return '/v1/embeddings'
  if (dialect === 'azure') return base_url.endsWith('/openai/v1') ? '/embeddings' : null
  const isOpenai = ['openai', 'mistral', 'together', 'zai'].includes(dialect) && !source.startsWith('huggingface/')
  return isOpenai ? '/embeddings' : null
}
