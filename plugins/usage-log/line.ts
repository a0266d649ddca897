/** The line of an exchange, version 1. The README has a table of its fields. Fields may be added; none changes. */
import { hash } from 'node:crypto'
import {
  asksModel,
  costFields,
  decidedBy,
  type Exchange,
  formatMoney,
  headerText,
  isAnthropicClientTool,
  type MeteredUsage,
  type Refusal,
  refuse,
  usageFields,
} from '#contract'

/** The part of a request's body in its line. */
export type Bodies = 'none' | 'hash' | 'keep'

export interface LineOptions {
  readonly bodies: Bodies
  /** Names in lower case. */
  readonly headers: readonly string[]
  readonly address: boolean
}

/** The part of Koa's context that a line is made from. */
export interface LineContext {
  readonly exchange: Exchange
  readonly method: string
  readonly status: number
  readonly res: { readonly headersSent: boolean; readonly statusCode: number }
  get(header: string): string
}

/** A larger body is not kept, but its digest is. */
export const LARGEST_BODY_BYTES = 1024 * 1024
const MAX_HEADER = 1024
const MAX_NAME_LENGTH = 256
const MAX_PARAMETERS = 100

/**
 * One line, without its line feed.
 * @param failure the refusal that the client receives; `bug`: an unexpected error; null: it was answered
 */
export function lineOf(ctx: LineContext, failure: Refusal | 'bug' | null, nowMs: number, options: LineOptions): string {
  const { exchange } = ctx
  const { account, key, hold, charge, attempts, trail } = exchange
  const refusal = failure === 'bug' ? refuse('internal_error') : failure
  const code = refusal?.code ?? null
  const { body, asked } = requestOf(exchange, options.bodies)
  const line = JSON.stringify({
    v: 1,
    id: exchange.id,
    at: new Date(exchange.startedAt).toISOString(),
    ms: Math.max(0, Math.round(nowMs - exchange.startedAt)),
    route: exchange.route.path,
    kind: exchange.route.kind,
    method: ctx.method,
    policy: exchange.route.policy,
    account: account ? { id: account.id, name: account.name, plan: account.plan } : null,
    key: key ? { id: key.id, name: key.name, models: key.models } : null,
    ...(exchange.tags ? { tags: exchange.tags } : {}),
    model: exchange.model?.id ?? null,
    stream: exchange.chat?.stream ?? asked.stream,
    outcome: exchange.outcome,
    status: statusOf(ctx, failure),
    code,
    decided_by: exchange.outcome === 'client_left' ? null : decidedBy(trail, refusal, 'send'),
    trail: trail.map(({ step, verdict, code: own, why }) => ({ step, verdict, code: own, why })),
    usage: usageOf(exchange.usage),
    held: hold === undefined ? null : formatMoney(hold),
    charged: charge ? formatMoney(charge.amount) : null,
    ...(charge?.cost ? { lines: costFields(charge.cost).lines } : {}),
    attempts: attempts.map(({ target, status, code: own, ms }) => ({
      target,
      status,
      code: own,
      ms: Math.round(ms),
    })),
    ...(options.address ? { address: exchange.address } : {}),
    ...(options.headers.length > 0 ? { headers: headersOf(ctx, options.headers) } : {}),
    request: asked.shape,
  })
  // The body byte by byte, so that no number loses digits. A line feed between its tokens becomes a space.
  return body === null ? line : `${line.slice(0, -2)},"body":${body.replace(/[\r\n]/g, ' ')}}}`
}

/** The status that the client received; null: it had disconnected. */
function statusOf(ctx: LineContext, failure: Refusal | 'bug' | null): number | null {
  const { exchange, res } = ctx
  if (exchange.outcome === 'client_left') return null
  if (res.headersSent) return res.statusCode
  if (failure === 'bug') return 500
  if (failure) return failure.status
  if (exchange.route.kind === 'raw') return exchange.attempts.at(-1)?.status ?? 200
  // Koa's status is 404 until a Koa middleware answers. Otherwise Tollgate sends the answer, with 200.
  return ctx.status === 404 ? 200 : ctx.status
}

function usageOf(usage: MeteredUsage | null) {
  if (usage === null) return null
  const { searches, ...fields } = usageFields(usage, tokens)
  return { ...fields, ...(usage.search === undefined ? {} : { searches }), source: usage.source }
}

/** A whole number from 0, whatever the provider reported. Rounded up, as in a charge. */
function tokens(reported: number): number {
  if (Number.isNaN(reported)) return 0
  return Math.min(Math.max(Math.ceil(reported), 0), Number.MAX_SAFE_INTEGER)
}

