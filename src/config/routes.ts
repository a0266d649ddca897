/** `routes`: each path's kind, and for raw ones where the bytes go. The policies are matched with them in `load.ts`. */
import type { Price, RouteKind } from '#contract'
import type { Provider, RawTarget } from './configuration.ts'
import type { GatewayShape, RouteShape } from './file-shapes.ts'
import { checkPriceSize, checkProviderName, priceFrom } from './models.ts'
import { nearest } from './problem.ts'
import { pointer, type Source } from './source.ts'

/** A route before its policy is known. */
export interface PlannedRoute {
  /** Where it stands in gateway.yaml; null for a route that is there by default. */
  readonly address: string | null
  readonly path: string
  readonly kind: RouteKind
  readonly policy: string
  readonly public: boolean
  readonly unmetered: boolean
  readonly methods: readonly string[]
  readonly raw: RawTarget | null
  readonly price: Price | null
}

const KINDS: Readonly<Record<string, Exclude<RouteKind, 'raw'>>> = {
  '/v1/chat/completions': 'chat',
  '/v1/models': 'models',
  '/v1/models/{id}': 'model',
  '/v1/receipts/{id}': 'receipt',
}
const DEFAULT_PATHS = ['/v1/models', '/v1/models/{id}', '/v1/receipts/{id}']
const NOT_YET = ['/v1/messages', '/v1/responses']
const OWN_PATHS = ['/livez', '/readyz', '/metrics']
const RAW_ONLY = ['methods', 'provider', 'upstream_path', 'price'] as const

/** The policy of routes that are there by default. */
export const CATALOG_POLICY = 'catalog'

interface ProviderTable {
  readonly built: ReadonlyMap<string, Provider>
  /** All names of the file, sound or not. */
  readonly names: readonly string[]
}

/** The sound routes of the file, then those that are there by default. */
export function planRoutes(source: Source, shapes: GatewayShape['routes'], providers: ProviderTable): PlannedRoute[] {
  const planned: PlannedRoute[] = []
  const paths = new Map<string, string>()
  for (const [i, shape] of (Array.isArray(shapes) ? shapes : []).entries()) {
    const at = `/routes/${i}`
    checkDuplicate(source, at, shape?.path, paths)
    if (!source.sound(at)) continue
    const kind = kindOf(source, at, shape)
    if (kind === null) continue
    if (kind === 'raw') checkRaw(source, at, shape, providers)
    else checkKnown(source, at, shape, kind)
    if (!source.sound(at)) continue
    const raw = kind === 'raw' ? rawTarget(shape, providers) : null
    // A raw route to a provider that is itself broken: reported there.
    if (kind === 'raw' && raw === null) continue
    planned.push({
      address: at,
      path: shape.path,
      kind,
      policy: shape.policy,
      public: shape.public,
      unmetered: shape.unmetered,
      methods: shape.methods ?? methodsOf(kind),
      raw,
      price: shape.price === undefined ? null : priceFrom(shape.price),
    })
  }
  return [...planned, ...defaults(paths)]
}

function defaults(paths: ReadonlyMap<string, string>): PlannedRoute[] {
  return DEFAULT_PATHS.filter(path => !paths.has(path)).map(path => ({
    address: null,
    path,
    kind: KINDS[path]!,
    policy: CATALOG_POLICY,
    public: false,
    unmetered: false,
    methods: methodsOf(KINDS[path]!),
    raw: null,
    price: null,
  }))
}

const methodsOf = (kind: RouteKind) => (kind === 'chat' || kind === 'raw' ? ['POST'] : ['GET'])

function checkDuplicate(source: Source, at: string, path: unknown, paths: Map<string, string>): void {
  if (typeof path !== 'string') return
  const first = paths.get(path)
  if (first !== undefined) {
    const { line } = source.position(`${first}/path`)
    source.report(`${at}/path`, `the path ${path} is here already (line ${line})`, {
      suggestion: 'remove one of the two',
    })
  } else paths.set(path, at)
}

function kindOf(source: Source, at: string, { path, kind }: RouteShape): RouteKind | null {
  const known = Object.hasOwn(KINDS, path) ? KINDS[path] : undefined
  if (known !== undefined) {
    if (kind === undefined || kind === known) return known
    source.report(`${at}/kind`, `${path} is always of kind ${known}`, { suggestion: 'remove this line' })
    return null
  }
  if (NOT_YET.includes(path)) {
    source.report(`${at}/path`, `${path} is not built yet`, { suggestion: 'clients can use /v1/chat/completions' })
  } else if (OWN_PATHS.includes(path)) {
    source.report(`${at}/path`, `the gateway itself answers ${path}`, { suggestion: 'remove this route' })
  } else if (/[{}]/.test(path)) {
    source.report(
      `${at}/path`,
      `${path} has a part in braces, which only ${Object.keys(KINDS)
        .filter(each => each.includes('{'))
        .join(' and ')} may`,
    )
  } else if (kind === 'raw') return 'raw'
  else if (kind !== undefined) {
    const right = Object.keys(KINDS).find(each => KINDS[each] === kind)
    source.report(`${at}/kind`, `the path of kind ${kind} is ${right}, not ${path}`)
  } else {
    const near = nearest(path, Object.keys(KINDS))
    const suggestion = near === undefined ? 'say "kind: raw" to pass its bytes to a provider' : `did you mean ${near}?`
    source.report(`${at}/path`, `the gateway does not know the path ${path}`, { suggestion })
  }
  return null
}

function checkKnown(source: Source, at: string, shape: RouteShape, kind: RouteKind): void {
  for (const key of RAW_ONLY) {
    if (shape[key] === undefined) continue
    source.report(at + pointer(key), `"${key}" is for raw routes only`, { key: true, suggestion: 'remove this line' })
  }
  if (shape.unmetered && kind !== 'chat') {
    const message = `${shape.path} costs nothing, so "unmetered" says nothing`
    source.report(`${at}/unmetered`, message, { key: true, suggestion: 'remove this line' })
  }
}

function checkRaw(source: Source, at: string, shape: RouteShape, providers: ProviderTable): void {
  if (shape.provider === undefined) {
    source.report(at, 'a raw route has to say its "provider"')
  } else {
    checkProviderName(source, `${at}/provider`, shape.provider, providers.names)
    if (providers.built.get(shape.provider)?.dialect === 'demo') {
      source.report(`${at}/provider`, `the demo provider "${shape.provider}" answers chat completions only`)
    }
  }
  if (shape.price === undefined) {
    source.report(at, 'a raw route has to say its "price"', {
      suggestion: 'write "price: free" or what a request costs',
    })
  } else checkPriceSize(source, `${at}/price`, shape.price)
}

function rawTarget(shape: RouteShape, { built }: ProviderTable): RawTarget | null {
  const provider = built.get(shape.provider ?? '')
  if (provider === undefined) return null
  return { provider, path: shape.upstream_path ?? shape.path.replace(/^\/v1(?=\/)/, '') }
}
