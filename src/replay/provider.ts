/** What stands behind the steps of a replay: the provider as the line has seen it, or as others of its model were. */
import { type Chunk, type MeteredUsage, mostOutput, type Progress, refuse } from '#contract'
import { throughTaps } from '../request/answer/taps.ts'
import { type Exchange, NOTHING_USED } from '../request/exchange.ts'
import type { Reply } from '../request/finish.ts'
import { simulatedReply } from '../simulate/exchange.ts'
import type { LogLine } from './line.ts'

/** How an exchange goes on behind its steps. */
export interface Sent {
  readonly ms: number
  readonly usage: MeteredUsage | null
  /** Whether the line does not say it: it was refused before anybody was asked. */
  readonly isEstimate: boolean
}

/** What answers of each model took, so far. */
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

  /** The prompt by its bytes, the answer as long as the mean one. */
  of(model: string, bytes: number): Sent {
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

/** Whether the line says what a provider, or a cache in its place, has answered. */
export function wasSent({ attempts, usage, decidedBy, outcome }: LogLine): boolean {
  const isOrdinary = outcome === 'answered' && decidedBy === null
  const isCut = outcome === 'client_left' || outcome === 'cut'
  return attempts.length > 0 || usage !== null || isOrdinary || isCut || decidedBy === 'send'
}

export function sentOf(line: LogLine, means: Means): Sent {
  if (!wasSent(line)) return means.of(line.model ?? line.request.model ?? '', line.request.bytes)
  const { usage, ms } = line
  // What a cache has answered is what the provider would.
  return { ms, isEstimate: false, usage: usage?.source === 'cached' ? { ...usage, source: 'reported' } : usage }
}

/**
 * How many bytes longer steps have made the requests of two configurations. The recorded prompts are those of the one
 * that is compared with; what the other one adds to a request beyond that, nobody has counted yet.
 */
export class Sizes {
  readonly #then = new Map<string, number>()
  /** By route, for what only the other side sends: mostly each request grows by the same text. */
  readonly #last = new Map<string, number>()

  /** For the side that is compared with: its prompts are as they were recorded. */
  readonly recorded: AtSend = ({ id, route }, growth) => {
    this.#then.set(id, growth)
    this.#last.set(route, growth)
    return () => 0
  }

  /** For the other one. */
  readonly beyond: AtSend =
    ({ id, route }, growth) =>
    () =>
      growth - (this.#then.get(id) ?? this.#last.get(route) ?? growth)

  /** An exchange is over on both sides. */
  forget(id: string): void {
    this.#then.delete(id)
  }
}

/** Told by how many bytes a request has grown on its way; says at its end how many more they are than were recorded. */
export type AtSend = (line: LogLine, growth: number) => () => number

/** By how many bytes the steps have made the request longer. */
export function growthOf(exchange: Exchange): number {
  const { chat } = exchange
  if (!chat) return 0
  const { body, bytes } = exchange.request()
  // What is rewritten has no spaces between its tokens, which nobody counts.
  return chat.bytes === bytes ? 0 : chat.bytes.length - Buffer.byteLength(JSON.stringify(body))
}

/** As where a provider says nothing: four bytes are a token. */
const BYTES_PER_TOKEN = 4

/** The same with a prompt that is so many bytes longer. */
export function resized(sent: Sent, bytes: number): Sent {
  const { usage } = sent
  if (usage === null || bytes === 0) return sent
  const input = Math.max(
    1,
    (usage.cached_input ?? 0) + (usage.cache_write ?? 0),
    (usage.input ?? 0) + Math.round(bytes / BYTES_PER_TOKEN),
  )
  return { ...sent, usage: { ...usage, input } }
}

/** Whether a step, and not the provider, has said the recorded refusal, and of an answer that had begun. */
export function wasSaidOfAnswer({ code, decidedBy, outcome }: LogLine): boolean {
  const isBad = outcome === 'refused' || outcome === 'failed'
  return isBad && code !== null && decidedBy !== null && decidedBy !== 'send' && decidedBy !== 'gateway'
}

/** What has come of the answer when it is over. */
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
   * @param good whether it finished, or was charged all the same
   * @param stopped whether it was stopped for its client, or by a shutdown: an estimate without a token is its prompt then
   */
  over(usage: MeteredUsage | null, good: boolean, stopped = false): void {
    this.#usage = usage
    this.started = usage !== null
    this.countedTokens = usage?.output ?? 0
    this.abandoned = stopped && usage?.source === 'estimated' && this.countedTokens === 0
    this.finished = this.delivered = good && !this.abandoned
  }
}

/** How the answer ended, and what the client was told of a bad end. */
export async function endAs(exchange: Exchange, progress: ReplayProgress, line: LogLine, sent: Sent): Promise<Reply> {
  const usage = withinCap(exchange, sent.usage)
  // A refusal behind the steps costs nothing, whoever has decided it.
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

/** A provider stops where it is told to. */
function withinCap({ chat, model }: Exchange, usage: MeteredUsage | null): MeteredUsage | null {
  if (usage === null || !chat || !model) return usage
  const most = mostOutput(model, chat.choices, chat.cap)
  if ((usage.output ?? 0) <= most || chat.cap >= (chat.requestedCap ?? model.defaultOutput)) return usage
  return { ...usage, output: most, reasoning: Math.min(usage.reasoning ?? 0, most) }
}

/** For steps that look at answers: one of as many choices as were asked for, whose words nobody knows. */
function chunksOf({ id, chat, model }: Exchange): Chunk[] {
  const head = { id, object: 'chat.completion.chunk', created: 0, model: model?.id ?? '' }
  return Array.from({ length: chat?.choices ?? 1 }, (_, index) => ({
    ...head,
    choices: [{ index, delta: { role: 'assistant', content: 'replayed' }, finish_reason: 'stop' }],
  }))
}
