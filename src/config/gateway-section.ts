/** The keys of gateway.yaml for the server itself: addresses, store, secret, host names, limits. */
import { dirname, resolve } from 'node:path'
import { SECRET_MADE_BY, shortSecret } from '../common/secret-length.ts'
import { isPostgres, parseServer } from '../common/server-address.ts'
import type { Address, Configuration } from './configuration.ts'
import { buildPeople } from './dashboard.ts'
import type { GatewayShape } from './file-shapes.ts'
import { isLoopback, parseAddress, urlHost } from './listen-address.ts'
import type { Source } from './yaml/source.ts'

type Server = Pick<
  Configuration,
  | 'listen'
  | 'threads'
  | 'dashboard'
  | 'dashboardUrl'
  | 'publicUrl'
  | 'registration'
  | 'admin'
  | 'metrics'
  | 'store'
  | 'state'
  | 'secret'
  | 'trustProxy'
  | 'hosts'
  | 'corsOrigins'
  | 'limits'
  | 'preferredPlans'
  | 'drainMs'
  | 'heartbeat'
>

/** The message and the suggestion for a secret that is written in a file. */
export const WRITTEN_IN_CLEAR = 'is written in clear here; files get committed and copied'
export const BY_REFERENCE = 'write ${NAME} and set that environment variable, or ${file:PATH}'

/** Null if a problem of these keys was reported. */
export function buildServer(source: Source, shape: GatewayShape): Server | null {
  const before = source.problems.length
  const listen = address(source, '/listen', shape.listen)
  const admin = shape.admin === undefined ? null : address(source, '/admin', shape.admin)
  const dashboard = shape.dashboard === undefined ? null : address(source, '/dashboard', shape.dashboard)
  checkOverlaps(source, { listen, admin, dashboard })
  checkMetrics(source, shape, admin)
  const people = buildPeople(source, shape, dashboard)
  const store = source.sound('/store') ? storeOf(source, shape.store) : ''
  if (source.sound('/store')) checkStorePassword(source, store)
  if (source.sound('/state') && shape.state !== undefined) checkState(source, shape.state)
  if (source.sound('/secret') && shape.secret !== undefined) checkSecret(source, shape.secret)
  const hosts = source.sound('/hosts') && shape.hosts ? hostsOf(source, shape.hosts) : null
  const corsOrigins = source.sound('/cors') && shape.cors ? originsOf(source, shape.cors.origins) : null
  if (source.sound('/heartbeat') && shape.heartbeat.every < 1000) {
    source.report('/heartbeat/every', 'heartbeat every must be at least 1s', { rule: 'out-of-bounds' })
  }
  if (source.sound('/limits')) checkKept(source, shape.limits)
  if (source.sound('/threads')) checkThreads(source, shape.threads, store)
  const intact = ['/threads', '/state', '/trust_proxy', '/limits', '/drain', '/heartbeat'].every(part =>
    source.sound(part),
  )
  if (source.problems.length > before || !intact || listen === null || people === null || !store) return null
  const { limits, heartbeat } = shape
  return {
    listen,
    threads: shape.threads,
    ...people,
    admin,
    metrics: shape.metrics ?? 'open',
    store,
    state: shape.state ?? null,
    secret: shape.secret ?? null,
    trustProxy: shape.trust_proxy,
    hosts,
    corsOrigins,
    limits: {
      maxInflight: limits.max_inflight,
      // A larger body could never be admitted.
      bodyBytes: Math.min(limits.body, limits.bodies_in_flight),
      answerBytes: limits.answer,
      bodyBytesInflight: limits.bodies_in_flight,
      keptResponseBytes: limits.kept_response,
      keptAccountBytes: limits.kept_responses,
      eventLoopMs: limits.event_loop,
      headersMs: limits.headers,
      requestMs: limits.request,
      stallMs: limits.stall,
    },
    preferredPlans: shape.overload?.prefer ?? [],
    drainMs: shape.drain,
    heartbeat: { firstMs: heartbeat.first, everyMs: heartbeat.every },
  }
}

/** Systems where several listeners can share an address. */
const SHARES_ADDRESSES: readonly string[] = ['linux', 'freebsd', 'dragonfly', 'sunos', 'aix']

