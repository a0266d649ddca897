/**
 * Counts tokens: asks a provider that counts, and estimates if none does or none answers. A count is free and optional, so it is not
 * retried, and its result affects neither the health of targets nor that of credentials.
 */
import {
  type ChatCompletion,
  type EncodedRequest,
  isRefusal,
  type Refusal,
  type Target,
  type UpstreamFailure,
} from '#contract'
import { ByteCollector } from '../../common/bytes.ts'
import { startAttempt } from '../../providers/attempt.ts'
import { promptEstimate } from '../answer/meter.ts'
import type { Reply } from '../finish.ts'
import type { Upstream } from '../generation.ts'
import { AttemptRecord } from './attempt-record.ts'
import { ESTIMATED_HEADER, requestFor } from './chat.ts'
import type { LiveExchange } from './live-exchange.ts'
import { stoppedReply, WholeReply } from './reply.ts'

/** Limited, because a client waits for the count before it sends the actual request. */
const MAX_MS = 10_000
/** An answer has a few dozen bytes. */
const LARGEST_BYTES = 64 * 1024

/** Resolves when the count is known, or the client has disconnected. Rejects with the refusal if no target supports the request. */
export async function sendCount(exchange: LiveExchange): Promise<Reply> {
  const { chat, model, targets, inbound, ctx } = exchange
  if (!chat || !model || !targets || !inbound) {
    throw new Error('a route that counts reached its end without chat, model and targets')
  }
  const counted = await askTargets(exchange, exchange.generation.healthTracker.arrange(targets))
  if (exchange.stopped) return stoppedReply(exchange)
  if (counted === null) ctx.set(ESTIMATED_HEADER, 'input_tokens')
  return new WholeReply(
    exchange,
    inbound.encodeAnswer(completionOf(exchange, model.id, counted ?? promptEstimate(chat))),
  )
}

/** The count in the form that the client format reads. */
function completionOf({ id, startedAt }: LiveExchange, model: string, tokens: number): ChatCompletion {
  const usage = { prompt_tokens: tokens, completion_tokens: 0, total_tokens: tokens }
  return { id, object: 'chat.completion', created: Math.floor(startedAt / 1000), model, choices: [], usage }
}

/**
 * The count of the first target that counts and supports the request; null: no target counts, or the exchange was stopped. Throws the
 * last target's refusal if no target supports the request, because the real request would be refused too.
 */
async function askTargets(exchange: LiveExchange, targets: readonly Target[]): Promise<number | null> {
  let isSupported = false
  let refusal: Refusal | null = null
  for (const target of targets) {
    if (exchange.stopped) return null
    const request = requestFor(exchange, target)
    if (isRefusal(request)) {
      refusal = request
      continue
    }
    isSupported = true
    const count = await askTarget(exchange, target)
    if (count !== null) return count
  }
  if (!isSupported && refusal) throw refusal
  return null
}

/** Null: the target does not count this request, or returned no count. */
async function askTarget(exchange: LiveExchange, target: Target): Promise<number | null> {
  const upstream = exchange.generation.upstreams.get(target.provider)!
  const { counting } = upstream.dialect
  const request = counting && countRequestFor(exchange, counting.encodeRequest, target)
  if (!request || exchange.attempts.length >= exchange.attemptsAtMost) return null
  const answer = await fetchAnswer(exchange, { target, upstream, request })
  if (answer === null) return null
  if (Buffer.isBuffer(answer)) {
    const count = countIn(answer, counting.field)
    if (count !== null) return count
  }
  const failure = Buffer.isBuffer(answer) ? { code: 'upstream_invalid', detail: 'the answer has no count' } : answer
  const { code, detail } = failure
  exchange.host.log.warn(
    { exchange: exchange.id, target: target.id, code, detail },
    'a provider did not count tokens: the count is estimated',
  )
  return null
}

/** Null if the provider cannot count the request, though it can answer it. */
function countRequestFor(exchange: LiveExchange, encode: Encode, target: Target): EncodedRequest | null {
  try {
    return encode(exchange.chat!, target)
  } catch (error) {
    if (isRefusal(error)) return null
    throw error
  }
}

type Encode = NonNullable<Upstream['dialect']['counting']>['encodeRequest']

interface CountRequest {
  readonly target: Target
  readonly upstream: Upstream
  readonly request: EncodedRequest
}

/** Makes one attempt. Null: the exchange was stopped meanwhile. */
function fetchAnswer(
  exchange: LiveExchange,
  { target, upstream, request }: CountRequest,
): Promise<Buffer | UpstreamFailure | null> {
  const { provider, dialect, transport } = upstream
  const { promise, resolve } = Promise.withResolvers<Buffer | UpstreamFailure | null>()
  const bytes = new ByteCollector()
  const limit = (ms: number) => Math.min(ms, MAX_MS)
  const { firstByteMs, totalMs } = provider.timeouts
  const record = new AttemptRecord(exchange, target.id)
  const { headers } = upstream.sign(request)
  headers['x-request-id'] = exchange.id
  headers['via'] = exchange.via
  record.propagate(headers)
  const attempt = startAttempt({
    transport,
    request: { path: request.path, headers, body: request.body },
    sink: {
      data(piece) {
        if (bytes.size <= LARGEST_BYTES) bytes.add(piece)
        return true
      },
      end: () => resolve(bytes.take()),
      fail: resolve,
    },
    deadlineClock: exchange.host.deadlineClock,
    timeouts: { ...provider.timeouts, firstByteMs: limit(firstByteMs), totalMs: limit(totalMs) },
    stream: false,
    decodeError: dialect.decodeError,
    onHead: (status, failure) => record.head(status, failure),
  })
  const listener = {
    onStop() {
      attempt.abort()
      resolve(null)
    },
  }
  exchange.listen(listener)
  return promise.finally(() => {
    record.over()
    exchange.unlisten(listener)
  })
}

function countIn(answer: Buffer, field: string): number | null {
  try {
    const count = (JSON.parse(answer.toString('utf8')) as Readonly<Record<string, unknown>> | null)?.[field]
    return Number.isSafeInteger(count) && (count as number) >= 0 ? (count as number) : null
  } catch {
    return null
  }
}
