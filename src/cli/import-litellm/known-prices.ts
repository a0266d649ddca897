/** The cost and the sizes of a deployment: by the file, else by the price catalog. */
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
  /** Whether a server at a public address that no vendor has is free, as the operator's own are: else nothing would serve. */
  readonly isForeignFree: boolean
}

/** Prices and sizes of a deployment. A size is null where nothing has it. */
export interface Known {
  /**
   * Where its price is from: the file; the catalog, for the provider that is asked; the catalog, for the vendor that LiteLLM
   * names; the catalog, for another vendor of the same model; a server of the operator's own, which is free. Null: a paid
   * provider, and nothing has the price.
   */
  readonly by: 'file' | 'catalog' | 'maker' | 'elsewhere' | 'own' | null
  /** Whether its server has a public address that no vendor of the table has. */
  readonly isForeign: boolean
  /** The vendor of the price, where it is another than the provider. */
  readonly vendor: string | null
  readonly price: Price | null
  /** Whether the gateway finds the model in the catalog itself. */
  readonly isListed: boolean
  /** The catalog's name, where the provider's name for the model is another. */
  readonly baseModel: string | null
  readonly sizes: Readonly<Record<'context' | 'max_output', Size | null>>
  readonly reasoning: boolean | null
}

export interface Size {
  readonly tokens: number
  readonly isWritten: boolean
}

/** The vendor that the gateway buys from; undefined: a host that is not in the table. */
export function vendorOfProvider(provider: Record<string, unknown>): Vendor | undefined {
  const { dialect, profile, base_url } = provider as { dialect: DialectName; profile?: ProfileName; base_url: string }
  return vendorOf({ dialect, profile, baseUrl: base_url })
}

/** Reads all that a deployment has, and the rest from the catalog. */
export function knownOf(deployment: Deployment, parts: ModelParts): Known {
  const { params, info, name, maker } = deployment
  const { catalog, remarks } = parts
  const provider = parts.providers.get(deployment.provider)!
  const vendor = vendorOfProvider(provider)
  const listed = vendor ? listedAs(deployment, vendor, parts) : null
  const said = baseModelOf(deployment)
  const counted = !listed && maker ? (pricedIn(catalog, maker, said) ?? pricedIn(catalog, maker, name)) : null
  const isOwn = isOwnServer(provider, vendor, maker, parts)
  const isForeign = isForeignHost(provider, vendor)
  // A host that is not in the table of vendors may be one that sells models of others.
  const elsewhere = listed || counted || (isOwn && !isForeign) ? null : modelElsewhere(said ?? name, catalog)
  const entry = listed?.model ?? counted ?? elsewhere?.model ?? null
  const written = pricesIn(params, info, remarks)
  const by = written ? 'file' : listed ? 'catalog' : counted ? 'maker' : elsewhere ? 'elsewhere' : isOwn ? 'own' : null
  const thinks = info.text('supports_reasoning')
  return {
    by,
    isForeign,
    vendor: (counted ? maker?.title : elsewhere?.vendor.title) ?? null,
    price: written ?? (entry && pricesOf(entry.price)),
    isListed: listed !== null,
    baseModel: listed?.baseModel ?? null,
    sizes: sizesOf(deployment, entry, remarks),
    reasoning: thinks ? isTrue(thinks) : (entry?.reasoning.value ?? familyOf(said ?? name)?.reasoning ?? null),
  }
}

function baseModelOf({ params, info }: Deployment): string | null {
  const said = params.text('base_model') ?? info.text('base_model')
  return said === null ? null : (said.text.split('/').pop() ?? null)
}

/** The model in the catalog: by `base_model`, by its name, or where names are free by the known name in it. */
function listedAs(
  deployment: Deployment,
  vendor: Vendor,
  { catalog, providers, remarks }: ModelParts,
): { readonly model: CatalogModel; readonly baseModel: string | null } | null {
  const priced = (name: string) => pricedIn(catalog, vendor, name)
  const said = baseModelOf(deployment)
  const based = pricedIn(catalog, vendor, said)
  if (based) return { model: based, baseModel: said === deployment.name ? null : said }
  const own = priced(deployment.name)
  if (own) return { model: own, baseModel: null }
  // Deployments of Azure and profiles of Bedrock have names of the operator's own.
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
  const why = 'a deployment is taken for the known model in its name'
  remarks.add('changed', deployment.params, why, 'write base_model of the target', `${deployment.name}: ${guess}`)
  return { model, baseModel: guess }
}

/** A model with a price for chats; null: the catalog has none of this name. */
function pricedIn(catalog: ModelParts['catalog'], vendor: Vendor, name: string | null): CatalogModel | null {
  const found = name === null ? null : catalog.find(vendor, name)
  // A price that the operator has to accept stops the gateway.
  return found !== null && found.problems.length === 0 && pricesOf(found.price) !== null ? found : null
}

