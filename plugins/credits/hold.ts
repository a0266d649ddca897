/** How much is set aside before anything is sent: a true ceiling of what the request can cost. Pure arithmetic. */
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
  type Searching,
  searchingOf,
} from '#contract'

/** Bytes that a chat format may add around one message, as tokens. */
const TOKENS_PER_MESSAGE = 16

/**
 * The most tokens that a prompt can have. Tokenizers of these models work on bytes, so no text has more tokens than
 * UTF-8 bytes, and a JSON escape is never shorter than what it stands for: the body's own length is a ceiling
 * (characters / 4 is not; it was 28 % short of a provider's count). What an image, a sound or a file costs cannot be
 * told from its bytes, so a request with one counts as the whole context; so does one whose provider may search, each time
 * that the model reads what was found.
 */
export function promptCeiling(chat: Chat, model: Model, { passes }: Searching = searchingOf(chat.body)): number {
  const { messages, tools, functions } = chat.body
  if (passes > 1) return passes * model.context
  if (messages.some(hasPartOfUnknownSize) || letsProviderAdd(chat.body)) return model.context
  const overhead = tools?.length || (Array.isArray(functions) && functions.length > 0) ? model.inputOverhead : 0
  const ceiling = chat.bytes.length + TOKENS_PER_MESSAGE * messages.length + overhead + unseenIn(tools)
  return Math.min(model.context, ceiling)
}

/** What the model reads of a tool that Anthropic defines: 700 tokens for its text editor, which has most. */
const TOKENS_PER_NATIVE_TOOL = 1024
/** As a function, a custom tool is longer: by a schema of 115 bytes, and by a sentence before its grammar. */
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

/** A search, or another tool that the provider runs itself: what it finds becomes prompt. */
function letsProviderAdd(body: ChatRequest): boolean {
  return body.web_search_options != null || findProviderTool(body) >= 0
}

/** Output tokens that may be billed: the cap and what a target thinks outside of it, for every choice and every pass. */
export function completionCeiling(
  chat: Chat,
  model: Model,
  cap: number,
  { passes }: Searching = searchingOf(chat.body),
): number {
  return mostOutput(model, chat.choices * passes, cap)
}

/** The most that a request with an output cap can use. */
export function boundOf(chat: Chat, model: Model, cap: number): Counts {
  const searching = searchingOf(chat.body)
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

/** The smallest cap worth an answer: fewer tokens would be thinking without a word. */
export function smallestCap(model: Model): number {
  return model.reasoning ? 1024 : 64
}

/**
 * The cap that at most half of the available credit pays for, so that a short balance is not spent by one request; never
 * below the smallest useful one, never above what was asked.
 */
export function affordableCap(chat: Chat, model: Model, price: Price, available: NanoUsd): number {
  const smallest = Math.min(smallestCap(model), chat.cap)
  const rest = available / 2n - holdFor(chat, model, price, 0)
  const tokens = affordable(rest > 0n ? rest : 0n, price, 'output', boundOf(chat, model, 0))
  const cap = Math.floor(tokens / (chat.choices * searchingOf(chat.body).passes))
  return Math.min(chat.cap, Math.max(smallest, cap))
}
