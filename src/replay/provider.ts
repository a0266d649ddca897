/** The provider of a replay: answers as recorded in the line, or like others of the same model. */
import { type Chunk, type MeteredUsage, mostOutput, type Progress, refuse } from '#contract'
import { throughTaps } from '../request/answer/taps.ts'
import { type Exchange, NOTHING_USED } from '../request/exchange.ts'
import type { Reply } from '../request/finish.ts'
import { simulatedReply } from '../simulate/exchange.ts'
import type { LogLine } from './line.ts'

export interface UpstreamResult {
  readonly ms: number
  readonly usage: MeteredUsage | null
  /** Whether it is estimated, because the line was refused before the upstream call. */
  readonly isEstimate: boolean
}

/** Average answers of each model so far. */
export class Means {
  readonly #models = new Map<string, Sums>()
  readonly #all: Sums = { count: 0, prompt: 0, bytes: 0, completion: 0, ms: 0 }

  add(line: LogLine): void {
    const { usage, outcome, model, request, ms } = line
    if (outcome !== 'answered' || usage === null || usage.source === 'cached') return
    let sums = this.#models.get(model ?? '')
    if (!sums) this.#models.set(model ?? '', (sums = { count: 0, prompt: 0, bytes: 0, completion: 0, ms: 0 }))
    for (const each of [sums, this.#all]) {
      each.count++
      each.prompt += usage.input ?? 0
      each.bytes += request.bytes
      each.completion += usage.output ?? 0
      each.ms += ms
    }
  }

  /** The prompt in proportion to the bytes, the answer with the average length. */
  of(model: string, bytes: number): UpstreamResult {
    const sums = this.#models.get(model) ?? this.#all
    const share = sums.bytes > 0 ? sums.prompt / sums.bytes : 0.25
    const count = Math.max(1, sums.count)
    return {
      ms: Math.round(sums.ms / count),
      isEstimate: true,
      usage: {
        input: Math.max(1, Math.round(share * bytes)),
        output: Math.round(sums.completion / count),
        source: 'reported',
      },
    }
  }
}

interface Sums {
  count: number
  prompt: number
  bytes: number
  completion: number
  ms: number
}

/** Whether the line has the answer of a provider or of a cache. */
export function wasSent({ attempts, usage, decidedBy, outcome }: LogLine): boolean {
  const isOrdinary = outcome === 'answered' && decidedBy === null
  const isCut = outcome === 'client_left' || outcome === 'cut'
  return attempts.length > 0 || usage !== null || isOrdinary || isCut || decidedBy === 'send'
}

export function sentOf(line: LogLine, means: Means): UpstreamResult {
  if (!wasSent(line)) return means.of(line.model ?? line.request.model ?? '', line.request.bytes)
  const { usage, ms } = line
  // A cached answer equals the provider's.
  return { ms, isEstimate: false, usage: usage?.source === 'cached' ? { ...usage, source: 'reported' } : usage }
}

/**
 * The number of bytes that steps add to requests, in two configurations. Recorded prompts belong to the base configuration. No
 * provider has counted what the other one adds beyond that.
 */
export class Sizes {
  readonly #then = new Map<string, number>()
  /** The last growth by route, for requests that only the other side sends: usually each grows by the same text. */
  readonly #last = new Map<string, number>()

  /** For the base configuration, whose prompts are as recorded. */
  readonly recorded: AtSend = ({ id, route }, growth) => {
    this.#then.set(id, growth)
    this.#last.set(route, growth)
    return () => 0
  }

