/** Models for embeddings: each stands on a raw route of its provider, at its price. */
import type { Deployment, DeploymentParts } from './deployments.ts'
import { inputPriceOf, type ModelParts } from './models.ts'
import { INFO, PARAMS } from './params-table.ts'

/** A route as gateway.yaml has it. */
export interface RawRouteYaml {
  readonly path: string
  readonly kind: 'raw'
  readonly policy: 'raw'
  readonly provider: string
  readonly models: string[]
  readonly price: object | 'free'
}

/** The policy of these routes. */
export const RAW_POLICY = { steps: [{ use: 'api-key' }, { use: 'credits' }] }

export interface EmbeddingParts extends ModelParts {
  readonly providers: DeploymentParts['providers']
}

const PATH = '/v1/embeddings'

/** One for each provider and price: the first has the usual path, the others one below the name of their provider. */
export function embeddingRoutes(deployments: readonly Deployment[], parts: EmbeddingParts): RawRouteYaml[] {
  const routes = new Map<string, RawRouteYaml>()
  for (const [id, group] of Map.groupBy(deployments, each => each.group)) {
    const [first, ...others] = group as [Deployment, ...Deployment[]]
    for (const { params } of others)
      parts.remarks.add('lost', params, `${id} is a raw route, which has one provider: that of its first deployment`)
    addRoute(id, first, routes, parts)
    for (const { params, info } of group) {
      parts.remarks.rest(params.rest(), PARAMS)
      parts.remarks.rest(info.rest(), INFO)
    }
  }
  return [...routes.values()]
}

function addRoute(id: string, deployment: Deployment, routes: Map<string, RawRouteYaml>, parts: EmbeddingParts): void {
  const { remarks, unpriced } = parts
  const { params, provider, model } = deployment
  const known = inputPriceOf(deployment, parts)
  if (!speaksOpenai(deployment, parts)) {
    const why = `${id} is for embeddings, and the provider of ${deployment.source} takes them at another path or in another format`
    remarks.add('lost', params, why, 'add a raw route with the upstream_path that the provider has, and a price')
    return
  }
  if (known === null && unpriced === 'disable') {
    const route = `a raw route for it: path: ${PATH}, kind: raw, policy: raw, provider, price, models: [${model}]`
    remarks.add('yours', params, `the price of ${id} is not in the file: it has no route`, `add ${route}`)
    return
  }
  const price = known ?? 'free'
  const mark = JSON.stringify([provider, price])
  let route = routes.get(mark)
  if (!route) {
    const paths = new Set([...routes.values()].map(({ path }) => path))
    const path =
      [PATH, `/${provider}${PATH}`].find(each => !paths.has(each)) ?? `/${provider}-${routes.size + 1}${PATH}`
    routes.set(mark, (route = { path, kind: 'raw', policy: 'raw', provider, models: [], price }))
  }
  if (!route.models.includes(model)) route.models.push(model)
  const base = route.path === PATH ? '' : `, and their base URL ends in ${route.path.replace(/\/embeddings$/, '')}`
  remarks.add('changed', params, `${id} is on the raw route ${route.path}: clients send the model ${model}${base}`)
  sayLimits(id, deployment, parts)
}

/** Whether the provider takes OpenAI's `POST /embeddings` below its base URL. Endpoints of Hugging Face have a format of their own. */
function speaksOpenai({ provider, source }: Deployment, { providers }: EmbeddingParts): boolean {
  const { dialect, base_url } = providers.get(provider) as { dialect: string; base_url: string }
  if (dialect === 'azure') return base_url.endsWith('/openai/v1')
  return ['openai', 'mistral', 'together', 'zai'].includes(dialect) && !source.startsWith('huggingface/')
}

function sayLimits(id: string, { rpm, tpm, maxInflight, params }: Deployment, { remarks }: EmbeddingParts): void {
  if (rpm === null && tpm === null && maxInflight === null) return
  remarks.add('lost', params, `the raw route of ${id} has no limit`, 'add the step rate-limit to policies/raw.yaml')
}
