/** Reads and checks a line of a usage log (plugins/usage-log/README.md): the request and its outcome. */
import {
  type Attempt,
  ERRORS,
  type ErrorCode,
  type MeteredUsage,
  type Outcome,
  type RouteKind,
  TIERS,
  type TrailEntry,
  UNIT_NAMES,
  UNITS,
  type Unit,
  withoutZeros,
} from '#contract'

/** The recorded caller. */
export interface Caller {
  readonly account: { readonly id: string; readonly name: string; readonly plan: string }
  readonly key: { readonly id: string; readonly name: string; readonly models: readonly string[] | null }
}

/** The recorded properties of the body. */
export interface RequestShape {
  readonly bytes: number
  /** Whether the body was read; otherwise the counts below are invalid. */
  readonly isRead: boolean
  readonly model: string | null
  readonly n: number | null
  readonly cap: number | null
  readonly params: readonly string[]
  readonly messages: number
  readonly tools: number
  readonly unsized: boolean
  readonly sha256: string | null
  /** The body itself, if it was kept. */
  readonly body: unknown
}

/** The outcome, and what decided it. */
export interface Decision {
  readonly outcome: Outcome
  /** Null if the client disconnected. */
  readonly status: number | null
  readonly code: ErrorCode | null
  readonly decidedBy: string | null
}

/** One exchange. */
export interface LogLine extends Decision {
  readonly id: string
  /** Milliseconds since the epoch. */
  readonly at: number
  readonly ms: number
  readonly route: string
  readonly kind: RouteKind
  readonly method: string
  readonly who: Caller | null
  /** Null if its policy gave none. */
  readonly tags: Readonly<Record<string, string>> | null
  readonly model: string | null
  readonly stream: boolean
  readonly usage: MeteredUsage | null
  readonly charged: bigint
  readonly attempts: readonly Attempt[]
  /** The entry of each step, in order; empty in lines of gateways that did not write it. */
  readonly trail: readonly TrailEntry[]
  readonly address: string | null
  readonly headers: Readonly<Record<string, string>> | null
  readonly request: RequestShape
}

/** An invalid line; the message is the reason. */
export class LineError extends Error {
  override readonly name = 'LineError'
}

const OUTCOMES: readonly string[] = ['answered', 'refused', 'failed', 'client_left', 'cut']
const KINDS: readonly string[] = [
  'chat',
  'messages',
  'responses',
  'response',
  'models',
  'model',
  'receipt',
  'budgets',
  'raw',
]

/** Throws a `LineError` for a text that is not a line of this version. */
export function parseLine(text: string): LogLine {
  const raw: RawLine = parseObject(text)
  const at = Date.parse(raw.at as string)
  if (Number.isNaN(at)) throw new LineError('`at` is not a time')
  const { id, route, kind, method, outcome, status, code } = raw
  if (!isText(id) || !isText(route) || !isText(method)) throw new LineError('`id`, `route` or `method` is missing')
  if (!KINDS.includes(kind as string)) throw new LineError(`\`kind\` is ${shown(kind)}, which is not a kind`)
  if (!OUTCOMES.includes(outcome as string))
    throw new LineError(`\`outcome\` is ${shown(outcome)}, which is not an outcome`)
  if (status !== null && !Number.isSafeInteger(status)) throw new LineError('`status` is neither a number nor null')
  if (code !== null && !(isText(code) && Object.hasOwn(ERRORS, code))) {
    throw new LineError(`\`code\` is ${shown(code)}, which this gateway does not have`)
  }
  return {
    id,
    at,
    ms: figure('ms', raw.ms),
    route,
    kind: kind as RouteKind,
    method,
    outcome: outcome as Outcome,
    status: status as number | null,
    code: code as ErrorCode | null,
    decidedBy: isText(raw.decided_by) ? raw.decided_by : null,
    who: whoOf(raw),
    tags: tagsOf(raw.tags),
    model: isText(raw.model) ? raw.model : null,
    stream: raw.stream === true,
    usage: usageOf(raw.usage),
    charged: moneyOf(raw.charged),
    attempts: Array.isArray(raw.attempts) ? (raw.attempts as Attempt[]) : [],
    trail: Array.isArray(raw.trail) ? raw.trail.filter(isEntry) : [],
    address: isText(raw.address) ? raw.address : null,
    headers: typeof raw.headers === 'object' ? (raw.headers as LogLine['headers']) : null,
    request: requestOf(raw.request),
  }
}

/** An entry with a code that this gateway does not have is dropped, because it cannot be returned to a client. */
function isEntry(raw: unknown): raw is TrailEntry {
  if (typeof raw !== 'object' || raw === null) return false
  const { step, verdict, code } = raw as { step?: unknown; verdict?: unknown; code?: unknown }
  return isText(step) && isText(verdict) && (code === undefined || (isText(code) && Object.hasOwn(ERRORS, code)))
}