  /** For the other configuration. */
  readonly beyond: AtSend =
    ({ id, route }, growth) =>
    () =>
      growth - (this.#then.get(id) ?? this.#last.get(route) ?? growth)

  /** Forgets an exchange that has ended on both sides. */
  forget(id: string): void {
    this.#then.delete(id)
  }
}

/** Called with the bytes that steps added to a request. Returns a function that gives the difference to the recorded size. */
export type AtSend = (line: LogLine, growth: number) => () => number

/** The number of bytes that the steps added to the request. */
export function growthOf(exchange: Exchange): number {
  const { chat } = exchange
  if (!chat) return 0
  const { body, bytes } = exchange.request()
  // A rewritten body has no spaces between its tokens, so the original is measured without them too.
  return chat.bytes === bytes ? 0 : chat.bytes.length - Buffer.byteLength(JSON.stringify(body))
}

/** The same estimate as for a provider without usage: four bytes are a token. */
const BYTES_PER_TOKEN = 4

/** The same result for a prompt that is longer by `bytes`. */
export function resized(sent: UpstreamResult, bytes: number): UpstreamResult {
  const { usage } = sent
  if (usage === null || bytes === 0) return sent
  const input = Math.max(
    1,
    (usage.cached_input ?? 0) + (usage.cache_write ?? 0),
    (usage.input ?? 0) + Math.round(bytes / BYTES_PER_TOKEN),
  )
  return { ...sent, usage: { ...usage, input } }
}

/** Whether a step, and not the provider, refused the recorded exchange after the answer had begun. */
export function wasAnswerRefused({ code, decidedBy, outcome }: LogLine): boolean {
  const isBad = outcome === 'refused' || outcome === 'failed'
  return isBad && code !== null && decidedBy !== null && decidedBy !== 'send' && decidedBy !== 'gateway'
}

/** The progress of an answer, filled in when it has ended. */
export class ReplayProgress implements Progress {
  started = false
  finished = false
  delivered = false
  left = false
  abandoned = false
  countedTokens = 0
  #usage: MeteredUsage | null = null

  get estimate(): MeteredUsage {
    return this.#usage ?? NOTHING_USED
  }

  /**
   * @param good whether it finished, or was charged anyway
   * @param stopped whether it was stopped for its client or by a shutdown; an estimate without output is then only its prompt
   */
  over(usage: MeteredUsage | null, good: boolean, stopped = false): void {
    this.#usage = usage
    this.started = usage !== null
    this.countedTokens = usage?.output ?? 0
    this.abandoned = stopped && usage?.source === 'estimated' && this.countedTokens === 0
    this.finished = this.delivered = good && !this.abandoned
  }
}

/** Ends the answer as recorded. Returns the reply with the recorded error, if any. */
export async function endAs(
  exchange: Exchange,
  progress: ReplayProgress,
  line: LogLine,
  sent: UpstreamResult,
): Promise<Reply> {
  const usage = withinCap(exchange, sent.usage)
  // An estimated upstream call always succeeds.
  const outcome = sent.isEstimate ? 'answered' : line.outcome
  if (sent.isEstimate) progress.over(usage, true)
  else {
    exchange.attempts.push(...line.attempts)
    const isStopped = line.outcome === 'client_left' || line.outcome === 'cut'
    progress.over(usage, line.outcome === 'answered' || line.charged > 0n, isStopped)
    if (line.code !== null) return simulatedReply(outcome, usage, refuse(line.code))
  }
  if (exchange.taps.length > 0) for (const chunk of chunksOf(exchange)) await throughTaps(exchange.taps, chunk)
  return simulatedReply(outcome, usage)
}

/** Limits the output to the cap, as the provider would. */
function withinCap({ chat, model }: Exchange, usage: MeteredUsage | null): MeteredUsage | null {
  if (usage === null || !chat || !model) return usage
  const most = mostOutput(model, chat.choices, chat.cap)
  if ((usage.output ?? 0) <= most || chat.cap >= (chat.requestedCap ?? model.defaultOutput)) return usage
  return { ...usage, output: most, reasoning: Math.min(usage.reasoning ?? 0, most) }
}

/** Chunks for steps that check answers: as many choices as requested, with placeholder text. */
function chunksOf({ id, chat, model }: Exchange): Chunk[] {
  const head = { id, object: 'chat.completion.chunk', created: 0, model: model?.id ?? '' }
  return Array.from({ length: chat?.choices ?? 1 }, (_, index) => ({
    ...head,
    choices: [{ index, delta: { role: 'assistant', content: 'replayed' }, finish_reason: 'stop' }],
  }))
}
