/** Which requests may be answered from the cache, by what they ask for and by what their clients say. */
import { type Chat, type ChatRequest, findProviderTool } from '#contract'

/** Whose answers somebody may get. */
export type Scope = 'account' | 'key' | 'everybody'

/** Requests that a policy may let pass by. */
export type Skippable = 'tools' | 'choices'

/** What an answer is kept under. */
export interface Question extends Pick<Chat, 'body' | 'bytes' | 'cap' | 'choices' | 'hidesThoughts'> {
  readonly modelId: string
  readonly owner: string
}

/** The client's `Cache-Control`, as far as it is about what it may get. */
export interface Control {
  /** Neither looked for nor kept. */
  readonly noStore: boolean
  /** Asked anew, and kept. */
  readonly noCache: boolean
  readonly maxAgeMs: number
}

/** Reads `Cache-Control` of a request; what it does not know it leaves. */
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

/** Why a request passes by, for the trail; null when it does not. */
export function whySkipped(
  { body, choices }: Pick<Chat, 'body' | 'choices'>,
  { noStore }: Control,
  { temperature, skip }: { readonly temperature: 'zero' | 'any'; readonly skip: readonly Skippable[] },
): string | null {
  if (noStore) return 'not cached: the client says no-store'
  if (temperature === 'zero' && body['temperature'] !== 0) return 'not cached: the temperature is not 0'
  if (skip.includes('tools') && offersTools(body)) return 'not cached: it offers tools'
  if (skip.includes('choices') && choices > 1) return 'not cached: it wants several choices'
  return whyNever(body)
}

/** Requests whose answer is more than its text, or is about the moment. */
function whyNever(body: ChatRequest): string | null {
  if (findProviderTool(body) >= 0 || body['web_search_options'] != null) return 'not cached: the provider searches'
  if (body['store'] === true) return 'not cached: the provider is to store it'
  // A replayed stream has no place for them.
  if (body['logprobs'] === true) return 'not cached: it asks for logprobs'
  if (body['audio'] != null) return 'not cached: it asks for sound'
  return null
}

function offersTools({ tools, functions }: ChatRequest): boolean {
  return Boolean(tools?.length) || (Array.isArray(functions) && functions.length > 0)
}
