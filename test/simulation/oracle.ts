/**
 * What an exchange must be charged, worked out a second time from the README's table "What is charged": from what the
 * provider handed over and how the exchange ended, and from nothing that the gateway has counted.
 */
import type { Item } from './answers.ts'
import type { Client } from './client.ts'
import { MODELS } from './scenario.ts'

/** Nano-dollars for a million tokens. */
export interface Tariff {
  readonly input: bigint
  readonly cachedInput: bigint
  readonly output: bigint
  /** For the search that each request makes, in nano-dollars; left out: it makes none. */
  readonly search?: bigint
}

export interface Case {
  readonly tariff: Tariff
  readonly context: number
  readonly reasoning: boolean
  /** What the target may think beyond the cap. */
  readonly outsideCap: number
  /** Whether a prompt alone costs nothing. */
  readonly forgives: boolean
  readonly stream: boolean
  readonly choices: number
  /** As it was sent to the provider. */
  readonly cap: number
  /** The length of the client's body. */
  readonly bytes: number
  /** The bytes of its only message's text. */
  readonly promptBytes: number
}

export interface Expected {
  readonly amount: bigint
  readonly source: string
}

/** What was handed over, added up. */
export interface Sum {
  /** What is counted of an answer for which nobody reports. */
  readonly counted: number
  readonly isStarted: boolean
  readonly hasFinish: boolean
  /** Every choice has finished. */
  readonly isComplete: boolean
  readonly isBroken: boolean
  readonly isDone: boolean
  readonly usage: unknown
  /** The usage came when every choice had finished. */
  readonly usageIsLast: boolean
  /** Another one came behind it that said nothing. */
  readonly isPartial: boolean
}

/** What is known of a client's exchange, with the cap that was sent to the provider. */
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

/** What has to be set aside: the dearest that it can cost. */
export function holdOf(about: Case): bigint {
  const { tariff } = about
  const dearest = tariff.cachedInput > tariff.input ? tariff.cachedInput : tariff.input
  const tokens = BigInt(promptOf(about)) * dearest + BigInt(ceilingOf(about)) * tariff.output
  return roundUp(tokens) + (tariff.search ?? 0n)
}

/** The most that the prompt can be: what a search finds nobody knows. */
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
  let goesOn = false
  const isComplete = () => !goesOn && finished.size >= about.choices && [...begun].every(index => finished.has(index))
  for (const item of items) {
    if (item.last === 'broken') isBroken = true
    if (item.last === 'done') isDone = true
    if (item.last) break
    for (const { index, text } of item.contents) {
      // Content behind a finish counts, and only [DONE] shows that it was all.
      if (finished.has(index)) goesOn = true
      begun.add(index)
      pieces++
      bytes += Buffer.byteLength(text)
    }
    for (const index of item.finishes) finished.add(index)
    // One that says nothing takes nothing back.
    if (typeof item.usage === 'object' && item.usage !== null && !isSaying(item.usage) && isSaying(usage))
      isPartial = true
    else if (typeof item.usage === 'object' && item.usage !== null) {
      isPartial = false
      usage = item.usage
      usageIsLast = isComplete()
    }
    // Whoever goes on so far beyond the cap is cut.
    if (about.stream && (pieces > 2 * ceilingOf(about) + 64 || bytes > 16 * ceilingOf(about) + 4096)) isBroken = true
    if (isBroken) break
  }
  const counted = Math.max(pieces, Math.ceil(bytes / 4))
  const has = { isStarted: pieces > 0, hasFinish: finished.size > 0, isComplete: isComplete() }
  return { counted, ...has, isBroken, isDone, usage, usageIsLast, isPartial }
}

/** How a request ended at its provider. */
export interface RequestEnd {
  /** For a whole answer: whether the gateway had all of it. */
  readonly wasTaken: boolean
  /** It had gone out, and the gateway gave it up for no other reason than that its client had left. */
  readonly wasAbandoned: boolean
}

/** @param outcome how it ended for the client */
export function chargeOf(about: Case, outcome: string, items: readonly Item[], end: RequestEnd): Expected {
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

  const said = numbersOf(sum.usage)
  const source = about.reasoning ? 'estimated_low' : 'estimated'
  // A whole answer's pieces are its choices' messages, and it counts as begun however empty they are.
  if (said === null && about.stream && !sum.isStarted) return isAnswered ? insurance : released
  if (said === null) {
    if (!sum.hasFinish && sum.counted === 0) return insurance
    return priced(about, guessed, 0, sum.counted, source)
  }
  const isLast = (isAnswered || sum.usageIsLast) && !sum.isPartial
  const isTrusted = isLast ? said.completion > 0 : said.completion >= sum.counted
  if (isTrusted || sum.counted === 0) {
    if (!sum.hasFinish && said.completion === 0) return insurance
    return priced(about, said.prompt, said.cached, said.completion, 'reported')
  }
  return priced(about, said.prompt > 0 ? said.prompt : guessed, said.cached, sum.counted, source)
}

function isSaying(usage: unknown): boolean {
  const said = numbersOf(usage)
  return said !== null && (said.prompt > 0 || said.completion > 0)
}

/** Null when it has no numbers. Digits in a text are one, and more cached than prompt are beside the prompt. */
function numbersOf(usage: unknown): { prompt: number; completion: number; cached: number } | null {
  if (typeof usage !== 'object' || usage === null) return null
  const said = usage as Record<string, unknown>
  const numberIn = (value: unknown) => (typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value)
  const [prompt, completion] = [numberIn(said['prompt_tokens']), numberIn(said['completion_tokens'])]
  if (typeof prompt !== 'number' || typeof completion !== 'number') return null
  const { cached_tokens: cached = 0 } = (said['prompt_tokens_details'] ?? {}) as { cached_tokens?: number }
  return { prompt: cached > prompt && prompt >= 0 ? prompt + cached : prompt, completion, cached }
}

function priced(about: Case, prompt: number, cached: number, completion: number, source: string): Expected {
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

/** What a checkpoint must say that was written when so many tokens had been counted. */
export function checkpointOf(about: Case, counted: number): bigint {
  return priced(about, Math.ceil(about.promptBytes / 4) + 4, 0, counted, 'estimated').amount
}

function roundUp(total: bigint): bigint {
  return total / 1_000_000n + (total % 1_000_000n === 0n ? 0n : 1n)
}
