/** The cost and the sizes of a deployment, from the file or else from the price catalog. */
import { type Price, rateOf } from '#contract'
import { wholeOf } from '../../catalog/decimal.ts'
import { familyOf } from '../../catalog/families.ts'
import type { CatalogModel, PriceCatalog } from '../../catalog/price-catalog.ts'
import type { DialectName, ProfileName } from '../../providers/dialects/dialect-names.ts'
import { VENDORS, type Vendor, vendorNamed, vendorOf } from '../../providers/dialects/vendors.ts'
import type { Deployment } from './deployments.ts'
import { type Fields, isTrue } from './read.ts'
import type { Remarks } from './remarks.ts'
import { plain, priceYaml, rowPrices, ruleIn } from './row-prices.ts'
import type { DeploymentParts } from './row-providers.ts'

export interface ModelParts {
  readonly remarks: Remarks
  readonly catalog: Pick<PriceCatalog, 'find' | 'ids'>
  readonly providers: DeploymentParts['providers']
  /** The treatment of a model at a paid provider without a known price. */
  readonly unpriced: 'disable' | 'free'
  /**
   * Whether a server at a public address of no known vendor is free, as the operator's own servers are. Set if no model would be
   * left otherwise.
   */
  readonly isForeignFree: boolean
}

/** Prices and sizes of a deployment. A size is null if unknown. */
export interface KnownPrices {
  /**
   * The source of the price. `file`: the file. The price catalog: `catalog` for the provider, `maker` for the vendor that
   * LiteLLM names, `elsewhere` for another vendor of the model. `own`: the operator's own server, which is free. Null: a paid
   * provider without a known price.
   */
  readonly by: 'file' | 'catalog' | 'maker' | 'elsewhere' | 'own' | null
  /** Whether its server has a public address of no vendor in the table. */
  readonly isForeign: boolean
  /** The vendor of the price, if it is not the provider. */
  readonly vendor: string | null
  readonly price: Price | null
  /** Whether the gateway itself finds the model in the catalog. */
  readonly isListed: boolean
  /** The catalog's name, if the provider's name differs. */
  readonly baseModel: string | null
  readonly sizes: Readonly<Record<'context' | 'max_output', Size | null>>
  readonly reasoning: boolean | null
}

export interface Size {
  readonly tokens: number
  readonly isWritten: boolean
}

/** The vendor of a provider; undefined: its host is not in the table. */
export function vendorOfProvider(provider: Record<string, unknown>): Vendor | undefined {
  const { dialect, profile, base_url } = provider as { dialect: DialectName; profile?: ProfileName; base_url: string }
  return vendorOf({ dialect, profile, baseUrl: base_url })
}

/** Reads prices and sizes from a deployment, and the rest from the catalog. */
export function knownPricesOf(deployment: Deployment, parts: ModelParts): KnownPrices {
  const { params, info, name, maker } = deployment
  const { catalog, remarks } = parts
  const provider = parts.providers.get(deployment.provider)!
  const vendor = vendorOfProvider(provider)
  const listed = vendor ? listedAs(deployment, vendor, parts) : null
  const baseModel = baseModelOf(deployment)
  const counted = !listed && maker ? (pricedIn(catalog, maker, baseModel) ?? pricedIn(catalog, maker, name)) : null
  const isOwn = isOwnServer(provider, vendor, maker, parts)
  const isForeign = isForeignHost(provider, vendor)
  // A host that is not in the table may be a reseller of models.
  const elsewhere = listed || counted || (isOwn && !isForeign) ? null : modelElsewhere(baseModel ?? name, catalog)
  const entry = listed?.model ?? counted ?? elsewhere?.model ?? null
  const written = pricesIn(params, info, remarks)
  const by = written ? 'file' : listed ? 'catalog' : counted ? 'maker' : elsewhere ? 'elsewhere' : isOwn ? 'own' : null
  const reasoning = info.text('supports_reasoning')
  return {
    by,
    isForeign,
    vendor: (counted ? maker?.title : elsewhere?.vendor.title) ?? null,
    price: written ?? (entry && pricesOf(entry.price)),
    isListed: listed !== null,
    baseModel: listed?.baseModel ?? null,
    sizes: sizesOf(deployment, entry, remarks),
    reasoning: reasoning
      ? isTrue(reasoning)
      : (entry?.reasoning.value ?? familyOf(baseModel ?? name)?.reasoning ?? null),
  }
}

