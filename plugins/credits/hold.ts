/** The hold of a request: an upper bound of its cost. */
import {
  affordable,
  anthropicToolIn,
  type Chat,
  type ChatMessage,
  type ChatRequest,
  type ContentPart,
  type Counts,
  ceiling,
  findProviderTool,
  type Model,
  mostOutput,
  type NanoUsd,
  type Price,
  type SearchBounds,
  searchBounds,
} from '#contract'

/** Tokens that a chat template may add around one message. */
const TOKENS_PER_MESSAGE = 16

/**
 * The maximum number of tokens of a prompt: the length of its body in bytes. Tokenizers of these models work on bytes, so a text has at
 * most one token per UTF-8 byte. A JSON escape is never shorter than its character. Characters / 4 is not a bound: it was 28 %
 * below a provider's count. The tokens of an image, a sound or a file do not follow from its bytes, so such a request counts as the
 * whole context. So does each pass of a request whose provider may search, because results become prompt.
 */
export function promptCeiling(chat: Chat, model: Model, { passes }: SearchBounds = searchBounds(chat.body)): number {
  const { messages, tools, functions } = chat.body
  if (passes > 1) return passes * model.context
  if (messages.some(hasPartOfUnknownSize) || letsProviderAdd(chat.body)) return model.context
  const overhead = tools?.length || (Array.isArray(functions) && functions.length > 0) ? model.inputOverhead : 0
  const ceiling = chat.bytes.length + TOKENS_PER_MESSAGE * messages.length + overhead + unseenIn(tools)
  return Math.min(model.context, ceiling)
}

/** Tokens of a tool that Anthropic defines. The longest, its text editor, has 700. */
const TOKENS_PER_NATIVE_TOOL = 1024
/** Tokens that a custom tool gains as a function: a schema of 115 bytes, and a sentence before its grammar. */
const TOKENS_PER_CUSTOM_TOOL = 192

function unseenIn(tools: ChatRequest['tools']): number {
  if (!tools) return 0
  let tokens = 0
  for (const tool of tools) {
    if (anthropicToolIn(tool) !== null) tokens += TOKENS_PER_NATIVE_TOOL
    else if ((tool as { readonly type?: unknown } | null)?.type === 'custom') tokens += TOKENS_PER_CUSTOM_TOOL
  }
  return tokens
}

function hasPartOfUnknownSize({ content, ...rest }: ChatMessage): boolean {
  if (rest['audio']) return true
  return Array.isArray(content) && content.some((part: ContentPart) => part.type !== 'text' && part.type !== 'refusal')
}

/** Whether the provider may run a search or another tool itself: results become prompt. */
function letsProviderAdd(body: ChatRequest): boolean {
  return body.web_search_options != null || findProviderTool(body) >= 0
}

/** The maximum number of billed output tokens: the cap and reasoning outside of it, for each choice and each pass. */
export function completionCeiling(
  chat: Chat,
  model: Model,
  cap: number,
  { passes }: SearchBounds = searchBounds(chat.body),
): number {
  return mostOutput(model, chat.choices * passes, cap)
}

/** The maximum usage of a request with an output cap. */
export function boundOf(chat: Chat, model: Model, cap: number): Counts {
  const searching = searchBounds(chat.body)
  return {
    input: promptCeiling(chat, model, searching),
    output: completionCeiling(chat, model, cap, searching),
    search: searching.most,
  }
}

/** The hold for an output cap, in nano-dollars. */
export function holdFor(chat: Chat, model: Model, price: Price, cap: number): NanoUsd {
  return ceiling(boundOf(chat, model, cap), price).total
}

/** The smallest useful cap. With less, a reasoning model would end before its first word. */
export function smallestCap(model: Model): number {
  return model.reasoning ? 1024 : 64
}

/**
 * The cap that half of the available credit pays for, so that one request does not spend a short balance. At least the smallest useful
 * cap, at most the requested one.
 */
export function affordableCap(chat: Chat, model: Model, price: Price, available: NanoUsd): number {
  const smallest = Math.min(smallestCap(model), chat.cap)
  const rest = available / 2n - holdFor(chat, model, price, 0)
  const tokens = affordable(rest > 0n ? rest : 0n, price, 'output', boundOf(chat, model, 0))
  const cap = Math.floor(tokens / (chat.choices * searchBounds(chat.body).passes))
  return Math.min(chat.cap, Math.max(smallest, cap))
}
