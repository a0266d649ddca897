/** Sends the requests of a chat route: makes attempts at targets, and pumps the answer to the client. */
import {
  type EncodedRequest,
  isRefusal,
  type ModelEnd,
  type Refusal,
  refusalOfMedia,
  refuse,
  type Target,
  type UpstreamFailure,
} from '#contract'
import { refusalOfLost } from '../../providers/dialects/lost.ts'
import { type Retry, retryAfterFailure } from '../../providers/retry.ts'
import type { PumpEnding } from '../answer/pump.ts'
import { WholePump } from '../answer/whole.ts'
import type { Reply } from '../finish.ts'
import { ChatAttempt, type ChatAttemptOwner } from './chat-attempt.ts'
import { endOfTapError } from './client-format.ts'
import type { LiveExchange } from './live-exchange.ts'
import { StreamReply, stoppedReply, WholeReply } from './reply.ts'

/** Names the parts of an answer that are estimated. */
export const ESTIMATED_HEADER = 'x-tollgate-estimated'

const ALL_FULL = { retryAfterMs: 1000, detail: 'every target has its maximum number of requests' }

/** Resolves when the answer is over, however it ended. Rejects with the refusal if no target could be asked. */
export function sendChat(exchange: LiveExchange): Promise<Reply> {
  return new Promise((resolve, reject) => new ChatSender(exchange, resolve, reject).begin())
}

/** Makes one attempt after the other. It needs more promises only if an attempt fails. */
class ChatSender implements ChatAttemptOwner {
  readonly #exchange: LiveExchange
  readonly #resolve: (reply: Reply) => void
  readonly #reject: (error: unknown) => void
  #left: readonly Target[]
  #last: Reply | null = null
  #unfit: Refusal | null = null

  constructor(exchange: LiveExchange, resolve: (reply: Reply) => void, reject: (error: unknown) => void) {
    this.#exchange = exchange
    this.#resolve = resolve
    this.#reject = reject
    this.#left = exchange.targets ?? []
  }

