/**
 * The canonical shapes: the chat-completions format itself (OpenAI's OpenAPI description 2.3.0), as far as the gateway
 * looks at it. Everything it does not look at is carried along untouched, hence the index signatures.
 */
import type { Model } from './model.ts'
import { isAnthropicSearch } from './search.ts'

/** A request body that passed validation. Read-only: what goes upstream is spliced from the bytes, not from here. */
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
 * Where in `tools` the first tool stands that the provider runs itself (a search, mostly), or -1. Such a tool is billed by
 * the provider's own price list, and what it finds becomes prompt.
 */
export function findProviderTool({ tools }: Pick<ChatRequest, 'tools'>): number {
  return tools?.findIndex(tool => !runsAtClient(tool as { readonly type?: unknown } | null)) ?? -1
}

/** Kinds of tools that the client runs. Some clients leave the type out and mean a function. */
const CLIENT_TOOLS: ReadonlySet<unknown> = new Set(['function', 'custom', undefined])

function runsAtClient(tool: { readonly type?: unknown } | null): boolean {
  if (CLIENT_TOOLS.has(tool?.type)) return true
  const native = anthropicToolIn(tool)
  return native !== null && isAnthropicClientTool(native.type)
}

/**
 * A tool that Anthropic defines and the client runs, or its search of the web, as its own declaration; null where a tool is
 * none. Only the Messages API knows these, so in the canonical format one stands in an envelope:
 * `{ type: 'anthropic', anthropic: declaration }`.
 */
export function anthropicToolIn(tool: unknown): AnthropicTool | null {
  const { type, anthropic } = (tool ?? {}) as { readonly type?: unknown; readonly anthropic?: Partial<AnthropicTool> }
  if (type !== 'anthropic' || typeof anthropic?.name !== 'string') return null
  return isAnthropicClientTool(anthropic.type) || isAnthropicSearch(anthropic) ? (anthropic as AnthropicTool) : null
}

/** Such a declaration. */
export interface AnthropicTool {
  readonly type: string
  readonly name: string
  readonly [field: string]: unknown
}

/** Whether a type of the Messages API names a tool that the client runs; others with a date run at Anthropic. */
export function isAnthropicClientTool(type: unknown): boolean {
  return typeof type === 'string' && /^(?:bash|text_editor|memory)_\d{8}$/.test(type)
}

/** Efforts by the tokens of the smallest budget. Half of the models that think do not know the words beyond `high`. */
const BUDGETS = [
  { least: 16_384, effort: 'high' },
  { least: 8192, effort: 'medium' },
] as const

/** The effort that thinks no longer than a budget of tokens allows. */
export function effortWithin(budgetTokens: number): 'low' | 'medium' | 'high' {
  return BUDGETS.find(({ least }) => budgetTokens >= least)?.effort ?? 'low'
}

/** One turn of the conversation. */
export interface ChatMessage {
  readonly role: string
  readonly content?: string | readonly ContentPart[] | null
  readonly [field: string]: unknown
}

/** A piece of a message: text, an image, a sound, a file; `type` says which. */
export interface ContentPart {
  readonly type: string
  readonly text?: string
  readonly image_url?: { readonly url: string }
  readonly [field: string]: unknown
}

/** `usage` as it stands on the wire. */
export interface WireUsage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  prompt_tokens_details?: { cached_tokens?: number; cache_write_tokens?: number; [field: string]: unknown } | null
  completion_tokens_details?: { reasoning_tokens?: number; [field: string]: unknown } | null
  /** Searches of the web that the provider made; in the words of Anthropic and OpenRouter. */
  server_tool_use?: { web_search_requests?: number; [field: string]: unknown } | null
  [field: string]: unknown
}

/** What a choice adds in a chunk, and, in a whole answer, its message. */
export interface Delta {
  role?: string
  content?: string | null
  reasoning_content?: string | null
  refusal?: string | null
  tool_calls?: ToolCallDelta[]
  /**
   * Of an answer with searches of Anthropic's: its blocks in their order. What a search did is there as it came; a text says how
   * many characters of `content` it is and what it quotes, and a signed thought only where it stood.
   */
  anthropic_content?: AnthropicPiece[]
  [field: string]: unknown
}

/** One block of `anthropic_content`: `text`, `thinking`, `server_tool_use` or `web_search_tool_result`. */
export interface AnthropicPiece {
  readonly type: string
  /** Of a text, in UTF-16 units. */
  readonly length?: number
  readonly citations?: readonly unknown[]
  readonly [field: string]: unknown
}

/** What a chunk adds to a tool call; in a whole answer, the call. */
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

/**
 * Fields that a step puts in a request's place with `exchange.rewrite()`; `undefined` takes one away. Those of
 * `FIXED_FIELDS` cannot be among them.
 */
export type ChatChanges = Readonly<Partial<ChatRequest>>

/** What steps have read, decided and counted by: no step rewrites it. */
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
  /** The validated body. Another one takes its place by `exchange.rewrite()` only; an object once read stays as it is. */
  readonly body: ChatRequest
  /**
   * The bytes as the client sent them, or as they were rewritten, saying what `body` says; they have passed the depth scan
   * and hold no duplicate keys.
   */
  readonly bytes: Buffer
  readonly stream: boolean
  /** Whether the client asked for the usage chunk. */
  readonly includeUsage: boolean
  /** `n`: how many choices. */
  readonly choices: number
  /** The client's own output cap per choice in tokens, or null when it sent none. */
  readonly requestedCap: number | null
  /**
   * The output cap per choice, in tokens, that goes upstream; always sent. A later step may lower it (credits does when
   * the balance is short), never raise it.
   */
  cap: number
  /** Parameters of the request that were left out on purpose; told with those that the dialect cannot carry. */
  readonly dropped?: readonly string[]
  /** Whether the client does not see thoughts: a provider that shows them on demand alone is not asked to. */
  readonly hidesThoughts?: boolean
  /** The same request for another model. Throws the refusal when that model cannot answer it. Left out: it cannot be asked. */
  readonly forModel?: (chat: Chat, model: Model) => Chat
}
