/** The innermost middleware of a chat route: asks a target, and another when that may help, and pumps the answer to the client. */
import {
  type Chat,
  type EncodedRequest,
  type ErrorCode,
  isRefusal,
  type Refusal,
  refuse,
  searchingOf,
  type Target,
  type UpstreamFailure,
  type WireUsage,
} from '#contract'
import { wireUsageOf } from '../answer/meter.ts'
import { type PumpEnding, StreamPump } from '../answer/pump.ts'
import { StreamAnswer } from '../answer/stream.ts'
import type { Tap, TapError } from '../answer/taps.ts'
import { WholePump, type WriteWhole } from '../answer/whole.ts'
import { refusalOfLost } from '../dialects/lost.ts'
import type { Signed } from '../generation.ts'
import { startAttempt } from '../upstream/attempt.ts'
import { type Retry, retryAfterFailure, THE_CREDENTIALS } from '../upstream/retry.ts'
import type { Memory } from './memory.ts'
import { endStopped, recordAttempt, refusalOf, type SenderParts, type Trip } from './trip.ts'

export const JSON_HEADERS = { 'content-type': 'application/json' }
/** Names what of an answer the gateway has estimated. */
export const ESTIMATED_HEADER = 'x-tollgate-estimated'

/** Failures that only the operator can mend: a key, a quota, a base_url, a target's model. */
const OPERATORS: ReadonlySet<ErrorCode> = new Set([
  'upstream_auth',
  'upstream_quota',
  'model_not_found',
  'loop_detected',
])

const ALL_FULL = { retryAfterMs: 1000, detail: 'every target has as many requests as it takes' }

/** So many names of dropped parameters are told one by one. */
const MOST_DROPPED = 20

/** What one attempt is made with. */
interface Try {
  readonly target: Target
  readonly request: EncodedRequest
  readonly memory: Memory
}

/** What came of one attempt. */
interface Tried {
  readonly ending: PumpEnding
  readonly pump: StreamPump | WholePump
  readonly target: Target
  readonly tookMs: number
  /** The provider has refused one of its credentials, and there are others. */
  readonly hasCredential: boolean
}

/** Resolves when the answer is over or the client has left; rejects with the refusal when it failed. */
export async function sendChat(trip: Trip, parts: SenderParts, memory: Memory): Promise<void> {
  const { exchange, meter, client, generation } = trip
  const { chat, model, targets } = exchange
  if (!chat || !model || !targets?.length)
    throw new Error('a chat route reached its end without chat, model and targets')
  // After the hold and whatever else took its time: nobody asks for somebody who has left.
  if (exchange.aborted) return endStopped(trip)
  if (chat.stream) client.startHeartbeat()
  generation.retries.earn()

  let tried: Tried | null = null
  let unfit: Refusal | null = null
  let left = targets
  for (;;) {
    const [target] = generation.board.arrange(left)
    if (!target) break
    const others = left.filter(other => other !== target)
    const request = requestFor(trip, target)
    if (isRefusal(request)) {
      unfit = request
      left = others
      continue
    }
    tried = await tryTarget(trip, parts, { target, request, memory })
    const retry = mayRetry(trip, tried, others, parts)
    // Another credential costs no retry: there are only so many of them.
    if (!retry || (retry.where !== 'as_another' && !generation.retries.spend())) break
    if (retry.where === 'elsewhere') left = others
    else if (retry.where === 'here') await pause(trip, parts, retry.pauseMs)
    if (exchange.aborted) return endStopped(trip)
  }

  // A target that is only full may do what the others cannot.
  if (!tried) throw left.length === 0 && unfit ? unfit : refuse('overloaded', ALL_FULL)
  const { ending, pump, target } = tried
  // A whole answer is collected before anything is known of it; its failures were not known at its head.
  exchange.usage = meter.spent(ending.ending === 'complete')
  if (ending.ending === 'complete' && pump instanceof WholePump) {
    if (exchange.usage?.source === 'estimated') trip.ctx.set(ESTIMATED_HEADER, 'usage')
    const finish = () => client.sendWhole(200, JSON_HEADERS, pump.body!)
    trip.finish = finish
  }
  end(trip, parts, ending, { theirs: target.model, ours: model.id })
}