function baseModelOf({ params, info }: Deployment): string | null {
  const written = params.text('base_model') ?? info.text('base_model')
  return written === null ? null : (written.text.split('/').pop() ?? null)
}

/**
 * Finds the model in the catalog by `base_model` or by its name. If the operator chooses the names, also by a known name within
 * it.
 */
function listedAs(
  deployment: Deployment,
  vendor: Vendor,
  { catalog, providers, remarks }: ModelParts,
): { readonly model: CatalogModel; readonly baseModel: string | null } | null {
  const priced = (name: string) => pricedIn(catalog, vendor, name)
  const base = baseModelOf(deployment)
  const based = pricedIn(catalog, vendor, base)
  if (based) return { model: based, baseModel: base === deployment.name ? null : base }
  const own = priced(deployment.name)
  if (own) return { model: own, baseModel: null }
  // The operator chooses the names of Azure deployments and Bedrock profiles.
  if (vendor.name !== 'azure' && !deployment.name.startsWith('arn:')) return null
  const { dialect } = providers.get(deployment.provider) as { dialect: DialectName }
  const ids = [...catalog.ids(vendor, dialect), ...catalog.ids(vendorNamed('openai')!, 'openai')]
  const guess = priced(deployment.group)
    ? deployment.group
    : ids
        .filter(id => (isIn(id, deployment.name) || isIn(id, deployment.group)) && priced(id))
        .reduce<string | null>((longest, id) => (id.length > (longest?.length ?? 1) ? id : longest), null)
  const model = guess === null ? null : priced(guess)
  if (model === null) return null
  const message = 'a deployment is assumed to be the known model in its name'
  remarks.add('changed', deployment.params, message, 'write base_model of the target', `${deployment.name}: ${guess}`)
  return { model, baseModel: guess }
}

/** A model of this name with a chat price; null: the catalog has none. */
function pricedIn(catalog: ModelParts['catalog'], vendor: Vendor, name: string | null): CatalogModel | null {
  const model = name === null ? null : catalog.find(vendor, name)
  // A price that the operator must accept first would prevent a start.
  return model !== null && model.problems.length === 0 && pricesOf(model.price) !== null ? model : null
}

/** The same model at its most expensive vendor, for resellers without a price list. */
function modelElsewhere(name: string, catalog: ModelParts['catalog']): VendorModel | null {
  const both = ({ price }: CatalogModel) => rateOf(pricesOf(price)!, 'input') + rateOf(pricesOf(price)!, 'output')
  let most: VendorModel | null = null
  for (const { vendor, id } of idsByBareName(catalog).get(bareName(name)) ?? []) {
    const model = pricedIn(catalog, vendor, id)
    if (model && (most === null || both(model) > both(most.model))) most = { model, vendor }
  }
  return most
}

interface VendorModelId {
  readonly vendor: Vendor
  readonly id: string
}

/** Indexed, because a catalog has 1500 ids and a file may have many models without a price. */
const INDEXES = new WeakMap<ModelParts['catalog'], ReadonlyMap<string, readonly VendorModelId[]>>()

function idsByBareName(catalog: ModelParts['catalog']): ReadonlyMap<string, readonly VendorModelId[]> {
  const known = INDEXES.get(catalog)
  if (known !== undefined) return known
  const all = VENDORS.flatMap(vendor => catalog.ids(vendor, vendor.dialect).map(id => ({ vendor, id })))
  const index = Map.groupBy(all, ({ id }) => bareName(id))
  INDEXES.set(catalog, index)
  return index
}

interface VendorModel {
  readonly model: CatalogModel
  readonly vendor: Vendor
}

const ENDINGS = ['-maas', '-instruct', '-it', '-fp8', '-turbo', ':free', ':latest']

/** The name without its vendor, and without the endings that vendors add to names of open models. */
function bareName(name: string): string {
  let bare = name
    .slice(name.lastIndexOf('/') + 1)
    .toLowerCase()
    .replace(/^meta-(?=llama)/, '')
  let ending: string | undefined
  while ((ending = ENDINGS.find(each => bare.endsWith(each))) !== undefined) bare = bare.slice(0, -ending.length)
  return bare
}

function isIn(id: string, name: string): boolean {
  const at = name.toLowerCase().indexOf(id.toLowerCase())
  return at >= 0 && !/[a-z0-9.]/i.test(name[at + id.length] ?? '') && !/[a-z0-9]/i.test(name[at - 1] ?? '')
}

/**
 * Whether a server may be the operator's own: a product without a key (Ollama, vLLM), or a host for which LiteLLM names no paid
 * vendor.
 */
