/**
 * The expected charge of an exchange, computed independently from the README's table "What is charged". It uses the items of the provider
 * and the end of the exchange, and no count of the gateway.
 */
import type { Item } from './answers.ts'
import type { Client } from './client.ts'
import { MODELS } from './scenario.ts'

/** Nano-dollars for a million tokens. */
export interface Tariff {
  readonly input: bigint
  readonly cachedInput: bigint
  readonly output: bigint
  /** The price in nano-dollars of the search that each request makes; omitted if requests make no search. */
  readonly search?: bigint
}

export interface Case {
  readonly tariff: Tariff
  readonly context: number
  readonly reasoning: boolean
  /** The reasoning tokens that the target may use beyond the cap. */
  readonly outsideCap: number
  /** Whether a prompt alone costs nothing. */
  readonly forgives: boolean
  readonly stream: boolean
  readonly choices: number
  /** The cap that was sent to the provider. */
  readonly cap: number
  /** The length of the client's body. */
  readonly bytes: number
  /** The bytes of the text in its only message. */
  readonly promptBytes: number
}

export interface ExpectedCharge {
  readonly amount: bigint
  readonly source: string
}

/** Delivered items, added up. */
export interface Sum {
  /** The counted tokens of an answer without reported usage. */
  readonly counted: number
  readonly isStarted: boolean
  readonly hasFinish: boolean
  /** Every choice has finished. */
  readonly isComplete: boolean
  readonly isBroken: boolean
  readonly isDone: boolean
  readonly usage: unknown
  /** The usage came after every choice had finished. */
  readonly usageIsLast: boolean
  /** Another usage without numbers came after it. */
  readonly isPartial: boolean
}

/** The case of a client's exchange, with the cap that was sent to the provider. */
export function caseOf(client: Client, cap: number): Case {
  const { plan, body } = client
  const { messages } = JSON.parse(body.toString()) as { messages: { content: string }[] }
  return {
    ...MODELS[plan.model]!,
    forgives: plan.path.startsWith('/free'),
    stream: plan.stream,
    choices: plan.choices,
    cap,
    bytes: body.length,
    promptBytes: Buffer.byteLength(messages[0]!.content),
  }
}

/** The amount to hold: the highest possible cost. */
export function holdOf(about: Case): bigint {
  const { tariff } = about
  const dearest = tariff.cachedInput > tariff.input ? tariff.cachedInput : tariff.input
  const tokens = BigInt(promptOf(about)) * dearest + BigInt(ceilingOf(about)) * tariff.output
  return roundUp(tokens) + (tariff.search ?? 0n)
}

/** The largest possible prompt. The size of search results is unknown. */
function promptOf({ tariff, context, bytes }: Case): number {
  return tariff.search === undefined ? Math.min(context, bytes + 16) : context
}

export function ceilingOf({ choices, cap, outsideCap }: Case): number {
  return choices * (cap + outsideCap)
}

export function sumOf(items: readonly Item[], about: Case): Sum {
  let pieces = 0
  let bytes = 0
  let usage: unknown
  let usageIsLast = false
  let isPartial = false
  let isBroken = false
  let isDone = false
  const begun = new Set<number>()
  const finished = new Set<number>()
  let continues = false
  const isComplete = () =>
    !continues && finished.size >= about.choices && [...begun].every(index => finished.has(index))
  for (const item of items) {
    if (item.last === 'broken') isBroken = true
    if (item.last === 'done') isDone = true
    if (item.last) break
    for (const { index, text } of item.contents) {
      // Content after a finish reason counts. Then only [DONE] shows that the answer is complete.
      if (finished.has(index)) continues = true
      begun.add(index)
      pieces++
      bytes += Buffer.byteLength(text)
    }
    for (const index of item.finishes) finished.add(index)
    // A usage without numbers replaces nothing.
    if (typeof item.usage === 'object' && item.usage !== null && !hasNumbers(item.usage) && hasNumbers(usage))
      isPartial = true
    else if (typeof item.usage === 'object' && item.usage !== null) {
      isPartial = false
      usage = item.usage
      usageIsLast = isComplete()
    }
    // An answer that exceeds its cap by this much is cut.
    if (about.stream && (pieces > 2 * ceilingOf(about) + 64 || bytes > 16 * ceilingOf(about) + 4096)) isBroken = true
    if (isBroken) break
  }
  const counted = Math.max(pieces, Math.ceil(bytes / 4))
  const has = { isStarted: pieces > 0, hasFinish: finished.size > 0, isComplete: isComplete() }
  return { counted, ...has, isBroken, isDone, usage, usageIsLast, isPartial }
}

