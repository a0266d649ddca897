/** `routes`: the kind of each path, and the targets of raw routes. `load.ts` adds the policies. */
import { asksModel, type NanoUsd, type Price, type RouteKind } from '#contract'
import type { Provider, RawTarget } from './configuration.ts'
import type { GatewayShape, RouteShape } from './file-shapes.ts'
import { checkProviderName } from './models.ts'
import { checkHold, checkPrice, priceFrom } from './prices.ts'
import { listed, nearest } from './yaml/problem.ts'
import { pointer, type Source } from './yaml/source.ts'

/** A route before its policy is loaded. */
export interface PlannedRoute {
  /** Its JSON pointer in gateway.yaml; null for a default route. */
  readonly address: string | null
  readonly path: string
  readonly kind: RouteKind
  /** Whether it only counts tokens. */
  readonly counts: boolean
  readonly policy: string
  /** For a default route: the policies of the routes that it belongs to, in the order of the file. */
  readonly beside: readonly string[]
  readonly public: boolean
  readonly unmetered: boolean
  readonly keepResponsesMs: number | null
  readonly methods: readonly string[]
  readonly raw: RawTarget | null
  readonly price: Price | null
  readonly hold: NanoUsd | null
}

/** A route's mention of a policy. Broken routes are included, so that their policies are checked too. */
export interface PolicyUse {
  readonly address: string | null
  readonly policy: string
  /** Null if the route's path has a problem. */
  readonly kind: RouteKind | null
}

export interface Plan {
  readonly routes: readonly PlannedRoute[]
  readonly uses: readonly PolicyUse[]
}

const KINDS: Readonly<Record<string, Exclude<RouteKind, 'raw'>>> = {
  '/v1/chat/completions': 'chat',
  '/v1/messages': 'messages',
  '/v1/responses': 'responses',
  '/v1/messages/count_tokens': 'messages',
  '/v1/responses/input_tokens': 'responses',
  '/v1/responses/{id}': 'response',
  '/v1/models': 'models',
  '/v1/models/{id}': 'model',
  '/v1/receipts/{id}': 'receipt',
  '/v1/budgets': 'budgets',
}
/**
 * The kind of a path. A prefix allows a separate route with another policy: `/office/v1/chat/completions` serves clients
 * whose base URL ends in `/office/v1`.
 */
function knownKind(path: string): Exclude<RouteKind, 'raw'> | undefined {
  const known = Object.keys(KINDS).find(each => path.endsWith(each))
  return known === undefined || /[{}]/.test(prefixOf(path)) ? undefined : KINDS[known]
}

/** The text before the known part of a path: `/office`, usually empty. */
function prefixOf(path: string): string {
  const known = Object.keys(KINDS).find(each => path.endsWith(each))
  return known === undefined ? '' : path.slice(0, -known.length)
}

/** The path suffix for counting tokens in a format. */
const COUNTS: Readonly<Partial<Record<RouteKind, string>>> = { messages: '/count_tokens', responses: '/input_tokens' }
const doesCount = (path: string) => Object.values(COUNTS).some(end => path.endsWith(end))

const DEFAULT_PATHS = ['/v1/models', '/v1/models/{id}', '/v1/receipts/{id}', '/v1/budgets']
const OWN_PATHS = ['/livez', '/readyz', '/metrics']
const RAW_ONLY = ['methods', 'provider', 'upstream_path', 'models', 'price', 'hold'] as const

/** The policy of default routes. */
export const CATALOG_POLICY = 'catalog'

interface ProviderTable {
  readonly built: ReadonlyMap<string, Provider>
  /** All names in the file, including providers with problems. */
  readonly names: readonly string[]
}

/** In a path: one or more segments. */
const PLACE = '{id}'