function checkThreads(source: Source, threads: number | 'auto', store: string): void {
  if (threads === 'auto' || threads === 1) return
  const suggestion = 'write threads: 1'
  if (store === 'memory') {
    source.report('/threads', 'several threads need a store in a file or a database, and this one is in memory', {
      suggestion,
    })
  } else if (!SHARES_ADDRESSES.includes(process.platform)) {
    source.report('/threads', `several threads cannot listen on one address on ${process.platform}`, { suggestion })
  }
}

/** A response above the account's limit could never be kept. */
function checkKept(source: Source, { kept_response: one, kept_responses: all }: GatewayShape['limits']): void {
  if (one <= all) return
  const message = `kept_responses has ${all} bytes per account, less than the ${one} bytes of kept_response`
  const suggestion = 'write a larger kept_responses or a smaller kept_response'
  source.report('/limits/kept_responses', message, { rule: 'out-of-bounds', suggestion })
}

function address(source: Source, at: string, text: string): Address | null {
  if (!source.sound(at)) return null
  try {
    return parseAddress(text)
  } catch (error) {
    const [message, suggestion] = (error as Error).message.split('; ')
    source.report(at, `${at.slice(1)}: ${source.show(at, text)} ${message}`, { suggestion })
    return null
  }
}

/** Reports the later of two listeners on one port. Port 0 never conflicts: the system chooses a free one. */
function checkOverlaps(source: Source, listeners: Readonly<Record<string, Address | null>>): void {
  const before: [string, Address][] = []
  for (const [name, address] of Object.entries(listeners)) {
    if (!address) continue
    const other = before.find(
      ([, { host, port }]) => port !== 0 && port === address.port && overlap(host, address.host),
    )
    if (other) {
      const suggestion = `give ${name} another port`
      source.report(`/${name}`, `${name} and ${other[0]} use the same address`, { suggestion })
    }
    before.push([name, address])
  }
}

/** Metrics describe all traffic. If other machines can reach them, the operator must state who may read them. */
function checkMetrics(source: Source, { admin: written, metrics }: GatewayShape, admin: Address | null): void {
  if (metrics !== undefined && !source.mayHave('/admin')) {
    const suggestion = 'write admin: 127.0.0.1:8082, or remove this line'
    source.report('/metrics', 'metrics needs an admin listener', { rule: 'useless-key', suggestion })
  }
  if (metrics !== undefined || !admin || isLoopback(urlHost(admin.host))) return
  const message = `admin: other machines can reach ${source.show('/admin', written)}, and access to /metrics there is not set`
  const suggestion = "write metrics: token, and give Prometheus an operator's token; or metrics: open"
  source.report('/admin', message, { rule: 'open-metrics', suggestion })
}

function overlap(a: string, b: string): boolean {
  return a === b || a === '0.0.0.0' || b === '0.0.0.0' || a === '::' || b === '::'
}

/** The store with an absolute path; empty if a problem was reported. */
export function storeOf(source: Source, store: string): string {
  if (store === 'memory') return store
  const [kind, path = ''] = /^([a-z+]+):(.*)$/s.exec(store)?.slice(1) ?? []
  if (kind === 'sqlite' && path === ':memory:') {
    source.report('/store', 'a store in memory is called "memory"', { suggestion: 'write store: memory' })
  } else if (kind === 'sqlite' && path.trim() !== '') {
    return `sqlite:${resolve(dirname(source.file), path)}`
  } else if (kind === 'sqlite') {
    source.report('/store', 'sqlite: has no path', { suggestion: 'write sqlite:./.tollgate/tollgate.db' })
  } else if (kind === 'postgres' || kind === 'postgresql') {
    checkPostgresAddress(source, store, kind)
    return store
  } else if (['redis', 'rediss', 'mysql'].includes(kind ?? '')) {
    // The rest of such an address usually contains a password.
    const message = `a ${kind} store is not supported`
    source.report('/store', message, {
      suggestion: 'write sqlite:PATH, postgres://USER@HOST/DATABASE or memory',
      concealed: true,
    })
  } else {
    const message = `store must be sqlite:PATH, postgres://USER@HOST/DATABASE or memory, not ${source.show('/store', store)}`
    source.report('/store', message, { suggestion: 'write sqlite:./.tollgate/tollgate.db' })
  }
  return ''
}

