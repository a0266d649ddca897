/** The requests that may use the cache, by their body and by `Cache-Control`. */
import { type Chat, type ChatRequest, findProviderTool } from '#contract'

/** Clients that share answers. */
export type Scope = 'account' | 'key' | 'everybody'

/** Requests that bypass the cache if a policy says so. */
export type SkipKind = 'tools' | 'choices'

/** The parts of a request that make its cache key. */
export interface Question extends Pick<Chat, 'body' | 'bytes' | 'cap' | 'choices' | 'hidesReasoning'> {
  readonly modelId: string
  readonly owner: string
}

/** The directives of a request's `Cache-Control` (RFC 9111, 5.2.1) that the cache follows. */
export interface Control {
  /** Bypass the cache. */
  readonly noStore: boolean
  /** Ask the provider, and keep the answer. */
  readonly noCache: boolean
  readonly maxAgeMs: number
}

/** Reads `Cache-Control` of a request. Ignores unknown directives. */
export function readControl(header: string): Control {
  const words = header
    .toLowerCase()
    .split(',')
    .map(word => word.trim())
  const age = words.map(word => /^max-age="?(\d{1,9})"?$/.exec(word)?.[1]).find(seconds => seconds !== undefined)
  return {
    noStore: words.includes('no-store'),
    noCache: words.includes('no-cache') || Number(age) === 0,
    maxAgeMs: age === undefined ? Number.POSITIVE_INFINITY : Number(age) * 1000,
  }
}

/** Why a request bypasses the cache, for the trail; null: it may use it. */
export function whySkipped(
  { body, choices }: Pick<Chat, 'body' | 'choices'>,
  { noStore }: Control,
  { temperature, skip }: { readonly temperature: 'zero' | 'any'; readonly skip: readonly SkipKind[] },
): string | null {
  if (noStore) return 'not cached: the client sent no-store'
  if (temperature === 'zero' && body['temperature'] !== 0) return 'not cached: the temperature is not 0'
  if (skip.includes('tools') && offersTools(body)) return 'not cached: it offers tools'
  if (skip.includes('choices') && choices > 1) return 'not cached: it asks for several choices'
  return whyNever(body)
}

/** Why a request bypasses the cache with any settings: its answer is more than text, or depends on the time of the request. */
function whyNever(body: ChatRequest): string | null {
  if (findProviderTool(body) >= 0 || body['web_search_options'] != null) return 'not cached: the provider searches'
  if (body['store'] === true) return 'not cached: the provider stores it'
  // A stream made from a stored answer cannot carry them.
  if (body['logprobs'] === true) return 'not cached: it asks for logprobs'
  if (body['audio'] != null) return 'not cached: it asks for sound'
  return null
}

function offersTools({ tools, functions }: ChatRequest): boolean {
  return Boolean(tools?.length) || (Array.isArray(functions) && functions.length > 0)
}
