/**
 * The canonical format: chat completions (OpenAI's OpenAPI description 2.3.0), as far as the gateway reads it. All other fields are
 * passed through, hence the index signatures.
 */
import type { Model } from './model.ts'
import { isAnthropicSearch } from './search.ts'

/** A validated request body. Read-only: the upstream request is spliced from the bytes, not made from this object. */
export interface ChatRequest {
  readonly model: string
  readonly messages: readonly ChatMessage[]
  readonly stream?: boolean | null
  readonly stream_options?: { readonly include_usage?: boolean | null; readonly [field: string]: unknown } | null
  readonly n?: number | null
  readonly max_tokens?: number | null
  readonly max_completion_tokens?: number | null
  readonly tools?: readonly unknown[] | null
  readonly reasoning_effort?: string | null
  readonly [field: string]: unknown
}

/**
 * Returns the index in `tools` of the first tool that the provider runs itself (mostly a search), or -1. The provider bills such a tool
 * by its own price list, and its results become prompt.
 */
export function findProviderTool({ tools }: Pick<ChatRequest, 'tools'>): number {
  return tools?.findIndex(tool => !runsAtClient(tool as { readonly type?: unknown } | null)) ?? -1
}

/** Types of tools that the client runs. Some clients omit the type and mean a function. */
const CLIENT_TOOLS: ReadonlySet<unknown> = new Set(['function', 'custom', undefined])

function runsAtClient(tool: { readonly type?: unknown } | null): boolean {
  if (CLIENT_TOOLS.has(tool?.type)) return true
  const native = anthropicToolIn(tool)
  return native !== null && isAnthropicClientTool(native.type)
}

/**
 * Returns the declaration of a tool that Anthropic defines and the client runs, or of its web search; null for other tools. Only the
 * Messages API has these, so the canonical format wraps them: `{ type: 'anthropic', anthropic: declaration }`.
 */
export function anthropicToolIn(tool: unknown): AnthropicTool | null {
  const { type, anthropic } = (tool ?? {}) as { readonly type?: unknown; readonly anthropic?: Partial<AnthropicTool> }
  if (type !== 'anthropic' || typeof anthropic?.name !== 'string') return null
  return isAnthropicClientTool(anthropic.type) || isAnthropicSearch(anthropic) ? (anthropic as AnthropicTool) : null
}

/** The declaration of such a tool. */
export interface AnthropicTool {
  readonly type: string
  readonly name: string
  readonly [field: string]: unknown
}

/** Whether a type of the Messages API is a tool that the client runs; other dated types run at Anthropic. */
export function isAnthropicClientTool(type: unknown): boolean {
  return typeof type === 'string' && /^(?:bash|text_editor|memory)_\d{8}$/.test(type)
}

/** Efforts by their smallest token budget. Half of the reasoning models do not support efforts above `high`. */
const BUDGETS = [
  { least: 16_384, effort: 'high' },
  { least: 8192, effort: 'medium' },
] as const

/** Returns the highest effort that a token budget allows. */
export function effortWithin(budgetTokens: number): 'low' | 'medium' | 'high' {
  return BUDGETS.find(({ least }) => budgetTokens >= least)?.effort ?? 'low'
}

/** One turn of the conversation. */
export interface ChatMessage {
  readonly role: string
  readonly content?: string | readonly ContentPart[] | null
  readonly [field: string]: unknown
}

/** A part of a message: text, an image, a sound, a file; `type` determines which. */
export interface ContentPart {
  readonly type: string
  readonly text?: string
  readonly image_url?: { readonly url: string }
  readonly [field: string]: unknown
}

/** `usage` on the wire. */
export interface WireUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details?: { cached_tokens?: number; cache_write_tokens?: number; [field: string]: unknown } | null
  completion_tokens_details?: { reasoning_tokens?: number; [field: string]: unknown } | null
  /** Web searches by the provider, with the field names of Anthropic and OpenRouter. */
  server_tool_use?: { web_search_requests?: number; [field: string]: unknown } | null
  [field: string]: unknown
}

/** The addition of a chunk to a choice; in a whole answer, its message. */
export interface Delta {
  role?: string
  content?: string | null
  reasoning_content?: string | null
  refusal?: string | null
  tool_calls?: ToolCallDelta[]
  /**
   * The blocks of an answer with Anthropic's web searches, in order. Search blocks are unchanged. A text block has its length in
   * `content` and its citations; a signed thinking block only marks its position.
   */
  anthropic_content?: AnthropicPiece[]
  [field: string]: unknown
}

/** One block of `anthropic_content`: `text`, `thinking`, `server_tool_use` or `web_search_tool_result`. */
export interface AnthropicPiece {
  readonly type: string
  /** The length of a text, in UTF-16 units. */
  readonly length?: number
  readonly citations?: readonly unknown[]
  readonly [field: string]: unknown
}

/** The addition of a chunk to a tool call; in a whole answer, the call. */
export interface ToolCallDelta {
  index?: number
  id?: string
  type?: string
  function?: { name?: string; arguments?: string; [field: string]: unknown }
  [field: string]: unknown
}

/** One event of a stream. */
export interface Chunk {
  id: string
  object: string
  created: number
  model: string
  choices: { index: number; delta: Delta; finish_reason?: string | null; [field: string]: unknown }[]
  usage?: WireUsage | null
  [field: string]: unknown
}

/** A whole answer. */
export interface ChatCompletion {
  id: string
  object: string
  created: number
  model: string
  choices: { index: number; message: Delta; finish_reason: string | null; [field: string]: unknown }[]
  usage?: WireUsage | null
  [field: string]: unknown
}

/** Fields that replace those of a request in `exchange.rewrite()`; `undefined` removes a field. `FIXED_FIELDS` are excluded. */
export type ChatChanges = Readonly<Partial<ChatRequest>>

/** Fields that no step may rewrite, because other steps have read them. */
export const FIXED_FIELDS: readonly string[] = [
  'model',
  'stream',
  'stream_options',
  'n',
  'max_tokens',
  'max_completion_tokens',
]

/** The fact `chat`, given by the `schema` step. */
export interface Chat {
  /** The validated body. Only `exchange.rewrite()` replaces it; the object itself never changes. */
  readonly body: ChatRequest
  /**
   * The request as bytes, with the same content as `body`: as the client sent them, or as rewritten. They have passed the depth scan and
   * contain no duplicate keys.
   */
  readonly bytes: Buffer
  readonly stream: boolean
  /** Whether the client asked for the usage chunk. */
  readonly includeUsage: boolean
  /** The number of choices (`n`). */
  readonly choices: number
  /** The client's output cap per choice, in tokens; null: none was sent. */
  readonly requestedCap: number | null
  /**
   * The output cap per choice, in tokens, that is sent upstream; always set. A later step may lower it (`credits` does if the balance is
   * short), but never raise it.
   */
  cap: number
  /** Dropped parameters; reported with those the dialect does not support. */
  readonly dropped?: readonly string[]
  /** Whether the client hides reasoning. A provider that shows it only on demand is then not asked for it. */
  readonly hidesReasoning?: boolean
  /** Returns the same request for another model. Throws a refusal if that model cannot answer it. Left out: the model cannot change. */
  readonly forModel?: (chat: Chat, model: Model) => Chat
}