/** No message shows the address: it may contain a password. */
function checkPostgresAddress(source: Source, store: string, kind: string): void {
  const url = parseServer(store)
  const report = (message: string, suggestion: string) =>
    source.report('/store', `${kind}: ${message}`, { suggestion, concealed: true })
  if (/^[^?]*,[^/?]*\//.test(store.slice(store.lastIndexOf('@') + 1).replace(/^\w+:\/\//, ''))) {
    report('takes one host', 'write the primary server, or an address that resolves to it')
  } else if (url?.searchParams.has('schema')) {
    report('the parameter "schema" is not supported', 'write ?options=-csearch_path%3DNAME')
  } else if (url === null || (url.hostname === '' && !url.searchParams.has('host')) || url.pathname.length < 2) {
    const suggestion = 'write postgres://USER@HOST/DATABASE, and special characters of a password as %2F'
    report('needs a host and a database', suggestion)
  }
}

function checkStorePassword(source: Source, store: string): void {
  const url = isPostgres(store) ? parseServer(store) : null
  if (url !== null && (url.password !== '' || url.searchParams.has('password'))) {
    refuseWritten(source, '/store', 'password of the store')
  }
}

/** No message shows the address: it may contain a password. */
function checkState(source: Source, state: string): void {
  const url = URL.canParse(state) ? new URL(state) : null
  if (url === null || !isServer(url)) {
    source.report('/state', 'state must be redis://HOST or rediss://HOST, with :PORT and /DATABASE where needed', {
      suggestion: 'write redis://127.0.0.1:6379',
      concealed: true,
    })
  } else if (url.password !== '') refuseWritten(source, '/state', 'password of the state server')
}

/** Returns whether the value was written in the file. */
function refuseWritten(source: Source, at: '/store' | '/state' | '/secret', what: string): boolean {
  if (source.substituted(at)) return false
  source.report(at, `the ${what} ${WRITTEN_IN_CLEAR}`, {
    rule: 'written-secret',
    suggestion: BY_REFERENCE,
    concealed: true,
  })
  return true
}

function isServer({ protocol, hostname, pathname, search, hash }: URL): boolean {
  return /^rediss?:$/.test(protocol) && hostname !== '' && /^\/?\d*$/.test(pathname) && search === '' && hash === ''
}

function checkSecret(source: Source, secret: string): void {
  if (refuseWritten(source, '/secret', 'secret')) return
  const problem = shortSecret(secret)
  if (problem !== null) {
    source.report('/secret', `the secret ${problem}`, { suggestion: `make one with: ${SECRET_MADE_BY}` })
  }
}

function originsOf(source: Source, origins: readonly string[]): readonly string[] {
  for (const [i, origin] of origins.entries()) {
    if (origin === '*' || (URL.canParse(origin) && /^https?:/.test(origin) && new URL(origin).origin === origin))
      continue
    const at = `/cors/origins/${i}`
    const suggestion = 'write it as browsers send it: scheme, host and port, in lower case, without a path'
    source.report(at, `${source.show(at, origin)} is not an origin such as https://app.example.com`, { suggestion })
  }
  return origins
}

function hostsOf(source: Source, hosts: readonly string[]): string[] {
  const seen = new Set<string>()
  for (const [i, host] of hosts.entries()) {
    const at = `/hosts/${i}`
    const name = host.toLowerCase()
    const shown = source.show(at, host)
    if (!/^([a-z0-9_]([a-z0-9_-]*[a-z0-9])?(\.|$))+$/.test(name) && !/^\[[0-9a-f:]+\]$/.test(name)) {
      source.report(at, `${shown} is not a host name`, { suggestion: 'write it without scheme, port and path' })
    } else if (seen.has(name)) source.report(at, `the host ${shown} is listed twice`, { rule: 'duplicate-entry' })
    seen.add(name)
  }
  return [...seen]
}
