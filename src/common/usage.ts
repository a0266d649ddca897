/**
 * Reads usage in all variants of OpenAI's format. The names are those of chat completions or of the Responses API, or fields of Anthropic,
 * DeepSeek, Mistral, Moonshot, Perplexity and LiteLLM. The result has OpenAI's names and counting: the prompt includes cached tokens, the
 * completion includes reasoning. `normalise` converts it to units.
 */
import { type MeteredUsage, TIERS, type Tier, type WireUsage } from '#contract'

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const CACHED: readonly string[] =
  'cached_tokens cache_read_input_tokens prompt_cache_hit_tokens num_cached_tokens cache_read_tokens'.split(' ')
const WRITTEN: readonly string[] = ['cache_write_tokens', 'cache_creation_input_tokens', 'cache_creation_tokens']

/**
 * Null if the value is not an object. A usage without token counts, or with OpenAI's names only, is returned unchanged. Impossible
 * numbers are kept: the step `credits` clamps and flags them.
 */
export function readUsage(raw: unknown): WireUsage | null {
  if (!isFields(raw)) return null
  const prompt = numberAmong(raw, 'prompt_tokens', 'input_tokens')
  const completion = numberAmong(raw, 'completion_tokens', 'output_tokens')
  if (prompt === undefined || completion === undefined) return raw as unknown as WireUsage
  if (!isCount(prompt) || !isCount(completion)) {
    return { ...raw, prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  }
  const input = fieldsAmong(raw, 'prompt_tokens_details', 'input_tokens_details')
  const output = fieldsAmong(raw, 'completion_tokens_details', 'output_tokens_details')
  const cached = countAmong(input, CACHED) || countAmong(raw, CACHED)
  const written = countAmong(input, WRITTEN) || countAmong(raw, WRITTEN) || writtenIn(raw)
  const reasoning = countOr0(output['reasoning_tokens'])
  const outside = perplexityIn(raw)
  const all = wholePrompt(raw, { prompt, completion, cached, written, reasoning })
  const hidden = hiddenIn(raw, all, completion)
  // Audio of a prompt is only in Mistral's total. With all other providers a larger total means reasoning.
  const isSound = Number(raw['prompt_audio_seconds']) > 0
  const allReasoning = outside.reasoning > 0 ? outside.reasoning : reasoning
  const answered = completion + (isSound ? 0 : hidden) + outside.reasoning
  const tokens = {
    prompt: all + (isSound ? hidden : 0) + outside.citations,
    // Reasoning is a part of the completion: if it is larger, the completion was counted without it.
    completion: allReasoning > answered ? answered + allReasoning : answered,
    cached,
    written,
    reasoning: allReasoning,
    searches: outside.searches,
  }
  return isPlain(raw, tokens) ? (raw as unknown as WireUsage) : withTokens(raw, input, output, tokens)
}

/** A provider's usage by unit. Impossible numbers are kept, as in `readUsage`. Null: it has no token counts. */
export function normalise(wire: WireUsage | null, source: MeteredUsage['source']): MeteredUsage | null {
  const read = readUsage(wire)
  if (read === null || typeof read.prompt_tokens !== 'number' || typeof read.completion_tokens !== 'number') return null
  const usage: { -readonly [field in keyof MeteredUsage]: MeteredUsage[field] } = {
    input: read.prompt_tokens,
    output: read.completion_tokens,
    source,
  }
  const { prompt_tokens_details: input, completion_tokens_details: output } = read
  if (input) {
    put(usage, 'cached_input', input.cached_tokens)
    put(usage, 'cache_write', input.cache_write_tokens)
    put(usage, 'cache_write_1h', input['cache_write_1h_tokens'] ?? hourIn(read))
    put(usage, 'input_audio', input['audio_tokens'])
    put(
      usage,
      'cached_audio',
      input['cached_audio_tokens'] ?? fieldsAmong(input, 'cached_tokens_details')['audio_tokens'],
    )
    put(usage, 'input_image', input['image_tokens'])
  }
  if (output) {
    put(usage, 'reasoning', output.reasoning_tokens)
    put(usage, 'output_audio', output['audio_tokens'])
    put(usage, 'output_image', output['image_tokens'])
  }
  const searches = read.server_tool_use?.web_search_requests
  if (typeof searches === 'number') usage.search = searches
  const tier = tierOf(read['service_tier'])
  if (tier !== undefined) usage.tier = tier
  return usage
}

function put(usage: { [unit in PartUnit]?: number }, unit: PartUnit, count: unknown): void {
  if (countOr0(count) > 0) usage[unit] = count as number
}

type PartUnit =
  | 'cached_input'
  | 'cache_write'
  | 'cache_write_1h'
  | 'input_audio'
  | 'cached_audio'
  | 'input_image'
  | 'reasoning'
  | 'output_audio'
  | 'output_image'

/** The service tier of a provider's word; undefined: the default tier, or one without prices of its own. */
export function tierOf(raw: unknown): Tier | undefined {
  return TIERS.includes(raw as Tier) ? (raw as Tier) : undefined
}

/** Usage in the format of clients; `source` marks an estimate. */
export function wireUsageOf(usage: MeteredUsage): WireUsage {
  const { input = 0, output = 0, cached_input = 0, cache_write = 0, reasoning = 0, search, source } = usage
  return {
    prompt_tokens: input,
    completion_tokens: output,
    total_tokens: input + output,
    prompt_tokens_details: { cached_tokens: cached_input, cache_write_tokens: cache_write },
    completion_tokens_details: { reasoning_tokens: reasoning },
    ...(search === undefined ? {} : { server_tool_use: { web_search_requests: search } }),
    ...(source === 'estimated' ? { source } : {}),
  }
}

/** Anthropic also counts cache writes by their lifetime. */
function writtenIn(raw: Fields): number {
  const byTime = fieldsAmong(raw, 'cache_creation')
  return countOr0(byTime['ephemeral_5m_input_tokens']) + hourIn(raw)
}

function hourIn(raw: Fields): number {
  return countOr0(fieldsAmong(raw, 'cache_creation')['ephemeral_1h_input_tokens'])
}

/** The usage for clients of chat completions: the provider's own if it has OpenAI's names, else the converted one. */
export function shownUsage(raw: unknown): WireUsage | null {
  if (!isFields(raw)) return null
  const hasNames = typeof raw['prompt_tokens'] === 'number' && typeof raw['completion_tokens'] === 'number'
  return hasNames ? (raw as unknown as WireUsage) : readUsage(raw)
}

interface Tokens {
  readonly prompt: number
  readonly completion: number
  readonly cached: number
  readonly written: number
  readonly reasoning: number
  /** Undefined: the provider does not report any. */
  readonly searches: number | undefined
}

/** Whether the usage already has these values under the canonical names. */
function isPlain(raw: Fields, { prompt, completion, cached, written, reasoning, searches }: Tokens): boolean {
  const input = fieldsAmong(raw, 'prompt_tokens_details')
  const output = fieldsAmong(raw, 'completion_tokens_details')
  return (
    raw['prompt_tokens'] === prompt &&
    raw['completion_tokens'] === completion &&
    countOr0(input['cached_tokens']) === cached &&
    countOr0(input['cache_write_tokens']) === written &&
    countOr0(output['reasoning_tokens']) === reasoning &&
    searches === undefined
  )
}

function withTokens(raw: Fields, input: Fields, output: Fields, tokens: Tokens): WireUsage {
  const { prompt, completion, cached, written, reasoning, searches } = tokens
  return {
    ...raw,
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    ...(cached + written === 0
      ? {}
      : {
          prompt_tokens_details: {
            ...input,
            cached_tokens: cached,
            ...(written === 0 ? {} : { cache_write_tokens: written }),
          },
        }),
    ...(reasoning === 0 ? {} : { completion_tokens_details: { ...output, reasoning_tokens: reasoning } }),
    ...(searches === undefined ? {} : { server_tool_use: { web_search_requests: searches } }),
  }
}

interface Counts {
  readonly prompt: number
  readonly completion: number
  /** Read from a cache. */
  readonly cached: number
  /** Written to a cache. */
  readonly written: number
  readonly reasoning: number
}

/**
 * The prompt with cached tokens. Some providers leave these out, as Anthropic does. Then cached tokens exceed the prompt, or equal the part
 * of the total that neither count includes.
 */
function wholePrompt(raw: Fields, { prompt, completion, cached, written, reasoning }: Counts): number {
  const cache = cached + written
  if (cache === 0) return prompt
  if (Math.max(cached, written) > prompt) return prompt + cache
  const hidden = hiddenIn(raw, prompt, completion)
  if (hidden > 0 && hidden !== reasoning && (hidden === cache || hidden === cache + reasoning)) return prompt + cache
  const isAnthropic = typeof raw['prompt_tokens'] !== 'number' && ANTHROPIC.some(name => countOr0(raw[name]) > 0)
  return isAnthropic && raw['total_tokens'] !== prompt + completion ? prompt + cache : prompt
}

const ANTHROPIC: readonly string[] = ['cache_read_input_tokens', 'cache_creation_input_tokens']

/**
 * Tokens that neither count includes: the reasoning of Google's models at its OpenAI endpoint, and of xAI's models. xAI also has it in the
 * details (in all of 32 recorded answers).
 */
function hiddenIn({ total_tokens: total }: Fields, prompt: number, completion: number): number {
  const areCounts = isCount(total) && isCount(prompt) && isCount(completion)
  return areCounts ? Math.max(0, total - prompt - completion) : 0
}

/** `sonar-deep-research` bills reasoning, citations and searches beside both counts (Perplexity, pricing). */
function perplexityIn(raw: Fields) {
  const { citation_tokens: citations, num_search_queries: searches, reasoning_tokens: reasoning } = raw
  const isPerplexity = citations != null || searches != null
  // A converted usage has them in its counts already.
  if (!isPerplexity || raw['server_tool_use'] !== undefined) return NOTHING
  return {
    citations: countOr0(citations),
    reasoning: countOr0(reasoning),
    searches: countOr0(searches),
  }
}

const NOTHING = { citations: 0, reasoning: 0, searches: undefined }

/** The first of both fields that is a number, or a numeric text. */
function numberAmong(raw: Fields, name: string, other: string): number | undefined {
  return numberOf(raw[name]) ?? numberOf(raw[other])
}

function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : undefined
}

const NO_FIELDS: Fields = {}

/** The first of both fields that is an object. */
function fieldsAmong(raw: Fields, name: string, other: string = name): Fields {
  const first = raw[name]
  if (isFields(first)) return first
  const second = raw[other]
  return isFields(second) ? second : NO_FIELDS
}

/** The first of the fields that is a count above 0. By index, because this runs many times for each request. */
function countAmong(raw: Fields, names: readonly string[]): number {
  for (let at = 0; at < names.length; at++) {
    const count = countOr0(raw[names[at]!])
    if (count > 0) return count
  }
  return 0
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** The count, or 0 for any other value. */
export function countOr0(value: unknown): number {
  return isCount(value) ? value : 0
}
