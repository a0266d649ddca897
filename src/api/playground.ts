/**
 * The playground: sends a person's request over loopback to a chat route of this gateway, with the playground key of their
 * account. So the policy of the route applies, the account is charged, and the request has a receipt.
 */
import { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders, request as send } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { Context } from 'koa'
import { type Clock, refuse } from '#contract'
import { boundedMap } from '../common/bounded.ts'
import type { Store } from '../store/store.ts'
import type { ApiParts, PlaygroundRoute } from './api-parts.ts'
import { line } from './inputs.ts'
import { ownAccount } from './report-routes.ts'
import { type ApiRoute, route } from './route.ts'
import { type Fits, shape } from './schema.ts'

const MAX_CONVERSATION_BYTES = 256 * 1024

const MESSAGE = shape({
  role: {
    type: 'string',
    enum: ['system', 'developer', 'user', 'assistant'],
    description: 'The author of the message.',
  },
  content: { type: 'string', description: 'The text.' },
})

const CONVERSATION = shape({
  model: line('The id of a model.', 200),
  messages: { type: 'array', items: MESSAGE, minItems: 1, maxItems: 500, description: 'The conversation so far.' },
  'max_completion_tokens?': { type: 'integer', minimum: 1, description: 'The maximum number of tokens of the answer.' },
  'temperature?': { type: 'number', minimum: 0, maximum: 2, description: 'The temperature.' },
  'reasoning_effort?': {
    type: 'string',
    enum: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
    description: 'The effort of a reasoning model.',
  },
})

export const PLAYGROUND_ROUTES: readonly ApiRoute[] = [
  route({
    method: 'POST',
    path: '/api/playground',
    summary: 'Streams a completion, charged to the account. x-request-id is the id of its receipt.',
    audience: 'person',
    isUnlimited: true,
    body: CONVERSATION,
    bodyBytes: MAX_CONVERSATION_BYTES,
    answers: 'events',
    errors: ['not_found', 'shutting_down', 'overloaded'],
    async handle(call) {
      const { parts, ctx, body } = call
      const target = parts.playground()
      if (!target) throw refuse('not_found', { message: 'This gateway has no route for chat requests with a key.' })
      const token = await playgroundKeys(parts.store).token(ownAccount(call), parts.clock)
      // Don't start an answer that no one reads: the account would pay for it.
      if (!isDisconnected(ctx)) await relay(ctx, parts, { target, token, body: requestBody(body) })
      return { stream: 'sent' }
    },
  }),
]

/** Field by field, so that the chat route gets only fields of the schema. */
function requestBody(body: Fits<typeof CONVERSATION>): string {
  return JSON.stringify({
    model: body.model,
    messages: body.messages.map(({ role, content }) => ({ role, content })),
    max_completion_tokens: body.max_completion_tokens,
    temperature: body.temperature,
    reasoning_effort: body.reasoning_effort,
    stream: true,
    stream_options: { include_usage: true },
  })
}

interface RelayedRequest {
  readonly target: PlaygroundRoute
  readonly token: string
  readonly body: string
}

/** Sends the request and relays the answer. Resolves at its end or at a disconnect. */
async function relay(ctx: Context, parts: ApiParts, inner: RelayedRequest): Promise<void> {
  const request = open(inner)
  const abort = () => request.destroy()
  ctx.res.once('close', abort)
  try {
    const response = await headOf(request).catch((error: unknown) => {
      if (isDisconnected(ctx)) return null
      throw unreachable(parts, error)
    })
    if (response) await relayAnswer(response, ctx)
  } finally {
    ctx.res.off('close', abort)
  }
}

/** A new connection with our own headers. Of the browser's request only the validated body is used. */
function open({ target, token, body }: RelayedRequest): ClientRequest {
  const bytes = Buffer.from(body)
  const request = send({
    agent: false,
    host: target.host,
    port: target.port,
    path: target.path,
    method: 'POST',
    headers: {
      host: target.hostHeader,
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'content-length': bytes.length,
      accept: 'text/event-stream',
    },
  })
  request.end(bytes)
  return request
}

function headOf(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve)
    // This listener is not removed: an aborted request emits another error after its answer has started.
    request.on('error', reject)
  })
}

/** The headers that the page gets: type, receipt, and retry. */
const RELAYED_HEADERS = [
  'content-type',
  'x-request-id',
  'x-tollgate-max-output-tokens',
  'x-tollgate-dropped',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
]

/** Relays the answer with backpressure. If it ends early, the answer to the page ends early too. */
async function relayAnswer(response: IncomingMessage, ctx: Context): Promise<void> {
  const headers: OutgoingHttpHeaders = { 'cache-control': 'no-store', 'x-accel-buffering': 'no' }
  for (const name of RELAYED_HEADERS) {
    const value = response.headers[name]
    if (value !== undefined) headers[name] = value
  }
  ctx.respond = false
  ctx.res.writeHead(response.statusCode!, headers)
  // Sends the head at once, because the first event may take long.
  ctx.res.flushHeaders()
  // An early end needs no report: `pipeline` closes both connections, and the receipt has the outcome.
  await pipeline(response, ctx.res).catch(() => {})
}

function isDisconnected({ res }: Context): boolean {
  return res.destroyed || res.socket?.destroyed !== false
}

function unreachable(parts: ApiParts, cause: unknown) {
  const { ready, reason } = parts.readiness()
  if (!ready) return refuse('shutting_down', { message: `Not now: ${reason}.`, retryAfterMs: 1000, cause })
  parts.log.error({ error: cause }, 'the playground could not reach the listener for clients')
  return refuse('overloaded', {
    message: 'The playground failed to reach the gateway. Try again.',
    retryAfterMs: 1000,
    cause,
  })
}

interface PlaygroundKeys {
  /** The secret of the account's playground key. Creates the key, or rotates it if the secret is not in memory. */
  token(accountId: string, clock: Clock): Promise<string>
}

/** The maximum number of secrets in memory. The key of another account is rotated at its next use. */
const MAX_KNOWN = 1_000

const keysOf = new WeakMap<Store, PlaygroundKeys>()

function playgroundKeys(store: Store): PlaygroundKeys {
  const keys = keysOf.get(store) ?? createPlaygroundKeys(store)
  keysOf.set(store, keys)
  return keys
}

/** One key per account. Its secret is only in memory, so a restart loses it. */
function createPlaygroundKeys(store: Store): PlaygroundKeys {
  const known = boundedMap<string>(MAX_KNOWN)
  /** Two concurrent requests must not create two keys, or rotate the key of each other. */
  const pending = new Map<string, Promise<string>>()

  async function issue(accountId: string, clock: Clock): Promise<string> {
    const now = clock.now()
    const isLive = (expiresAt: number | null) => expiresAt === null || expiresAt > now
    const keys = await store.listKeys(accountId)
    const key = keys.find(each => each.purpose === 'playground' && each.revokedAt === null && isLive(each.expiresAt))
    const { token } = key
      ? await store.rotateKey(key.id, 0)
      : await store.createKey({ account: accountId, name: 'playground', purpose: 'playground' })
    known.set(accountId, token)
    return token
  }

  return {
    async token(accountId, clock) {
      const token = known.get(accountId)
      if (token !== undefined && (await store.keys.find(token, clock.now())).found === 'live') return token
      const issued =
        pending.get(accountId) ??
        issue(accountId, clock).finally(() => {
          pending.delete(accountId)
        })
      pending.set(accountId, issued)
      return issued
    },
  }
}
