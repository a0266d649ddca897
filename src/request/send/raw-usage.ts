/**
 * The usage of a raw answer. Providers report it under two sets of names, in a JSON body or in the last event of a stream. If the price
 * counts tokens and none are reported, they are estimated, and the receipt marks it.
 */
import {
  type AnswerIdentity,
  type Counts,
  type MeteredUsage,
  type Price,
  paysFor,
  UNITS,
  type Unit,
  type WireUsage,
} from '#contract'
import { normalise } from '../../common/usage.ts'

/** Sizes of an exchange, for estimates. */
export interface RawSizes {
  readonly request: Buffer
  readonly answerBytes: number
}

/**
 * The units that a price counts, reported or else estimated, so that no form of answer is free. Tokens are estimated as a quarter of the
 * bytes, other units from the request. Characters are always counted in the request.
 */
export function usageOfRaw(price: Price | null, reported: MeteredUsage | null, sizes: RawSizes): MeteredUsage {
  if (price === null) return { source: 'reported' }
  const { input = 0, output = 0, reasoning = 0, ...others } = reported ?? {}
  const paysAnswer = paysFor(price, 'output')
  const paysTokens = paysAnswer || paysFor(price, 'input')
  const withoutTokens = paysTokens && reported?.input === undefined
  // Drop unpriced units: their maximum in the hold is zero, so any count would mark the receipt as clamped.
  const paid: { [unit in Unit]?: number } = Object.fromEntries(
    Object.entries(others).filter(([name]) => isPaid(price, name)),
  )
  let isEstimate = withoutTokens
  for (const unit of ESTIMATED) {
    if (!paysFor(price, unit) || paid[unit] !== undefined) continue
    const { count, isExact } = estimateOf(unit, sizes.request)
    paid[unit] = count
    isEstimate ||= !isExact
  }
  return {
    ...paid,
    input: withoutTokens ? quarter(sizes.request.length) : paysTokens ? input : 0,
    output: paysAnswer ? (withoutTokens ? quarter(sizes.answerBytes) : output) : 0,
    ...(paysAnswer && reasoning > 0 ? { reasoning } : {}),
    source: isEstimate ? 'estimated' : 'reported',
  }
}

const ESTIMATED = ['second', 'page', 'image', 'character'] as const
/** Speech mostly has 32 kbit/s or more. */
const SOUND_BYTES_PER_SECOND = 4_000

function estimateOf(unit: (typeof ESTIMATED)[number], request: Buffer): { count: number; isExact: boolean } {
  if (unit === 'second') return { count: Math.ceil((request.length / SOUND_BYTES_PER_SECOND) * 1000), isExact: false }
  if (unit === 'page') return { count: 1, isExact: false }
  const body = jsonIn(request)
  if (unit === 'image') {
    const asked = member(body, 'n')
    return { count: Number.isSafeInteger(asked) && (asked as number) > 0 ? (asked as number) : 1, isExact: false }
  }
  const texts = [member(body, 'input'), member(body, 'text')].flat().filter(text => typeof text === 'string')
  if (texts.length === 0) return { count: request.length, isExact: false }
  return { count: texts.reduce((sum, text) => sum + [...text].length, 0), isExact: true }
}

/** A unit without its own price is kept if a unit that contains it has one: it is charged at that price. */
function isPaid(price: Price, name: string): boolean {
  if (!Object.hasOwn(UNITS, name)) return name === 'tier'
  return paysFor(price, name as Unit, ...UNITS[name as Unit].wholes)
}

/** Null: the bytes are not JSON. */
function jsonIn(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return null
  }
}

const quarter = (bytes: number) => Math.ceil(bytes / 4)

/**
 * The usage in a JSON body; null: none, or not JSON.
 * @param identity receives the body's id and model; null: not recorded
 */
export function reportedIn(json: Buffer, identity: AnswerIdentity | null): MeteredUsage | null {
  const body = jsonIn(json)
  if (body === null) return null
  if (identity !== null) identify(identity, body)
  return usageIn(body)
}

/**
 * The usage of a body or an event, including one that wraps the answer (`response.completed`). Numbers are returned unchecked. Null: it
 * counts nothing.
 */
export function usageIn(value: unknown): MeteredUsage | null {
  const usage = member(value, 'usage') ?? member(member(value, 'response'), 'usage')
  const tokens = normalise(usage as WireUsage | null, 'reported') ?? promptIn(usage)
  const others = unitsIn(value, usage)
  return tokens === null && others === null ? null : { ...tokens, ...others, source: 'reported' }
}

/** Embeddings and similar answers have no completion tokens, and some report only the total. */
function promptIn(usage: unknown): MeteredUsage | null {
  const completion = numberIn(usage, 'completion_tokens', 'output_tokens')
  const input =
    numberIn(usage, 'prompt_tokens', 'input_tokens') ?? (completion === null ? numberIn(usage, 'total_tokens') : null)
  return input === null ? null : { input, source: 'reported' }
}

/**
 * Units other than tokens: seconds of sound, pages (Mistral's OCR), and images of an answer. Seconds are OpenAI's `usage.seconds`, the
 * `duration` of a verbose transcription, or Mistral's `prompt_audio_seconds`.
 */
function unitsIn(value: unknown, usage: unknown): Counts | null {
  const seconds = numberIn(usage, 'seconds', 'prompt_audio_seconds') ?? numberIn(value, 'duration')
  const page = numberIn(member(value, 'usage_info'), 'pages_processed')
  const images = member(value, 'data')
  const image = Array.isArray(images) ? images.filter(isImage).length : 0
  if (seconds === null && page === null && image === 0) return null
  return {
    ...(seconds === null ? {} : { second: Math.ceil(seconds * 1000) }),
    ...(page === null ? {} : { page }),
    ...(image === 0 ? {} : { image }),
  }
}

const isImage = (item: unknown) => typeof (member(item, 'b64_json') ?? member(item, 'url')) === 'string'

/** Records the id and model of a body or an event, including one that wraps it (`response.completed`, `message_start`). */
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
