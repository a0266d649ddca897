/** An answer that a step gives by itself (a cache, a mock): through the taps of the steps outside of it, whole or as a stream. */
import type { ChatCompletion } from '#contract'
import { chunksOf } from '../answer/early.ts'
import { usageOf } from '../answer/meter.ts'
import { type Tap, TapError } from '../answer/taps.ts'
import { bodyOf } from '../answer/whole.ts'
import { JSON_HEADERS, streamTo, tapFailure, writerOf } from './chat.ts'
import { endStopped, type SenderParts, type Trip } from './trip.ts'

/** `exchange.answer()`: a step's own completion, through the taps of the steps outside of it. */
export async function answerEarly(
  trip: Trip,
  parts: SenderParts,
  completion: ChatCompletion,
  taps: readonly Tap[],
): Promise<void> {
  const { exchange, client, meter } = trip
  if (exchange.aborted) return endStopped(trip)
  // A step that answers before anybody has read the request: it is answered in its own format all the same.
  if (trip.route.config.kind !== 'chat') exchange.request()
  meter.started = true
  meter.finished = true
  exchange.usage = usageOf(completion.usage ?? NO_USAGE, 'cached')
  try {
    if (exchange.chat?.stream) await streamEarly(trip, completion, taps)
    else {
      const body = await bodyOf(completion, null, taps, writerOf(trip))
      const finish = () => client.sendWhole(200, JSON_HEADERS, body)
      trip.finish = finish
    }
  } catch (error) {
    throw tapFailure(trip, parts, error instanceof TapError ? error : new TapError(-1, error))
  }
  trip.onStop = null
  if (exchange.aborted) endStopped(trip)
  else exchange.outcome = 'answered'
}

const NO_USAGE = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

async function streamEarly(trip: Trip, completion: ChatCompletion, taps: readonly Tap[]): Promise<void> {
  const { client, exchange } = trip
  const answer = streamTo(trip, taps)
  for (const chunk of chunksOf(completion, exchange.chat?.includeUsage ?? false)) {
    if (exchange.aborted) return
    const keepsUp = answer.chunk(chunk, null)
    if (answer.busy ? await answer.busy : keepsUp) continue
    await new Promise<void>(resolve => {
      client.onResume(resolve)
      trip.onStop = resolve
    })
  }
}