  begin(): void {
    const exchange = this.#exchange
    const { chat, model, client, generation, ctx } = exchange
    if (!chat || !model || this.#left.length === 0)
      throw new Error('a chat route reached its end without chat, model and targets')
    // Checked after the hold and other waits: a request without a client is not sent.
    if (exchange.stopped) {
      this.#resolve(stoppedReply(exchange))
      return
    }
    if (chat.stream) client.startHeartbeat()
    generation.retries.earn()
    if (model.deprecation) setDeprecation(ctx, model.deprecation)
    this.#ask()
  }

  over(attempt: ChatAttempt, ending: PumpEnding): void {
    try {
      attempt.close(ending)
      const reply = replyOf(this.#exchange, attempt, ending)
      if (ending.ending === 'failed') void this.#again(reply, attempt, ending.failure)
      else this.#resolve(reply)
    } catch (error) {
      this.#reject(error)
    }
  }

  #ask(): void {
    const { healthTracker } = this.#exchange.generation
    for (;;) {
      const [target] = healthTracker.arrange(this.#left)
      // A full target is still left and may support the request, so refuse with `overloaded`, not with another target's refusal.
      if (!target && !this.#last)
        throw this.#left.length === 0 && this.#unfit ? this.#unfit : refuse('overloaded', ALL_FULL)
      if (!target) {
        this.#resolve(this.#last!)
        return
      }
      const request = requestFor(this.#exchange, target)
      if (!isRefusal(request)) {
        new ChatAttempt(this.#exchange, target, request, this).start()
        return
      }
      this.#unfit = request
      this.#left = without(this.#left, target)
    }
  }

  /** Makes another attempt if it may help. The transport's failure callback returns first. */
  async #again(reply: Reply, attempt: ChatAttempt, failure: UpstreamFailure): Promise<void> {
    const exchange = this.#exchange
    try {
      await null
      this.#last = reply
      const retry = mayRetry(exchange, attempt, failure, this.#left)
      // Another credential costs no retry: their number is limited.
      if (!retry || (retry.where !== 'as_another' && !exchange.generation.retries.spend())) {
        this.#resolve(reply)
        return
      }
      if (retry.where === 'elsewhere') this.#left = without(this.#left, attempt.target)
      else if (retry.where === 'here') await pause(exchange, retry.pauseMs)
      if (exchange.stopped) this.#resolve(stoppedReply(exchange))
      else this.#ask()
    } catch (error) {
      this.#reject(error)
    }
  }
}

/**
 * Sets `deprecation` (RFC 9745) and `sunset` (RFC 8594) to the day on which the model is turned off, and `link` (RFC 5829) to its
 * successor.
 */
function setDeprecation(ctx: LiveExchange['ctx'], { date, successor }: ModelEnd): void {
  if (date !== null) {
    const end = new Date(`${date}T00:00:00Z`)
    ctx.set('deprecation', `@${end.getTime() / 1000}`)
    ctx.set('sunset', end.toUTCString())
  }
  if (successor !== null) ctx.set('link', `</v1/models/${encodeURIComponent(successor)}>; rel="successor-version"`)
}

const without = (targets: readonly Target[], target: Target) => targets.filter(other => other !== target)

/** The encoded request for this target, or the reason why the target cannot answer it. */
export function requestFor(exchange: LiveExchange, target: Target): EncodedRequest | Refusal {
  const { dialect } = exchange.generation.upstreams.get(target.provider)!
  const chat = exchange.chat!
  const unread = refusalOfMedia(chat.body, target)
  if (unread) return unread
  try {
    const request = dialect.encodeRequest(chat, target, chat.bytes === exchange.bytes ? exchange.spans : undefined)
    return refusalOfLost(chat, request, exchange.onDropped) ?? request
  } catch (error) {
    if (isRefusal(error)) return error
    throw error
  }
}

/** Null: no further attempt, because the answer has begun, the attempts are used up, or a retry cannot help. */
function mayRetry(
  exchange: LiveExchange,
  { pump, target, tookMs, hasOtherCredential }: ChatAttempt,
  failure: UpstreamFailure,
  left: readonly Target[],
): Retry | null {
  const { attempts: made, attemptsAtMost, generation, host } = exchange
  if (pump.begun || pump.overflowed || made.length >= attemptsAtMost) return null
  const attempts = made.filter(attempt => attempt.target === target.id).length
  const others = generation.healthTracker.arrange(without(left, target))
  const hasOther = others.some(other => !isRefusal(requestFor(exchange, other)))
  return retryAfterFailure({ failure, tookMs, attempts, hasOther, hasOtherCredential }, host.random)
}

/** Waits, until the time is over or the exchange is stopped. */
function pause(exchange: LiveExchange, pauseMs: number): Promise<void> {
  const { deadlineClock } = exchange.host
  const until = deadlineClock.now() + pauseMs
  return new Promise(resolve => {
    const unwatch = deadlineClock.watch(now => {
      if (now >= until) over()
    })
    const over = () => {
      unwatch()
      exchange.unlisten(listener)
      resolve()
    }
    const listener = { onStop: over }
    exchange.listen(listener)
  })
}

/** The reply for the end of an attempt, with the refusal for the client if it failed. */
function replyOf(exchange: LiveExchange, { target, pump }: ChatAttempt, ending: PumpEnding): Reply {
  const isWhole = pump instanceof WholePump && ending.ending === 'complete'
  const usage = isWhole ? pump.usage : exchange.meter.spent(ending.ending === 'complete')
  switch (ending.ending) {
    case 'complete':
      if (!isWhole) return new StreamReply(exchange, { outcome: 'answered', usage, refusal: null })
      if (usage?.source === 'estimated') exchange.ctx.set(ESTIMATED_HEADER, 'usage')
      return new WholeReply(exchange, pump.body!, { usage })
    case 'client_left':
      return new StreamReply(exchange, { outcome: 'client_left', usage, refusal: null })
    case 'cut':
      return stoppedReply(exchange, usage)
    case 'tapped':
      return new StreamReply(exchange, { ...endOfTapError(exchange, ending.error), usage })
    case 'failed': {
      const names = { theirs: target.model, ours: exchange.model!.id }
      const refusal = refusalOfFailure(ending.failure, names, exchange.attempts.length > 1)
      return new StreamReply(exchange, { outcome: 'failed', usage, refusal })
    }
  }
}

/** A client's retry repeats all attempts of the gateway: one call reached a provider 34 times. */
const DO_NOT_RETRY = { 'x-should-retry': 'false' }

/**
 * Converts a provider's failure into a refusal; names of the provider's models become the catalog's.
 * @param isSpent whether the gateway has already retried; then a client should retry only if waiting can help
 */
export function refusalOfFailure(
  { code, message, param, retryAfterMs, detail }: UpstreamFailure,
  names?: { readonly theirs: string; readonly ours: string },
  isSpent = false,
): Refusal {
  const text = message && names && names.theirs.length > 3 ? message.replaceAll(names.theirs, names.ours) : message
  return refuse(code, {
    ...(text ? { message: text } : {}),
    ...(param === undefined ? {} : { param }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(isSpent && retryAfterMs === undefined && code !== 'overloaded' ? { headers: DO_NOT_RETRY } : {}),
    detail,
  })
}
