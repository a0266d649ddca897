/**
 * Searches of the web that a provider makes while it answers: which a request asks for, and how many may be billed. What they
 * find becomes prompt, so a search costs tokens beside its own price.
 */

/** What the searches of one request can come to. */
export interface Searching {
  /** How often the model is asked within the request, at most: each time it reads its prompt, and may write up to the cap. */
  readonly passes: number
  /** Searches that are charged where the provider does not count them. */
  readonly least: number
  /** Searches that may be charged. */
  readonly most: number
}

/** Of a request that asks for none. */
export const NO_SEARCH: Searching = { passes: 1, least: 0, most: 0 }

/** OpenAI's search models search once for each request, before they answer, and do not count it in their usage. */
const ONE_SEARCH: Searching = { passes: 1, least: 1, most: 1 }

/**
 * Anthropic ends a turn after ten passes (`pause_turn`), whatever `max_uses` says: a search beyond it fails, and the model reads
 * that too. Each pass may write up to `max_tokens`; the usage is the sum of all.
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools
 */
export const MAX_PASSES = 10

/** Searches of one request at most, whatever the client asks for: as many as there are passes. */
export const MAX_SEARCHES = MAX_PASSES

/** The fields of a chat request that ask for searches. */
interface SearchRequest {
  readonly tools?: readonly unknown[] | null
  readonly web_search_options?: unknown
}

/** What the searches of a request can come to. */
export function searchingOf({ tools, web_search_options: options }: SearchRequest): Searching {
  const most = tools ? mostSearches(tools) : -1
  if (most >= 0) return { passes: MAX_PASSES, least: 0, most }
  return options == null ? NO_SEARCH : ONE_SEARCH
}

/** -1: no tool searches. */
function mostSearches(tools: readonly unknown[]): number {
  let most = -1
  for (const tool of tools) {
    const { type, anthropic } = (tool ?? {}) as { readonly type?: unknown; readonly anthropic?: unknown }
    if (type === 'anthropic' && isAnthropicSearch(anthropic)) most = Math.max(most, 0) + usesOf(anthropic)
  }
  return most
}

/** Anthropic's search of the web, as its own declaration. */
export interface AnthropicSearch {
  readonly type: string
  readonly name: string
  readonly max_uses?: number | null
  readonly [field: string]: unknown
}

/** Whether a type of the Messages API names the search of the web. */
export function isAnthropicSearchType(type: unknown): boolean {
  return typeof type === 'string' && /^web_search_\d{8}$/.test(type)
}

/** Whether a declaration is one whose cost has a bound. */
export function isAnthropicSearch(value: unknown): value is AnthropicSearch {
  const tool = (value ?? {}) as Readonly<Record<string, unknown>>
  const { type, name, max_uses: uses } = tool
  if (!isAnthropicSearchType(type) || typeof name !== 'string' || !isCalledDirectly(tool)) return false
  return uses == null || (Number.isSafeInteger(uses) && (uses as number) > 0)
}

/**
 * Whether the model itself calls the search. From 20260209 on code calls it, unless the declaration says otherwise: how often
 * that runs nobody knows before.
 */
export function isCalledDirectly({ type, allowed_callers: callers }: Readonly<Record<string, unknown>>): boolean {
  if (callers == null) return type === 'web_search_20250305'
  return Array.isArray(callers) && callers.length === 1 && callers[0] === 'direct'
}

/** How many searches a declaration may make. */
export function usesOf({ max_uses: uses }: AnthropicSearch): number {
  return Math.min(uses ?? MAX_SEARCHES, MAX_SEARCHES)
}
