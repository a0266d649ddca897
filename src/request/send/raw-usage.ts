/**
 * What a raw answer took. Providers say it under two sets of names, in a JSON body or in the last event of a stream;
 * where the price counts tokens and nobody says them, they are estimated and the receipt says so.
 */
import type { AnswerIdentity, Price, Usage, WireUsage } from '#contract'
import { usageOf } from '../answer/meter.ts'

/** What is known of an exchange besides what the provider says. */
export interface RawSizes {
  readonly requestBytes: number
  readonly answerBytes: number
}

/** Tokens where a price counts them: as reported, else a quarter of the bytes. */
export function usageOfRaw(price: Price | null, reported: Usage | null, sizes: RawSizes): Usage {
  const countsTokens = price !== null && (price.input > 0n || price.output > 0n)
  if (!countsTokens) return { ...NOTHING, source: 'reported' }
  const paysAnswer = price.output > 0n
  // Tokens without a price are nobody's business here: they would only count as more than was allowed.
  if (reported !== null) return paysAnswer ? reported : { ...reported, completionTokens: 0, reasoningTokens: 0 }
  return {
    ...NOTHING,
    promptTokens: quarter(sizes.requestBytes),
    completionTokens: paysAnswer ? quarter(sizes.answerBytes) : 0,
    source: 'estimated',
  }
}

const quarter = (bytes: number) => Math.ceil(bytes / 4)

const NOTHING = { promptTokens: 0, cachedTokens: 0, cacheWriteTokens: 0, completionTokens: 0, reasoningTokens: 0 }

/**
 * The usage in a JSON body; null where it says none, or is no JSON.
 * @param identity where it is noted what the body calls itself; null: nobody asks
 */
export function reportedIn(json: Buffer, identity: AnswerIdentity | null): Usage | null {
  try {
    const said: unknown = JSON.parse(json.toString('utf8'))
    if (identity !== null) identify(identity, said)
    return usageIn(said)
  } catch {
    return null
  }
}

/**
 * The usage of a body or an event, also of one that wraps the answer (`response.completed`). Numbers are taken as they
 * are, also absurd ones. A usage without a number of tokens (seconds of sound, for instance) is none.
 */
export function usageIn(value: unknown): Usage | null {
  const said = member(value, 'usage') ?? member(member(value, 'response'), 'usage')
  const usage = usageOf(said as WireUsage | null, 'reported')
  if (usage !== null) return usage
  // Embeddings and the like have no answer in tokens, and some say only the sum.
  const completion = numberIn(said, 'completion_tokens', 'output_tokens')
  const prompt =
    numberIn(said, 'prompt_tokens', 'input_tokens') ?? (completion === null ? numberIn(said, 'total_tokens') : null)
  return prompt === null ? null : { ...NOTHING, promptTokens: prompt, source: 'reported' }
}

/** Notes what a body or an event calls the answer, also one that wraps it (`response.completed`, `message_start`). */
export function identify(identity: AnswerIdentity, value: unknown): void {
  for (const each of [value, member(value, 'response'), member(value, 'message')]) {
    identity.id ??= member(each, 'id')
    identity.model ??= member(each, 'model')
  }
}

function numberIn(value: unknown, ...names: readonly string[]): number | null {
  for (const name of names) {
    const found = member(value, name)
    if (typeof found === 'number') return found
  }
  return null
}

function member(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}
