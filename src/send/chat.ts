/** The innermost middleware of a chat route: asks the target and pumps its answer to the client. */
import { type ChatCompletion, isRefusal, refuse } from '#contract'
import { chunksOf } from '../answer/early.ts'
import { usageOf } from '../answer/meter.ts'
import { bodyOf, type PumpEnding, StreamPump, WholePump } from '../answer/pump.ts'
import { StreamAnswer } from '../answer/stream.ts'
import { type Tap, TapError } from '../answer/taps.ts'
import type { Upstream } from '../generation.ts'
import { startAttempt } from '../upstream/attempt.ts'
import { endStopped, recordAttempt, refusalOf, type SenderParts, type Trip } from './trip.ts'

const JSON_HEADERS = { 'content-type': 'application/json' }

/** Resolves when the answer is over or the client has left; rejects with the refusal when it failed. */
export async function sendChat(trip: Trip, parts: SenderParts): Promise<void> {
  const { exchange, meter, client, generation } = trip
  const { chat, model, targets } = exchange
  if (!chat || !model || !targets?.length)
    throw new Error('a chat route reached its end without chat, model and targets')
  // After the hold and whatever else took its time: nobody asks for somebody who has left.
  if (exchange.signal.aborted) return endStopped(trip)
  const target = targets[0]!
  const upstream = generation.upstreams.get(target.provider)!
  const view = { model: model.id, includeUsage: chat.includeUsage }
  const request = upstream.dialect.encodeRequest(chat, target)
  if (request.dropped.length > 0) trip.ctx.set('x-tollgate-dropped', request.dropped.join(', '))

  const common = { client, meter, watchman: parts.watchman, onDisconnect: exchange.onDisconnect }
  const pump = chat.stream
    ? new StreamPump({ ...common, decoder: upstream.dialect.decodeStream(view), answer: streamTo(trip, exchange.taps) })
    : new WholePump({ ...common, dialect: upstream.dialect, view, taps: exchange.taps })
  const onStop = () => (trip.stopped === 'cut' ? pump.cut() : pump.leave())
  trip.onStop = onStop
  meter.chat = chat
  meter.outputCeiling = chat.choices * (chat.cap + target.reasoningOutsideCap)
  if (chat.stream) client.startHeartbeat()
  const onHead = recordAttempt(trip, parts, target.id)
  const attempt = startAttempt({
    transport: upstream.transport,
    request: { path: request.path, headers: headersFor(upstream, request.headers, exchange.id), body: request.body },
    sink: pump,
    watchman: parts.watchman,
    timeouts: upstream.provider.timeouts,
    stream: chat.stream,
    decodeError: upstream.dialect.decodeError,
    onHead,
  })
  pump.feedFrom(attempt)

  const ending = await pump.over
  trip.onStop = null
  // Who was given up before its head came was tried all the same.
  if (exchange.attempts.length === 0) onHead(null, null)
  // A whole answer is collected before anything is known of it; its failures were not known at its head.
  exchange.usage = meter.spent(ending.ending === 'complete')
  if (ending.ending === 'complete' && pump instanceof WholePump) {
    const finish = () => client.sendWhole(200, JSON_HEADERS, pump.body!)
    trip.finish = finish
  }
  end(trip, parts, ending, { theirs: target.model, ours: model.id })
}

/** Writes down how the answer ended, and throws what the client is to be told of a bad end. */
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
      exchange.outcome = 'failed'
      throw tapFailure(trip, parts, ending.error)
    case 'failed': {
      exchange.outcome = 'failed'
      const { failure } = ending
      const last = exchange.attempts.at(-1)
      // The head was good and the body was not.
      if (last && last.code === null) exchange.attempts[exchange.attempts.length - 1] = { ...last, code: failure.code }
      parts.log.warn(
        { exchange: exchange.id, target: last?.target, code: failure.code, detail: failure.detail },
        'an attempt failed',
      )
      throw refusalOf(failure, names)
    }
  }
}

/** A step's watch or edit threw: its own refusal (a guard's), or a bug. */
function tapFailure(trip: Trip, parts: SenderParts, error: TapError) {
  const { exchange, route } = trip
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

/** The client's stream, remembered for the trip's end: `finish` closes it, a failure breaks it. */
function streamTo(trip: Trip, taps: readonly Tap[]): StreamAnswer {
  const answer = new StreamAnswer(trip.client, taps)
  trip.stream = answer
  const finish = () => answer.finish()
  trip.finish = finish
  return answer
}

function headersFor(upstream: Upstream, dialectHeaders: Readonly<Record<string, string>>, requestId: string) {
  return { ...upstream.headers, ...dialectHeaders, 'x-request-id': requestId }
}

/** `exchange.answer()`: a step's own completion, through the taps of the steps outside of it. */
export async function answerEarly(
  trip: Trip,
  parts: SenderParts,
  completion: ChatCompletion,
  taps: readonly Tap[],
): Promise<void> {
  const { exchange, client, meter } = trip
  if (exchange.signal.aborted) return endStopped(trip)
  meter.started = true
  meter.finished = true
  exchange.usage = usageOf(completion.usage ?? NO_USAGE, 'cached')
  try {
    if (exchange.chat?.stream) await streamEarly(trip, completion, taps)
    else {
      const body = bodyOf(completion, null, taps)
      const finish = () => client.sendWhole(200, JSON_HEADERS, body)
      trip.finish = finish
    }
  } catch (error) {
    exchange.outcome = 'failed'
    throw tapFailure(trip, parts, error instanceof TapError ? error : new TapError(-1, error))
  }
  trip.onStop = null
  if (exchange.signal.aborted) endStopped(trip)
  else exchange.outcome = 'answered'
}

const NO_USAGE = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

async function streamEarly(trip: Trip, completion: ChatCompletion, taps: readonly Tap[]): Promise<void> {
  const { client, exchange } = trip
  const answer = streamTo(trip, taps)
  for (const chunk of chunksOf(completion, exchange.chat?.includeUsage ?? false)) {
    if (exchange.signal.aborted) return
    if (answer.chunk(chunk, null)) continue
    await new Promise<void>(resolve => {
      client.onResume(resolve)
      trip.onStop = resolve
    })
  }
}
