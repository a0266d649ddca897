/**
 * The playground: a person's request goes to the clients' own door, over loopback, with a key of their account that the
 * gateway makes for it. So it passes the same policy as every other request, is charged like it, and has a receipt.
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
  role: { type: 'string', enum: ['system', 'developer', 'user', 'assistant'], description: 'Who says it.' },
  content: { type: 'string', description: 'What is said.' },
})

const CONVERSATION = shape({
  model: line('The id of a model.', 200),
  messages: { type: 'array', items: MESSAGE, minItems: 1, maxItems: 500, description: 'The conversation so far.' },
  'max_completion_tokens?': { type: 'integer', minimum: 1, description: 'At most so many tokens come.' },
  'temperature?': { type: 'number', minimum: 0, maximum: 2, description: 'How freely the model chooses.' },
  'reasoning_effort?': {
    type: 'string',
    enum: ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'],
    description: 'For models that think: how much.',
  },
})

/** One route: a request in, a stream out. */
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
      const door = parts.playground()
      if (!door) throw refuse('not_found', { message: 'No route of this gateway takes chat requests with a key.' })
      const token = await playgroundKeys(parts.store).token(ownAccount(call), parts.clock)
      // Whoever has left meanwhile would pay for an answer that nobody reads.
      if (!hasLeft(ctx)) await relay(ctx, parts, { door, token, body: requestBody(body) })
      return { stream: 'sent' }
    },
  }),
]

/** Field by field, so that the door is never sent what the schema above does not name. */
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

interface Inner {
  readonly door: PlaygroundRoute
  readonly token: string
  readonly body: string
}

/** Sends the request and passes the answer on as it comes. Resolves when it is over, whoever ended it. */
async function relay(ctx: Context, parts: ApiParts, inner: Inner): Promise<void> {
  const request = open(inner)
  const leave = () => request.destroy()
  ctx.res.once('close', leave)
  try {
    const response = await headOf(request).catch((error: unknown) => {
      if (hasLeft(ctx)) return null
      throw unreachable(parts, error)
    })
    if (response) await passOn(response, ctx)
  } finally {
    ctx.res.off('close', leave)
  }
}

/** A connection of its own, with headers of our own: nothing that the browser sent goes in but the checked body. */
function open({ door, token, body }: Inner): ClientRequest {
  const bytes = Buffer.from(body)
  const request = send({
    agent: false,
    host: door.host,
    port: door.port,
    path: door.path,
    method: 'POST',
    headers: {
      host: door.hostHeader,
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
    // Stays: a request that is given up says so once more, when its answer has long begun.
    request.on('error', reject)
  })
}

/** What of the answer's head is for people: what it is, whose receipt, and whether to try again. */
const PASSED = [
  'content-type',
  'x-request-id',
  'x-tollgate-max-output-tokens',
  'x-tollgate-dropped',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
]

/** As it comes and no faster than it is taken. An answer that breaks off breaks off here too. */
async function passOn(response: IncomingMessage, ctx: Context): Promise<void> {
  const headers: OutgoingHttpHeaders = { 'cache-control': 'no-store', 'x-accel-buffering': 'no' }
  for (const name of PASSED) {
    const value = response.headers[name]
    if (value !== undefined) headers[name] = value
  }
  ctx.respond = false
  ctx.res.writeHead(response.statusCode!, headers)
  // The first event may be long in coming; whoever waits wants to know that it will.
  ctx.res.flushHeaders()
  // Each end has been told of it by then: the connections are gone, and the receipt says how it ended.
  await pipeline(response, ctx.res).catch(() => {})
}

function hasLeft({ res }: Context): boolean {
  return res.destroyed || res.socket?.destroyed !== false
}

function unreachable(parts: ApiParts, cause: unknown) {
  const { ready, reason } = parts.readiness()
  if (!ready) return refuse('shutting_down', { message: `Not now: ${reason}.`, retryAfterMs: 1000, cause })
  parts.log.error({ error: cause }, 'the playground could not reach the door of the clients')
  return refuse('overloaded', {
    message: 'The playground could not reach the gateway. Try again.',
    retryAfterMs: 1000,
    cause,
  })
}

interface PlaygroundKeys {
  /** The secret of the account's playground key; makes the key or rotates it when the secret is not known here. */
  token(accountId: string, clock: Clock): Promise<string>
}

/** So many accounts use the playground at a time; of one more, the key is rotated when it comes back. */
const MAX_KNOWN = 1_000

const keysOf = new WeakMap<Store, PlaygroundKeys>()

function playgroundKeys(store: Store): PlaygroundKeys {
  const keys = keysOf.get(store) ?? createPlaygroundKeys(store)
  keysOf.set(store, keys)
  return keys
}

/** One key an account. Its secret is kept here and nowhere else, so a restart forgets it. */
function createPlaygroundKeys(store: Store): PlaygroundKeys {
  const known = boundedMap<string>(MAX_KNOWN)
  /** Two requests at once must not make two keys, or rotate each other's away. */
  const coming = new Map<string, Promise<string>>()

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
        coming.get(accountId) ??
        issue(accountId, clock).finally(() => {
          coming.delete(accountId)
        })
      coming.set(accountId, issued)
      return issued
    },
  }
}