function headersOf(ctx: LineContext, names: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const name of names) {
    const bytes = ctx.get(name)
    const value = headerText(bytes) ?? bytes
    if (value !== '') headers[name] = isSecret(value, ctx) ? '***' : value.slice(0, MAX_HEADER)
  }
  return headers
}

/** Beginnings of secrets: keys of Tollgate and of providers, a JWT (RFC 7519), an authentication scheme (RFC 9110). */
const SECRET = /tg_(?:live|oper)_|\bsk[-_]\w|\beyJ[\w-]+\.[\w-]+|^\s*(?:bearer|basic)\s/i

/** Whether a value, in whatever header, is the credential of the client or looks like one. */
function isSecret(value: string, ctx: LineContext): boolean {
  if (SECRET.test(value)) return true
  const presented = [ctx.get('authorization').split(' ').at(-1), ctx.get('x-api-key')]
  return presented.some(credential => credential !== undefined && credential.length > 7 && value.includes(credential))
}

interface AskedBody {
  readonly model?: unknown
  readonly stream?: unknown
  readonly n?: unknown
  readonly max_tokens?: unknown
  readonly max_completion_tokens?: unknown
  readonly max_output_tokens?: unknown
  readonly messages?: unknown
  readonly input?: unknown
  readonly tools?: unknown
  readonly web_search_options?: unknown
}

/** The request in its line: its size, its form if the body was read, its text if the settings ask for it. */
function requestOf(exchange: Exchange, bodies: Bodies) {
  const { bytes } = exchange
  const read = readBody(exchange)
  const tooLarge = bytes.length > LARGEST_BODY_BYTES
  const keep = bodies === 'keep' && read !== null && !tooLarge
  const digest = bytes.length > 0 && (bodies === 'hash' || (bodies === 'keep' && !keep))
  const shape = {
    bytes: bytes.length,
    ...(read === null ? {} : shapeOf(read)),
    ...(digest ? { sha256: hash('sha256', bytes) } : {}),
  }
  return { body: keep ? bytes.toString('utf8') : null, asked: { shape, stream: read?.stream === true } }
}

/** The parsed body. A body of an unknown caller that no step has read is not parsed for the log: its line has the size only. */
function readBody(exchange: Exchange): AskedBody | null {
  if (exchange.bytes.length === 0 || !(exchange.key || exchange.chat)) return null
  if (!asksModel(exchange.route.kind) && exchange.bytes[0] !== 0x7b) return null
  try {
    const body = exchange.json()
    return typeof body === 'object' && body !== null && !Array.isArray(body) ? body : null
  } catch {
    return null
  }
}

/** Counts and names, without text: enough to make a request with the same cost. */
function shapeOf(body: AskedBody) {
  const messages = Array.isArray(body.messages) ? body.messages : Array.isArray(body.input) ? body.input : null
  const names = Object.keys(body)
  return {
    model: typeof body.model === 'string' ? body.model.slice(0, MAX_NAME_LENGTH) : null,
    n: countOr(body.n, null),
    cap: countOr(body.max_completion_tokens ?? body.max_tokens ?? body.max_output_tokens, null),
    params: names.slice(0, MAX_PARAMETERS).map(name => name.slice(0, MAX_NAME_LENGTH)),
    messages: messages?.length ?? null,
    tools: Array.isArray(body.tools) ? body.tools.length : 0,
    unsized: (messages?.some(hasMedia) ?? false) || letsProviderAdd(body),
  }
}

function countOr(value: unknown, otherwise: number | null): number | null {
  return Number.isSafeInteger(value) ? (value as number) : otherwise
}

/** Whether a message has a part whose tokens do not follow from its bytes: an image, a sound, a file. */
function hasMedia(message: unknown): boolean {
  const content = (message as { content?: unknown } | null)?.content
  if (!Array.isArray(content)) return false
  return content.some(part => !TEXTS.has((part as { type?: unknown } | null)?.type))
}

/** Whether the provider may add to the prompt, usually by a search, so that its tokens cannot be counted here. */
function letsProviderAdd({ tools, web_search_options: search }: AskedBody): boolean {
  if (search != null) return true
  return Array.isArray(tools) && tools.some(tool => !runsAtClient((tool as { type?: unknown } | null)?.type))
}

const CLIENT_TOOLS: ReadonlySet<unknown> = new Set([
  'function',
  'custom',
  undefined,
  // Tools of OpenAI's Responses format that the client runs.
  ...['shell', 'local_shell', 'apply_patch'],
])
const runsAtClient = (type: unknown) => CLIENT_TOOLS.has(type) || isAnthropicClientTool(type)

/** The types of parts that are text, in all formats. */
const TEXTS: ReadonlySet<unknown> = new Set([
  'text',
  'refusal',
  'input_text',
  'output_text',
  'tool_use',
  'tool_result',
  'thinking',
  'redacted_thinking',
])
