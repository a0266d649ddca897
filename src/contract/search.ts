/**
 * Web searches by a provider while it answers: whether a request asks for them, and how many may be billed. Results become prompt, so a
 * search costs tokens besides its own price.
 */

/** Bounds on the searches of one request. */
export interface SearchBounds {
  /** Maximum number of model calls within the request. Each call reads its prompt, and may write up to the cap. */
  readonly passes: number
  /** Searches that are charged if the provider does not count them. */
  readonly least: number
  /** Maximum number of searches that may be charged. */
  readonly most: number
}

/** A request without searches. */
export const NO_SEARCH: SearchBounds = { passes: 1, least: 0, most: 0 }

/** OpenAI's search models search once per request, before they answer, and do not count it in their usage. */
const ONE_SEARCH: SearchBounds = { passes: 1, least: 1, most: 1 }

/**
 * Anthropic ends a turn after ten passes (`pause_turn`), whatever `max_uses` is. A search beyond it fails, and the model reads the error
 * too. Each pass may write up to `max_tokens`; the usage is the sum of all.
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/server-tools
 */
export const MAX_PASSES = 10

/** Maximum number of searches of one request, whatever the client asks for: one per pass. */
export const MAX_SEARCHES = MAX_PASSES

/** The fields of a chat request that ask for searches. */
interface SearchRequest {
  readonly tools?: readonly unknown[] | null
  readonly web_search_options?: unknown
}

/** Returns the bounds on the searches of a request. */
export function searchBounds({ tools, web_search_options: options }: SearchRequest): SearchBounds {
  const most = tools ? mostSearches(tools) : -1
  if (most >= 0) return { passes: MAX_PASSES, least: 0, most }
  return options == null ? NO_SEARCH : ONE_SEARCH
}

/** Returns -1 if no tool searches. */
function mostSearches(tools: readonly unknown[]): number {
  let most = -1
  for (const tool of tools) {
    const { type, anthropic } = (tool ?? {}) as { readonly type?: unknown; readonly anthropic?: unknown }
    if (type === 'anthropic' && isAnthropicSearch(anthropic)) most = Math.max(most, 0) + usesOf(anthropic)
  }
  return most
}

/** Anthropic's web search, in its own declaration. */
export interface AnthropicSearch {
  readonly type: string
  readonly name: string
  readonly max_uses?: number | null
  readonly [field: string]: unknown
}

/** Whether a type of the Messages API is the web search. */
export function isAnthropicSearchType(type: unknown): boolean {
  return typeof type === 'string' && /^web_search_\d{8}$/.test(type)
}

/** Whether a declaration is a web search of bounded cost. */
export function isAnthropicSearch(value: unknown): value is AnthropicSearch {
  const tool = (value ?? {}) as Readonly<Record<string, unknown>>
  const { type, name, max_uses: uses } = tool
  if (!isAnthropicSearchType(type) || typeof name !== 'string' || !isCalledDirectly(tool)) return false
  return uses == null || (Number.isSafeInteger(uses) && (uses as number) > 0)
}

/** Whether the model itself calls the search. From version 20260209 on, code calls it by default, any number of times. */
export function isCalledDirectly({ type, allowed_callers: callers }: Readonly<Record<string, unknown>>): boolean {
  if (callers == null) return type === 'web_search_20250305'
  return Array.isArray(callers) && callers.length === 1 && callers[0] === 'direct'
}

/** Returns how many searches a declaration may make. */
export function usesOf({ max_uses: uses }: AnthropicSearch): number {
  return Math.min(uses ?? MAX_SEARCHES, MAX_SEARCHES)
}