/** The same model at the vendor that takes the most for it: a vendor without a price list sells models of others. */
function modelElsewhere(name: string, catalog: ModelParts['catalog']): Elsewhere | null {
  const both = ({ price }: CatalogModel) => rateOf(pricesOf(price)!, 'input') + rateOf(pricesOf(price)!, 'output')
  let most: Elsewhere | null = null
  for (const { vendor, id } of idsByBareName(catalog).get(bareName(name)) ?? []) {
    const model = pricedIn(catalog, vendor, id)
    if (model && (most === null || both(model) > both(most.model))) most = { model, vendor }
  }
  return most
}

interface VendorsId {
  readonly vendor: Vendor
  readonly id: string
}

/** Catalogs have 1500 ids, and a file many models without a price. */
const INDEXES = new WeakMap<ModelParts['catalog'], ReadonlyMap<string, readonly VendorsId[]>>()

function idsByBareName(catalog: ModelParts['catalog']): ReadonlyMap<string, readonly VendorsId[]> {
  const known = INDEXES.get(catalog)
  if (known !== undefined) return known
  const all = VENDORS.flatMap(vendor => catalog.ids(vendor, vendor.dialect).map(id => ({ vendor, id })))
  const index = Map.groupBy(all, ({ id }) => bareName(id))
  INDEXES.set(catalog, index)
  return index
}

interface Elsewhere {
  readonly model: CatalogModel
  readonly vendor: Vendor
}

const ENDINGS = ['-maas', '-instruct', '-it', '-fp8', '-turbo', ':free', ':latest']

/** Without its maker, and without endings that vendors add to the name of an open model. */
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

/** Servers of vendors without a key (Ollama, vLLM, LM Studio), and others that can be the operator's own, where LiteLLM names no vendor. */
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

/** Whether the server has a public address that no vendor of the table has: it may be one that is paid. */
function isForeignHost(provider: Record<string, unknown>, vendor: Vendor | undefined): boolean {
  return vendor === undefined && String(provider['base_url']).startsWith('https:') && !isPrivate(provider)
}

/** Loopback, RFC 1918, 169.254 and 100.64/10, and the same of IPv6. */
const PRIVATE_ADDRESS =
  /^((127|10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01])|100\.(6[4-9]|[789]\d|1[01]\d|12[0-7]))\.[\d.]+|\[(::1|f[cd][\da-f]{2}:.*|fe[89ab][\da-f]:.*)\])$/

/** Whether the host can be of the operator's network alone. */
function isPrivate({ base_url: url }: Record<string, unknown>): boolean {
  const host = URL.parse(String(url))?.hostname ?? ''
  const isNamed = /\.(local|internal|lan|localhost)$/.test(host) || (host !== '' && !/[.:]/.test(host))
  return isNamed || PRIVATE_ADDRESS.test(host)
}

/** The price of the row itself or of its model_info; null: it has none, or half of one. */
function pricesIn(params: Fields, info: Fields, remarks: Remarks): Price | null {
  const price = rowPrices(params, info, remarks)
  if (price.length === 0 || isWhole(price)) return price.length === 0 ? null : price
  remarks.add('lost', params, 'a price has one for input and one for output')
  return null
}

/** A price from the catalog as the import writes it; null: it has none for chats. */
function pricesOf(price: Price | null): Price | null {
  return price !== null && isWhole(price) ? plain(price) : null
}

const isWhole = (price: Price): boolean => ruleIn(price, 'input') !== undefined && ruleIn(price, 'output') !== undefined

/** The price of a raw route; null: it is not known. Embeddings cost by their input; the catalog has no other price of raw routes. */
export function rawPriceOf(deployment: Deployment, parts: ModelParts): object | 'free' | null {
  const { remarks, catalog, providers } = parts
  const { params, info, maker, name, use } = deployment
  const prices = rowPrices(params, info, remarks)
  const written = ruleIn(prices, 'input')
  if (prices.some(({ unit, nanos }) => unit !== 'input' && nanos > 0n))
    remarks.add('lost', params, 'a raw route has the price of the input alone', 'write others and hold at the route')
  if (written) return priceYaml([written])
  const provider = providers.get(deployment.provider)!
  const vendor = vendorOfProvider(provider)
  for (const each of use === 'embedding' ? [vendor, maker] : []) {
    const rule = each && ruleIn(plain(catalog.find(each, name)?.price ?? []), 'input')
    if (rule) return priceYaml([rule])
  }
  return isOwnServer(provider, vendor, maker, parts) ? 'free' : null
}

/** Tokens that a configuration may say at most. */
const MAX_TOKENS = 100_000_000

function sizesOf({ params, info }: Deployment, entry: CatalogModel | null, remarks: Remarks): Known['sizes'] {
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