function isOwnServer(
  provider: Record<string, unknown>,
  vendor: Vendor | undefined,
  maker: Vendor | undefined,
  { isForeignFree }: Pick<ModelParts, 'isForeignFree'>,
): boolean {
  if (!isForeignFree && isForeignHost(provider, vendor)) return false
  if (vendor !== undefined) return (vendor.key === null && vendor.hosts === undefined) || isPrivate(provider)
  const isPaid = maker !== undefined && maker.key !== null && !/^(openai|litellm-proxy)$/.test(maker.name)
  return !isPaid || isPrivate(provider)
}

/** Whether the server has a public address of no vendor in the table: it may be a paid one. */
function isForeignHost(provider: Record<string, unknown>, vendor: Vendor | undefined): boolean {
  return vendor === undefined && String(provider['base_url']).startsWith('https:') && !isPrivate(provider)
}

/** Loopback, RFC 1918, 169.254 and 100.64/10, and the IPv6 equivalents. */
const PRIVATE_ADDRESS =
  /^((127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[789]\d|1[01]\d|12[0-7]))\.[\d.]+|\[(::1|f[cd][\da-f]{2}:.*|fe[89ab][\da-f]:.*)\])$/

/** Whether the host can only be in the operator's network. */
function isPrivate({ base_url: url }: Record<string, unknown>): boolean {
  const host = URL.parse(String(url))?.hostname ?? ''
  const isNamed = /\.(local|internal|lan|localhost)$/.test(host) || (host !== '' && !/[.:]/.test(host))
  return isNamed || PRIVATE_ADDRESS.test(host)
}

/** The price in the row or its model_info; null: missing or incomplete. */
function pricesIn(params: Fields, info: Fields, remarks: Remarks): Price | null {
  const price = rowPrices(params, info, remarks)
  if (price.length === 0 || isWhole(price)) return price.length === 0 ? null : price
  remarks.add('lost', params, 'a price needs both input and output')
  return null
}

/** A price from the catalog in the form that the import writes; null: it is not for chat. */
function pricesOf(price: Price | null): Price | null {
  return price !== null && isWhole(price) ? plain(price) : null
}

const isWhole = (price: Price): boolean => ruleIn(price, 'input') !== undefined && ruleIn(price, 'output') !== undefined

/** The price of a raw route; null: unknown. The catalog has only embeddings, which are priced by input. */
export function rawPriceOf(deployment: Deployment, parts: ModelParts): object | 'free' | null {
  const { remarks, catalog, providers } = parts
  const { params, info, maker, name, use } = deployment
  const prices = rowPrices(params, info, remarks)
  const written = ruleIn(prices, 'input')
  if (prices.some(({ unit, nanos }) => unit !== 'input' && nanos > 0n))
    remarks.add(
      'lost',
      params,
      'a raw route gets only the price of the input',
      'write other prices and hold at the route',
    )
  if (written) return priceYaml([written])
  const provider = providers.get(deployment.provider)!
  const vendor = vendorOfProvider(provider)
  for (const each of use === 'embedding' ? [vendor, maker] : []) {
    const rule = each && ruleIn(plain(catalog.find(each, name)?.price ?? []), 'input')
    if (rule) return priceYaml([rule])
  }
  return isOwnServer(provider, vendor, maker, parts) ? 'free' : null
}

/** The maximum number of tokens in a configuration. */
const MAX_TOKENS = 100_000_000

function sizesOf({ params, info }: Deployment, entry: CatalogModel | null, remarks: Remarks): KnownPrices['sizes'] {
  const read = (fields: Fields, ...keys: readonly string[]): number | null => {
    for (const key of keys) {
      const value = fields.text(key)
      const tokens = value && wholeOf(value.text)
      if (tokens !== null && tokens >= 1 && tokens <= MAX_TOKENS) return tokens
      if (value) remarks.wrongNumber(value, 'it is not a whole number of tokens')
    }
    return null
  }
  const size = (written: number | null, listed: number | undefined): Size | null =>
    written !== null
      ? { tokens: written, isWritten: true }
      : listed === undefined
        ? null
        : { tokens: listed, isWritten: false }
  return {
    context: size(
      read(info, 'max_input_tokens', 'context_window') ?? read(params, 'context_window', 'max_input_tokens'),
      entry?.context.value,
    ),
    max_output: size(read(info, 'max_output_tokens', 'max_tokens'), entry?.maxOutput.value),
  }
}
