/** Sends a step's own answer (a cache, a mock), whole or as a stream, through the taps of the steps outside of it. */
import type { ChatCompletion, MeteredUsage } from '#contract'
import { normalise } from '../../common/usage.ts'
import { chunksOf } from '../../providers/dialects/translate/chunks.ts'
import { type Tap, TapError } from '../answer/taps.ts'
import { bodyOf } from '../answer/whole.ts'
import type { Reply } from '../finish.ts'
import { endOfTapError, streamTo, writerOf } from './client-format.ts'
import type { LiveExchange } from './live-exchange.ts'
import { StreamReply, stoppedReply, WholeReply } from './reply.ts'

/** Implements `exchange.answer()`. */
export async function answerEarly(
  exchange: LiveExchange,
  completion: ChatCompletion,
  taps: readonly Tap[],
): Promise<Reply> {
  const { meter, chat, live } = exchange
  if (exchange.stopped) return stoppedReply(exchange)
  // A step may answer before the request was read. Reading it sets the encoder of the route's format.
  if (live.config.kind !== 'chat') exchange.request()
  meter.started = true
  meter.finished = true
  const usage = normalise(completion.usage ?? NO_USAGE, 'cached')
  return chat?.stream ? streamEarly(exchange, completion, taps, usage) : wholeEarly(exchange, completion, taps, usage)
}

const NO_USAGE = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }

type EarlySender = (
  exchange: LiveExchange,
  completion: ChatCompletion,
  taps: readonly Tap[],
  usage: MeteredUsage | null,
) => Promise<Reply>

const wholeEarly: EarlySender = async (exchange, completion, taps, usage) => {
  try {
    const body = await bodyOf({ completion, raw: null }, taps, writerOf(exchange, usage))
    return exchange.stopped ? stoppedReply(exchange, usage) : new WholeReply(exchange, body, { usage })
  } catch (error) {
    return new StreamReply(exchange, { ...endOfTapError(exchange, tapErrorOf(error)), usage })
  }
}

const streamEarly: EarlySender = async (exchange, completion, taps, usage) => {
  const { chat } = exchange
  const answer = streamTo(exchange, taps, usage)
  try {
    for (const chunk of chunksOf(completion, chat!.includeUsage)) {
      if (exchange.stopped) break
      const keepsUp = answer.chunk(chunk, null)
      if (answer.busy ? await answer.busy : keepsUp) continue
      await taken(exchange)
    }
  } catch (error) {
    return new StreamReply(exchange, { ...endOfTapError(exchange, tapErrorOf(error)), usage })
  }
  if (exchange.stopped) return stoppedReply(exchange, usage)
  return new StreamReply(exchange, { outcome: 'answered', usage, refusal: null })
}

/** Resolves when the client has read what was written, or the exchange is stopped. */
function taken(exchange: LiveExchange): Promise<void> {
  return new Promise(resolve => {
    const over = () => {
      exchange.unlisten(listener)
      resolve()
    }
    const listener = { onStop: over }
    exchange.listen(listener)
    exchange.client.onResume(over)
  })
}

const tapErrorOf = (error: unknown) => (error instanceof TapError ? error : new TapError(-1, error))