/** The routes of the file without problems, then the default routes. */
export function planRoutes(source: Source, shapes: GatewayShape['routes'], providers: ProviderTable): Plan {
  const routes: PlannedRoute[] = []
  const uses: PolicyUse[] = []
  const paths = new Map<string, string>()
  for (const [i, shape] of (Array.isArray(shapes) ? shapes : []).entries()) {
    const at = `/routes/${i}`
    const remains = source.remains<RouteShape>(at, shape)
    if (remains === null) continue
    if (remains.path !== undefined) checkDuplicate(source, at, remains.path, paths)
    const kind = remains.path === undefined ? null : kindOf(source, at, remains.path, remains.kind)
    if (kind === 'raw') checkRaw(source, at, remains, providers)
    else if (kind !== null) checkKnown(source, at, remains, kind)
    if (kind !== null && (kind !== 'responses' || doesCount(remains.path!))) checkKeepsNothing(source, at, remains)
    if (remains.policy !== undefined) uses.push({ address: at, policy: remains.policy, kind })
    if (kind !== null && source.sound(at)) {
      const route = build(at, shape as RouteShape, kind, providers)
      if (route !== null) routes.push(route)
    }
  }
  const added = defaults(paths, routes)
  const counting = countingRoutes(routes, paths)
  return { routes: [...routes, ...counting, ...added].sort(byExactness), uses: [...uses, ...added] }
}

/**
 * If two paths match a request, the more specific one wins, regardless of the order in the file. Paths without braces come
 * first, then those with more segments before the braces, then those with more after. Equal paths keep their order.
 */
function byExactness(one: Pick<PlannedRoute, 'path'>, other: Pick<PlannedRoute, 'path'>): number {
  const [ours, theirs] = [one, other].map(({ path }) => path.split(PLACE).map(slashesIn)) as [number[], number[]]
  if (ours.length === 1 || theirs.length === 1) return ours.length - theirs.length
  return theirs[0]! - ours[0]! || theirs[1]! - ours[1]!
}

const slashesIn = (path: string) => path.split('/').length - 1

function build(address: string, shape: RouteShape, kind: RouteKind, providers: ProviderTable): PlannedRoute | null {
  const raw = kind === 'raw' ? rawTarget(shape, providers) : null
  // The provider has a problem, which is reported there.
  if (kind === 'raw' && raw === null) return null
  return {
    address,
    path: shape.path,
    kind,
    counts: kind !== 'raw' && doesCount(shape.path),
    policy: shape.policy,
    beside: [],
    public: shape.public,
    unmetered: shape.unmetered,
    keepResponsesMs: shape.keep_responses ?? null,
    methods: shape.methods ?? methodsOf(kind),
    raw,
    price: shape.price === undefined ? null : priceFrom(shape.price),
    hold: shape.hold ?? null,
  }
}

function defaults(paths: ReadonlyMap<string, string>, planned: readonly PlannedRoute[]): PlannedRoute[] {
  const prefixes = new Set(['', ...[...paths.keys()].filter(path => asksModel(knownKind(path) ?? 'raw')).map(prefixOf)])
  const wanted = new Map<string, readonly string[]>()
  for (const prefix of prefixes) for (const path of DEFAULT_PATHS) wanted.set(prefix + path, besides(prefix, planned))
  for (const { path, policy, keepResponsesMs } of planned)
    if (keepResponsesMs !== null) wanted.set(`${path}/${PLACE}`, [policy])
  return [...wanted]
    .filter(([path]) => !paths.has(path))
    .map(([path, beside]) => ({
      address: null,
      path,
      kind: knownKind(path)!,
      counts: false,
      policy: CATALOG_POLICY,
      beside,
      public: false,
      unmetered: false,
      keepResponsesMs: null,
      methods: methodsOf(knownKind(path)!),
      raw: null,
      price: null,
      hold: null,
    }))
}

/** The policies of the routes with this prefix. */
function besides(prefix: string, planned: readonly PlannedRoute[]): readonly string[] {
  return planned.filter(({ path }) => path.startsWith(`${prefix}/v1/`)).map(({ policy }) => policy)
}

/**
 * Adds a route for counting tokens beside each route of a format that has one. It has the same policy, so the same clients
 * can use it. A path in the file has precedence.
 */
function countingRoutes(routes: readonly PlannedRoute[], paths: ReadonlyMap<string, string>): PlannedRoute[] {
  return routes
    .filter(({ kind, counts }) => COUNTS[kind] !== undefined && !counts)
    .map(route => ({ ...route, address: null, path: route.path + COUNTS[route.kind]!, counts: true, unmetered: false }))
    .filter(({ path }) => !paths.has(path))
}