/** What this target would be sent, or why it cannot be asked that. */
export function requestFor({ exchange, generation }: Trip, target: Target): EncodedRequest | Refusal {
  const { dialect } = generation.upstreams.get(target.provider)!
  try {
    const request = dialect.encodeRequest(exchange.chat!, target)
    return refusalOfLost(exchange.chat!, request, exchange.onDropped) ?? request
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
}

/** One attempt, from the request to the end of its answer. */
async function tryTarget(trip: Trip, parts: SenderParts, { target, request, memory }: Try): Promise<Tried> {
  const { exchange, meter, client, generation } = trip
  const { watchman } = parts
  const chat = exchange.chat!
  const upstream = generation.upstreams.get(target.provider)!
  const { passes } = searchingOf(chat.body)
  const view = {
    model: exchange.model!.id,
    includeUsage: chat.includeUsage,
    exchange: exchange.id,
    createdAt: Math.floor(exchange.startedAt / 1000),
    functions: chat.body['functions'] != null && !chat.body.tools?.length,
    searches: passes > 1,
  }
  tellDropped(trip, droppedOf(chat, request))

  meter.begin(chat, chat.choices * passes * (chat.cap + target.reasoningOutsideCap))
  const common = {
    client,
    meter,
    watchman,
    onDisconnect: exchange.onDisconnect,
    fillsFinish: upstream.provider.fillsFinish,
    largestBytes: generation.configuration.limits.answerBytes,
    holds: (bytes: number) => memory.growAnswer(trip, bytes),
  }
  const pump = chat.stream
    ? new StreamPump({ ...common, decoder: upstream.dialect.decodeStream(view), answer: streamTo(trip, exchange.taps) })
    : new WholePump({
        ...common,
        dialect: upstream.dialect,
        view,
        taps: exchange.taps,
        write: writerOf(trip),
      })
  const onStop = () => (trip.stopped === 'cut' ? pump.cut() : pump.leave())
  trip.onStop = onStop

  const signed = upstream.sign(request)
  let hasCredential = false
  const startedMs = watchman.now()
  const ticket = generation.board.begin(target)
  const onHead = recordAttempt(trip, parts, target.id)
  const before = exchange.attempts.length
  const attempt = startAttempt({
    transport: upstream.transport,
    request: {
      path: request.path,
      headers: { ...signed.headers, 'x-request-id': exchange.id, via: trip.via },
      body: request.body,
    },
    sink: pump,
    watchman,
    timeouts: upstream.provider.timeouts,
    stream: chat.stream,
    decodeError: upstream.dialect.decodeError,
    onHead(status, failure) {
      if (failure === null) {
        ticket.begun(chat.stream)
        signed.taken()
      } else hasCredential = credentialAfter(signed, failure)
      onHead(status, failure)
    },
  })
  pump.feedFrom(attempt)

  const ending = await pump.over
  trip.onStop = null
  // Who was given up before its head came was tried all the same.
  if (exchange.attempts.length === before) onHead(null, null)
  if (ending.ending === 'failed') {
    noteFailure(trip, parts, ending.failure)
    // A credential's failure is the target's only when there is no other; a client that reads too slowly is nobody's.
    if (hasCredential || attempt.isPaused) ticket.dropped()
    else ticket.bad(ending.failure)
  } else if (ending.ending === 'complete' || ending.ending === 'tapped') ticket.good()
  else ticket.dropped()
  return { ending, pump, target, tookMs: watchman.now() - startedMs, hasCredential }
}

const droppedOf = (chat: Chat, request: EncodedRequest) => [...(chat.dropped ?? []), ...request.dropped]

/** What was not sent stands in a header. Names come from the client, and may be anything where unknown ones pass. */
function tellDropped({ ctx }: Trip, names: readonly string[]): void {
  const sayable = names.filter(name => /^[\w.[\]-]{1,64}$/.test(name)).slice(0, MOST_DROPPED)
  const rest = names.length - sayable.length
  const told = rest > 0 ? [...sayable, `${rest} more`] : sayable
  if (told.length > 0) ctx.set('x-tollgate-dropped', told.join(', '))
  else ctx.remove('x-tollgate-dropped')
}

/** Tells the provider's credentials of a failure that may be theirs. Returns whether another one is good. */
function credentialAfter(signed: Signed, { code, retryAfterMs = 0 }: UpstreamFailure): boolean {
  if (!THE_CREDENTIALS.has(code)) return false
  return (code === 'upstream_rate_limited' ? signed.limited(retryAfterMs) : signed.refused()) > 0
}

/** Writes down a failure of which the head said nothing, and tells the operator. */
function noteFailure({ exchange }: Trip, { log }: SenderParts, { code, detail }: UpstreamFailure): void {
  const last = exchange.attempts.at(-1)
  // The head was good and the body was not.
  if (last && last.code === null) exchange.attempts[exchange.attempts.length - 1] = { ...last, code }
  const fields = { exchange: exchange.id, target: last?.target, code, detail }
  if (OPERATORS.has(code)) log.error(fields, "an attempt failed: the provider's entry in gateway.yaml may be wrong")
  else log.warn(fields, 'an attempt failed')
}

/** Null when this attempt was the last one: it went well, its answer has begun, or nothing speaks for another. */
function mayRetry(
  trip: Trip,
  { ending, pump, target, tookMs, hasCredential }: Tried,
  others: readonly Target[],
  { random }: SenderParts,
): Retry | null {
  const { exchange, generation } = trip
  if (ending.ending !== 'failed' || pump.begun || pump.overflowed) return null
  if (exchange.attempts.length >= exchange.attemptsAtMost) return null
  const attempts = exchange.attempts.filter(attempt => attempt.target === target.id).length
  const hasOther = generation.board.arrange(others).some(other => !isRefusal(requestFor(trip, other)))
  return retryAfterFailure({ failure: ending.failure, tookMs, attempts, hasOther, hasCredential }, random)
}

/** Waits, until the time is over or the exchange is stopped. */
function pause(trip: Trip, { watchman }: SenderParts, pauseMs: number): Promise<void> {
  const until = watchman.now() + pauseMs
  return new Promise(resolve => {
    const unwatch = watchman.watch(now => {
      if (now >= until) over()
    })
    const over = () => {
      unwatch()
      trip.onStop = null
      resolve()
    }
    trip.onStop = over
  })
}

/** Says how the answer ended, and throws what the client is to be told of a bad end. */
function end(
  trip: Trip,
  parts: SenderParts,
  ending: PumpEnding,
  names: { readonly theirs: string; readonly ours: string },
): void {
  const { exchange } = trip
  switch (ending.ending) {
    case 'complete':
      exchange.outcome = 'answered'
      return
    case 'client_left':
      exchange.outcome = 'client_left'
      return
    case 'cut':
      exchange.outcome = 'cut'
      throw refuse('shutting_down', { retryAfterMs: 1000 })
    case 'tapped':
      throw tapFailure(trip, parts, ending.error)
    case 'failed':
      exchange.outcome = 'failed'
      throw refusalOf(ending.failure, names, exchange.attempts.length > 1)
  }
}

/**
 * A step's watch or edit threw: its own refusal (a guard's), or a bug. Ends the exchange with it: of a refusal before which
 * the client has seen nothing of the answer the outcome is `refused`.
 */
export function tapFailure(trip: Trip, parts: SenderParts, error: TapError) {
  const { exchange, route } = trip
  exchange.endBadly(isRefusal(error.cause) ? error.cause : null, exchange.progress.delivered)
  const step = route.plan.steps[error.step]?.id ?? 'send'
  if (isRefusal(error.cause)) {
    exchange.record(error.step, 'refused', error.cause.code, 'in the middle of the answer')
    return error.cause
  }
  parts.reportStep({
    exchange: exchange.id,
    policy: route.plan.name,
    step,
    what: 'watch or edit threw',
    error: error.cause,
  })
  exchange.record(error.step, 'failed', 'plugin_error', 'watch or edit threw')
  return refuse('plugin_error', { detail: `step "${step}"`, cause: error.cause })
}

/** How this client wants its whole answer; undefined: as it is. */
export function writerOf({ exchange, meter }: Trip): WriteWhole | undefined {
  const { inbound } = exchange
  if (!inbound) return undefined
  return completion => {
    const usage = exchange.usage ?? meter.spent(true)
    return inbound.encodeAnswer(usage ? { ...completion, usage: wireUsageOf(usage) } : completion)
  }
}

/**
 * What a stream says of the usage at its end: what is charged for, wherever the provider has said it. Null in the canonical
 * format where the provider's own stands, or nobody has asked.
 */
function lastUsage({ inbound, usage, chat }: Trip['exchange']): WireUsage | null {
  if (usage === null) return null
  if (!inbound && !(chat?.includeUsage && usage.source === 'estimated')) return null
  return wireUsageOf(usage)
}

/** The client's stream, remembered for the trip's end: `finish` closes it, a failure breaks it. */
export function streamTo(trip: Trip, taps: readonly Tap[]): StreamAnswer {
  const onContent = () => void (trip.meter.delivered = true)
  const answer = new StreamAnswer(trip.client, taps, trip.exchange.inbound?.encodeStream(), onContent)
  trip.stream = answer
  const finish = () => answer.finish(lastUsage(trip.exchange))
  trip.finish = finish
  return answer
}