/** The fields of a line of this version. Throws a `LineError`. */
export function parseObject(text: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw new LineError('it is not JSON; the end of a line may be missing')
  }
  if (typeof value !== 'object' || value === null || !('v' in value)) {
    throw new LineError('it is not a line of a usage log')
  }
  if (value.v !== 1) throw new LineError(`it is of version ${JSON.stringify(value.v)}; this gateway reads version 1`)
  return value as Readonly<Record<string, unknown>>
}

type RawLine = { readonly [field in keyof LogLine | 'v' | 'decided_by' | 'account' | 'key']?: unknown }

function whoOf({ account, key }: RawLine): Caller | null {
  const [of, by] = [account, key] as [Caller['account'] | null, Caller['key'] | null]
  if (!of || !by || !isText(of.id) || !isText(by.id)) return null
  const models = Array.isArray(by.models) ? by.models : null
  return {
    account: { id: of.id, name: String(of.name), plan: String(of.plan) },
    key: { id: by.id, name: String(by.name), models },
  }
}

function tagsOf(raw: unknown): LogLine['tags'] {
  if (raw === null || raw === undefined) return null
  if (typeof raw === 'object' && !Array.isArray(raw) && Object.values(raw).every(isText)) return raw as LogLine['tags']
  throw new LineError(`\`tags\` is ${shown(raw)}, which is not an object of texts`)
}

function usageOf(raw: unknown): MeteredUsage | null {
  if (raw === null || raw === undefined) return null
  if (typeof raw !== 'object' || Array.isArray(raw))
    throw new LineError(`\`usage\` is ${shown(raw)}, which is not an object`)
  const usage = raw as Readonly<Record<string, unknown>>
  const source = usage['source']
  const counts: { [unit in Unit]?: number } = {}
  const units = (usage['units'] ?? {}) as Readonly<Record<string, unknown>>
  for (const unit of UNIT_NAMES) {
    const { field } = UNITS[unit]
    const isRequired = unit === 'input' || unit === 'output'
    if (field === null && units[unit] !== undefined)
      counts[unit] = figure(`usage.units.${unit}`, units[unit]) * (unit === 'second' ? 1000 : 1)
    if (field !== null && (isRequired || usage[field] !== undefined))
      counts[unit] = figure(`usage.${field}`, usage[field])
  }
  const tier = TIERS.find(each => each === usage['tier'])
  return {
    ...withoutZeros(counts),
    input: counts.input!,
    output: counts.output!,
    ...(usage['searches'] === undefined ? {} : { search: counts.search! }),
    ...(tier === undefined ? {} : { tier }),
    source: source === 'estimated' || source === 'cached' ? source : 'reported',
  }
}

const MONEY = /^(\d{1,12})\.(\d{9})$/

function moneyOf(raw: unknown): bigint {
  if (raw === null || raw === undefined) return 0n
  const match = MONEY.exec(String(raw))
  if (!match) throw new LineError(`\`charged\` is ${shown(raw)}, which is not an amount with 9 decimals`)
  return BigInt(match[1]! + match[2]!)
}

function requestOf(raw: unknown): RequestShape {
  const shape = (typeof raw === 'object' && raw !== null ? raw : {}) as Readonly<Record<string, unknown>>
  const body = shape['body']
  return {
    bytes: count('bytes', shape, LARGEST.bytes),
    isRead: 'params' in shape || body !== undefined,
    model: isText(shape['model']) ? shape['model'] : null,
    n: Number.isSafeInteger(shape['n']) ? (shape['n'] as number) : null,
    cap: Number.isSafeInteger(shape['cap']) ? (shape['cap'] as number) : null,
    params: Array.isArray(shape['params']) ? (shape['params'] as string[]) : [],
    messages: count('messages', shape, LARGEST.messages),
    tools: count('tools', shape, LARGEST.tools),
    unsized: shape['unsized'] === true,
    sha256: isText(shape['sha256']) ? shape['sha256'] : null,
    body,
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** Limits that no gateway exceeds. A larger stand-in would crash the replay. */
const LARGEST = { bytes: 64 * 1024 * 1024, messages: 1_000_000, tools: 100_000 }

function count(name: keyof typeof LARGEST, shape: Readonly<Record<string, unknown>>, most: number): number {
  const value = shape[name]
  if (!Number.isSafeInteger(value) || (value as number) <= 0) return 0
  if ((value as number) > most) throw new LineError(`\`request.${name}\` is ${value}, but the maximum is ${most}`)
  return value as number
}

/** Verdicts and charges depend on these values, so an invalid one must not be ignored. */
function figure(name: string, value: unknown): number {
  if (value === undefined) return 0
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number
  throw new LineError(`\`${name}\` is ${shown(value)}, which is not an integer of at least 0`)
}

function shown(value: unknown): string {
  return JSON.stringify(value)?.slice(0, 60) ?? 'missing'
}