function methodsOf(kind: RouteKind): string[] {
  if (kind === 'response') return ['GET', 'DELETE', 'POST']
  return asksModel(kind) || kind === 'raw' ? ['POST'] : ['GET']
}

function checkKeepsNothing(source: Source, at: string, shape: Partial<RouteShape>): void {
  if (shape.keep_responses === undefined) return
  source.report(`${at}/keep_responses`, '"keep_responses" is for /v1/responses only', {
    rule: 'useless-key',
    key: true,
    suggestion: 'remove this line',
  })
}

function checkDuplicate(source: Source, at: string, path: string, paths: Map<string, string>): void {
  const first = paths.get(path)
  if (first !== undefined) {
    const { line } = source.position(`${first}/path`)
    source.report(`${at}/path`, `the path ${path} exists already (line ${line})`, {
      rule: 'duplicate-path',
      suggestion: 'remove one of the two',
    })
  } else paths.set(path, at)
}

function kindOf(source: Source, at: string, path: string, kind: RouteKind | undefined): RouteKind | null {
  if (!isReachable(source, at, path)) return null
  const known = knownKind(path)
  if (known === undefined && source.reported(`${at}/kind`)) return null
  // Older configurations count tokens with a raw route.
  if (known !== undefined && !(kind === 'raw' && doesCount(path))) {
    if (kind === undefined || kind === known) return known
    source.report(`${at}/kind`, `${path} is always of kind ${known}`, {
      rule: 'wrong-value',
      suggestion: 'remove this line',
    })
    return null
  }
  if (OWN_PATHS.includes(path)) {
    source.report(`${at}/path`, `${path} is served by the gateway itself`, {
      rule: 'unreachable-route',
      suggestion: 'remove this route',
    })
  } else if (/[{}]/.test(path) && kind !== 'raw') {
    source.report(
      `${at}/path`,
      `${path} has braces, which only ${listed(['raw routes', ...Object.keys(KINDS).filter(each => each.includes('{'))], 'and')} can have`,
      {
        rule: 'unknown-path',
        suggestion: kind === undefined ? 'write "kind: raw" to pass its bytes to a provider' : undefined,
      },
    )
  } else if (kind === 'raw') return checkPlace(source, at, path) ? 'raw' : null
  else if (kind !== undefined) {
    const right = Object.keys(KINDS).find(each => KINDS[each] === kind)
    source.report(`${at}/kind`, `the path of kind ${kind} ends in ${right}, not ${path}`, { rule: 'unknown-path' })
  } else {
    const near = nearest(path, Object.keys(KINDS))
    const suggestion =
      near === undefined
        ? path.endsWith('/chat/completions')
          ? 'a path for chat completions ends in /v1/chat/completions'
          : 'write "kind: raw" to pass its bytes to a provider'
        : `did you mean ${near}?`
    source.report(`${at}/path`, `the path ${path} is unknown`, { rule: 'unknown-path', suggestion })
  }
  return null
}

/** Clients and proxies resolve `.` and `..` before they send a request. */
function isReachable(source: Source, at: string, path: string): boolean {
  const part = path.split('/').find(each => each === '.' || each === '..')
  if (part === undefined) return true
  source.report(`${at}/path`, `no client can request ${path}: "${part}" is resolved before a request is sent`, {
    rule: 'unreachable-route',
    suggestion: 'write the resolved path',
  })
  return false
}

/** Whether a raw path has at most one `{id}`, as a whole segment. */
function checkPlace(source: Source, at: string, path: string): boolean {
  const parts = path.split(PLACE)
  const rest = parts.join('')
  if (/[{}]/.test(rest)) {
    source.report(`${at}/path`, `a path can have no other braces than ${PLACE}`, {
      rule: 'wrong-value',
      suggestion: `it matches one or more segments: ${path.split('{')[0]}${PLACE}`,
    })
  } else if (parts.length > 2) {
    source.report(`${at}/path`, `${path} has ${PLACE} twice`, {
      suggestion: `write it once, because it matches several segments: ${parts[0]}${PLACE}`,
    })
  } else if (parts.length === 2 && !(parts[0]!.endsWith('/') && /^(\/|$)/.test(parts[1]!))) {
    source.report(`${at}/path`, `in ${path}, ${PLACE} must be a whole segment`)
  } else return true
  return false
}

