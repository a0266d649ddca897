/**
 * The one reader of usage in the families of OpenAI's format: its own names, those of its Responses API, and what Anthropic,
 * DeepSeek, Mistral, Moonshot, Perplexity and LiteLLM add. What comes out has OpenAI's names and OpenAI's counting: the prompt
 * has what was cached in it, the completion what was thought. `normalise` makes units of it.
 */
import { type MeteredUsage, TIERS, type Tier, type WireUsage } from '#contract'

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const CACHED: readonly string[] =
  'cached_tokens cache_read_input_tokens prompt_cache_hit_tokens num_cached_tokens cache_read_tokens'.split(' ')
const WRITTEN: readonly string[] = ['cache_write_tokens', 'cache_creation_input_tokens', 'cache_creation_tokens']

/**
 * Null for no object. A usage in which no tokens are counted comes back as it is, and so does one that has nothing but
 * OpenAI's names. Numbers that are out of all proportion stay: the step `credits` brings them into range and flags them.
 */
export function readUsage(said: unknown): WireUsage | null {
  if (!isFields(said)) return null
  const prompt = numberAmong(said, 'prompt_tokens', 'input_tokens')
  const completion = numberAmong(said, 'completion_tokens', 'output_tokens')
  if (prompt === undefined || completion === undefined) return said as unknown as WireUsage
  if (!isCount(prompt) || !isCount(completion)) {
    return { ...said, prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  }
  const input = fieldsAmong(said, 'prompt_tokens_details', 'input_tokens_details')
  const output = fieldsAmong(said, 'completion_tokens_details', 'output_tokens_details')
  const cached = countAmong(input, CACHED) || countAmong(said, CACHED)
  const written = countAmong(input, WRITTEN) || countAmong(said, WRITTEN) || writtenIn(said)
  const reasoning = countOr0(output['reasoning_tokens'])
  const outside = perplexityIn(said)
  const all = wholePrompt(said, { prompt, completion, cached, written, reasoning })
  const hidden = hiddenIn(said, all, completion)
  // Sound in a prompt is in Mistral's total only; all others that say more in the total have thought.
  const isSound = Number(said['prompt_audio_seconds']) > 0
  const thought = outside.reasoning > 0 ? outside.reasoning : reasoning
  const answered = completion + (isSound ? 0 : hidden) + outside.reasoning
  const tokens = {
    prompt: all + (isSound ? hidden : 0) + outside.citations,
    // Thoughts are a part of the answer: where they are more than all of it, they were left out of it.
    completion: thought > answered ? answered + thought : answered,
    cached,
    written,
    reasoning: thought,
    searches: outside.searches,
  }
  return isPlain(said, tokens) ? (said as unknown as WireUsage) : withTokens(said, input, output, tokens)
}

/** A provider's usage by unit; as it says it, also where that can't be (`credits` brings it into range). Null: it counts no tokens. */
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

/** A class of service that may have prices of its own, by a provider's word; undefined: the ordinary one. */
export function tierOf(said: unknown): Tier | undefined {
  return TIERS.includes(said as Tier) ? (said as Tier) : undefined
}

/** Usage as clients read it; `source` says that it is an estimate. */
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

/** Anthropic counts what is written to a cache by how long it is kept, too. */
function writtenIn(said: Fields): number {
  const byTime = fieldsAmong(said, 'cache_creation')
  return countOr0(byTime['ephemeral_5m_input_tokens']) + hourIn(said)
}

function hourIn(said: Fields): number {
  return countOr0(fieldsAmong(said, 'cache_creation')['ephemeral_1h_input_tokens'])
}

/** A usage as clients of chat completions get it: the provider's own where it has OpenAI's names, else what was read. */
export function shownUsage(said: unknown): WireUsage | null {
  if (!isFields(said)) return null
  const hasNames = typeof said['prompt_tokens'] === 'number' && typeof said['completion_tokens'] === 'number'
  return hasNames ? (said as unknown as WireUsage) : readUsage(said)
}

interface Tokens {
  readonly prompt: number
  readonly completion: number
  readonly cached: number
  readonly written: number
  readonly reasoning: number
  /** Undefined: the provider says none. */
  readonly searches: number | undefined
}

/** Whether the canonical names say the same already. */
function isPlain(said: Fields, { prompt, completion, cached, written, reasoning, searches }: Tokens): boolean {
  const input = fieldsAmong(said, 'prompt_tokens_details')
  const output = fieldsAmong(said, 'completion_tokens_details')
  return (
    said['prompt_tokens'] === prompt &&
    said['completion_tokens'] === completion &&
    countOr0(input['cached_tokens']) === cached &&
    countOr0(input['cache_write_tokens']) === written &&
    countOr0(output['reasoning_tokens']) === reasoning &&
    searches === undefined
  )
}

function withTokens(said: Fields, input: Fields, output: Fields, tokens: Tokens): WireUsage {
  const { prompt, completion, cached, written, reasoning, searches } = tokens
  return {
    ...said,
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
 * The prompt with what was cached. Some leave that out, as Anthropic does: then it is more than the prompt, or just what the
 * total has beyond both counts.
 */
function wholePrompt(said: Fields, { prompt, completion, cached, written, reasoning }: Counts): number {
  const cache = cached + written
  if (cache === 0) return prompt
  if (Math.max(cached, written) > prompt) return prompt + cache
  const hidden = hiddenIn(said, prompt, completion)
  if (hidden > 0 && hidden !== reasoning && (hidden === cache || hidden === cache + reasoning)) return prompt + cache
  const isAnthropic = typeof said['prompt_tokens'] !== 'number' && ANTHROPIC.some(name => countOr0(said[name]) > 0)
  return isAnthropic && said['total_tokens'] !== prompt + completion ? prompt + cache : prompt
}

const ANTHROPIC: readonly string[] = ['cache_read_input_tokens', 'cache_creation_input_tokens']

/**
 * Tokens that are in the total and nowhere else: the thinking of Google's models behind its OpenAI endpoint, and of xAI's,
 * which have it in the details too (in all of 32 recorded answers).
 */
function hiddenIn({ total_tokens: total }: Fields, prompt: number, completion: number): number {
  const areCounts = isCount(total) && isCount(prompt) && isCount(completion)
  return areCounts ? Math.max(0, total - prompt - completion) : 0
}

/** `sonar-deep-research` bills its thoughts, what it has quoted, and its searches beside both counts (Perplexity, pricing). */
function perplexityIn(said: Fields) {
  const { citation_tokens: citations, num_search_queries: searches, reasoning_tokens: reasoning } = said
  const isPerplexity = citations != null || searches != null
  // A usage that was read has them in its counts.
  if (!isPerplexity || said['server_tool_use'] !== undefined) return NOTHING
  return {
    citations: countOr0(citations),
    reasoning: countOr0(reasoning),
    searches: countOr0(searches),
  }
}

const NOTHING = { citations: 0, reasoning: 0, searches: undefined }

/** The first of both names that is a number, or a text that is one. */
function numberAmong(said: Fields, name: string, other: string): number | undefined {
  return numberOf(said[name]) ?? numberOf(said[other])
}

function numberOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value
  return typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : undefined
}

const NO_FIELDS: Fields = {}

/** The first of both names that is an object. */
function fieldsAmong(said: Fields, name: string, other: string = name): Fields {
  const first = said[name]
  if (isFields(first)) return first
  const second = said[other]
  return isFields(second) ? second : NO_FIELDS
}

/** The first of the names that is a count above 0; by index, because this is done many times in each request. */
function countAmong(said: Fields, names: readonly string[]): number {
  for (let at = 0; at < names.length; at++) {
    const count = countOr0(said[names[at]!])
    if (count > 0) return count
  }
  return 0
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

/** The count, or 0 for anything else that a provider may say. */
export function countOr0(value: unknown): number {
  return isCount(value) ? value : 0
}