/** The end of a request at its provider. */
export interface RequestEnd {
  /** For a whole answer: whether the gateway received all of it. */
  readonly wasTaken: boolean
  /** Whether the request was sent, and the gateway aborted it only because its client disconnected. */
  readonly wasAbandoned: boolean
}

/** @param outcome of the exchange for the client */
export function chargeOf(about: Case, outcome: string, items: readonly Item[], end: RequestEnd): ExpectedCharge {
  const { wasTaken, wasAbandoned } = end
  const released = { amount: 0n, source: 'released' }
  const insurance = { amount: 0n, source: 'insurance' }
  const isAnswered = outcome === 'answered'
  const sum = sumOf(items, about)
  const guessed = Math.ceil(about.promptBytes / 4) + 4
  if (wasAbandoned && !(about.stream && (sum.isStarted || sum.hasFinish))) {
    const early = about.stream ? numbersOf(sum.usage) : null
    if (about.forgives) return released
    if (early === null || early.prompt <= 0) return priced(about, guessed, 0, 0, 'prompt_estimated')
    return priced(about, early.prompt, early.cached, early.completion, 'reported')
  }
  if (!about.stream && (!wasTaken || !(isAnswered || outcome === 'client_left') || sum.isBroken)) return released
  if (about.stream && !isAnswered && outcome !== 'client_left' && !sum.isStarted) return released

  const reported = numbersOf(sum.usage)
  const source = about.reasoning ? 'estimated_low' : 'estimated'
  // The pieces of a whole answer are the messages of its choices. A whole answer counts as begun even if they are empty.
  if (reported === null && about.stream && !sum.isStarted) return isAnswered ? insurance : released
  if (reported === null) {
    if (!sum.hasFinish && sum.counted === 0) return insurance
    return priced(about, guessed, 0, sum.counted, source)
  }
  const isLast = (isAnswered || sum.usageIsLast) && !sum.isPartial
  const isTrusted = isLast ? reported.completion > 0 : reported.completion >= sum.counted
  if (isTrusted || sum.counted === 0) {
    if (!sum.hasFinish && reported.completion === 0) return insurance
    return priced(about, reported.prompt, reported.cached, reported.completion, 'reported')
  }
  return priced(about, reported.prompt > 0 ? reported.prompt : guessed, reported.cached, sum.counted, source)
}

function hasNumbers(usage: unknown): boolean {
  const reported = numbersOf(usage)
  return reported !== null && (reported.prompt > 0 || reported.completion > 0)
}

/** Null without numbers. A text of digits counts as a number. Cached tokens above the prompt are not part of it, so they are added. */
function numbersOf(usage: unknown): { prompt: number; completion: number; cached: number } | null {
  if (typeof usage !== 'object' || usage === null) return null
  const reported = usage as Record<string, unknown>
  const numberIn = (value: unknown) => (typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value)
  const [prompt, completion] = [numberIn(reported['prompt_tokens']), numberIn(reported['completion_tokens'])]
  if (typeof prompt !== 'number' || typeof completion !== 'number') return null
  const { cached_tokens: cached = 0 } = (reported['prompt_tokens_details'] ?? {}) as { cached_tokens?: number }
  return { prompt: cached > prompt && prompt >= 0 ? prompt + cached : prompt, completion, cached }
}

function priced(about: Case, prompt: number, cached: number, completion: number, source: string): ExpectedCharge {
  const isPossible = [prompt, cached, completion].every(Number.isSafeInteger)
  const most = promptOf(about)
  const within = (value: number, limit: number) => Math.ceil(Math.min(Math.max(value, 0), limit))
  const bounded = { prompt: within(prompt, most), completion: within(completion, ceilingOf(about)), cached: 0 }
  bounded.cached = within(cached, bounded.prompt)
  const isClamped =
    !isPossible || bounded.prompt !== prompt || bounded.completion !== completion || bounded.cached !== cached
  const { tariff } = about
  const tokens =
    BigInt(bounded.prompt - bounded.cached) * tariff.input +
    BigInt(bounded.cached) * tariff.cachedInput +
    BigInt(bounded.completion) * tariff.output
  const amount = roundUp(tokens) + (tariff.search ?? 0n)
  return { amount, source: isClamped && source === 'reported' ? 'clamped' : source }
}

/** The amount of a checkpoint after so many counted tokens. */
export function checkpointOf(about: Case, counted: number): bigint {
  return priced(about, Math.ceil(about.promptBytes / 4) + 4, 0, counted, 'estimated').amount
}

function roundUp(total: bigint): bigint {
  return total / 1_000_000n + (total % 1_000_000n === 0n ? 0n : 1n)
}