function checkKnown(source: Source, at: string, shape: Partial<RouteShape>, kind: RouteKind): void {
  for (const key of RAW_ONLY) {
    if (shape[key] === undefined) continue
    source.report(at + pointer(key), `"${key}" is for raw routes only`, {
      rule: 'useless-key',
      key: true,
      suggestion: 'remove this line',
    })
  }
  if (shape.unmetered && (!asksModel(kind) || doesCount(shape.path ?? ''))) {
    const message = `${shape.path} costs nothing, so "unmetered" has no effect`
    source.report(`${at}/unmetered`, message, { rule: 'useless-key', key: true, suggestion: 'remove this line' })
  }
}

function checkRaw(source: Source, at: string, shape: Partial<RouteShape>, providers: ProviderTable): void {
  if (!source.mayHave(`${at}/provider`)) {
    source.report(at, 'a raw route needs a "provider"', { rule: 'missing-key' })
  } else if (shape.provider !== undefined) {
    checkProviderName(source, `${at}/provider`, shape.provider, providers.names)
    if (providers.built.get(shape.provider)?.dialect === 'demo') {
      source.report(`${at}/provider`, `the demo provider "${shape.provider}" supports chat completions only`, {
        rule: 'wrong-value',
      })
    }
  }
  checkUpstreamPath(source, at, shape)
  checkModels(source, at, shape, providers)
  if (!source.mayHave(`${at}/price`)) {
    source.report(at, 'a raw route needs a "price"', {
      rule: 'no-price',
      suggestion: 'write "price: free" or the price of a request',
    })
  } else {
    checkPrice(source, `${at}/price`, shape.price)
    checkHold(source, at, shape)
  }
}

/** If text follows `{id}`, its place in another path is undefined. */
function checkUpstreamPath(source: Source, at: string, { path, upstream_path }: Partial<RouteShape>): void {
  if (path === undefined || upstream_path === undefined) return
  if (!path.includes(PLACE) || path.endsWith(PLACE)) return
  source.report(`${at}/upstream_path`, `"upstream_path" is not possible for a path with text after ${PLACE}`, {
    rule: 'useless-key',
    suggestion: `end the path with ${PLACE}`,
  })
}

/** If the path names the model, checking a model in the body would be meaningless. */
function checkModels(
  source: Source,
  at: string,
  { models, methods, provider }: Partial<RouteShape>,
  { built }: ProviderTable,
): void {
  if (models === undefined) return
  const bodiless = methods?.find(method => method === 'GET' || method === 'DELETE')
  if (bodiless !== undefined) {
    source.report(`${at}/models`, `a ${bodiless} has no body that names a model`, {
      rule: 'useless-key',
      key: true,
      suggestion: 'remove this line, or that method',
    })
  }
  const { dialect, azure } = built.get(provider ?? '') ?? {}
  if (dialect === undefined || !(MODEL_IN_PATH.includes(dialect) || azure?.api === 'classic')) return
  source.report(`${at}/models`, `at "${provider}" (${dialect}) the path names the model, not the body`, {
    rule: 'useless-key',
    key: true,
    suggestion: 'remove this line',
  })
}

const MODEL_IN_PATH: readonly Provider['dialect'][] = [
  'gemini',
  'vertex',
  'vertex-anthropic',
  'bedrock',
  'bedrock-invoke',
]

/** A path that ends in `{id}` keeps it at the provider; `upstream_path` replaces the text before it. */
function rawTarget(shape: RouteShape, { built }: ProviderTable): RawTarget | null {
  const provider = built.get(shape.provider ?? '')
  if (provider === undefined) return null
  const { path, upstream_path, models = null } = shape
  if (upstream_path === undefined) return { provider, path: path.replace(/^\/v1(?=\/)/, ''), models }
  const placed = path.endsWith(PLACE) ? `${upstream_path.replace(/\/$/, '')}/${PLACE}` : upstream_path
  return { provider, path: placed, models }
}
