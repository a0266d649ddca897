/**
 * Translates places of the canonical body to the client's, for the `param` and the sentence of errors: `messages[2].content` was
 * `input[1].content`.
 */
import { type Refusal, reworded } from '#contract'

/** The client's places of one canonical message. */
export interface MessagePlace {
  /** Place of the whole message: `input[3]`, or `instructions`. */
  readonly base: string
  /** The client's name of its content: `content`, or `output` of a call; empty if the place is the text itself. */
  readonly content: string
  /** Places of its parts, if its content has parts. */
  readonly parts: readonly string[]
  readonly calls: readonly string[]
}

/** The client's places of one request. */
export interface Places {
  readonly messages: readonly MessagePlace[]
  readonly tools: readonly string[]
  /** Places of canonical names that differ: dropped tools, and web search. */
  readonly named?: ReadonlyMap<string, string>
}

/** Canonical names at the top level. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ['max_completion_tokens', 'max_output_tokens'],
  ['max_tokens', 'max_output_tokens'],
  ['reasoning_effort', 'reasoning.effort'],
  ['response_format', 'text.format'],
  ['verbosity', 'text.verbosity'],
  ['logprobs', 'top_logprobs'],
  ['messages', 'input'],
])

/** The refusal with the client's places. */
export function inClientTerms(refusal: Refusal, places: Places): Refusal {
  const { message, param } = refusal
  return reworded(refusal, {
    message: translateSentence(message, places),
    param: param === null ? null : placeOf(param, places),
  })
}

const PATH = /^(\w+)(?:\[(\d+)\])?(.*)$/

/** Translates one path of the canonical body. */
function placeOf(param: string, places: Places): string {
  const named = places.named?.get(param)
  if (named !== undefined) return named
  const [, name, index, rest] = PATH.exec(param) ?? []
  if (name === undefined) return param
  if (name === 'messages' && index !== undefined) return messagePlace(places.messages[Number(index)], rest!)
  if (name === 'tools' && index !== undefined) return toolPlace(places.tools[Number(index)] ?? `tools[${index}]`, rest!)
  if (name === 'response_format') return `text.format${rest!.replace(/^\.json_schema(?=\.|$)/, '')}`
  if (name === 'tool_choice') return `tool_choice${rest!.replace(/^\.(?:function|custom|allowed_tools)(?=\.|$)/, '')}`
  return `${NAMES.get(name) ?? name}${rest}`
}

function messagePlace(message: MessagePlace | undefined, rest: string): string {
  if (!message) return 'input'
  const { base, content, parts, calls } = message
  const call = /^\.tool_calls\[(\d+)\](?:\.(?:function|custom))?(.*)$/.exec(rest)
  if (call) return `${calls[Number(call[1])] ?? base}${call[2]!.replace(/^\.id$/, '.call_id')}`
  const part = /^\.content\[(\d+)\](.*)$/.exec(rest)
  if (part) return `${parts[Number(part[1])] ?? base}${partTail(part[2]!)}`
  if (rest.startsWith('.content')) return content === '' ? base : `${base}.${content}`
  if (rest.startsWith('.tool_call_id')) return `${base}.call_id`
  return rest.startsWith('.role') || rest.startsWith('.refusal') ? `${base}${rest}` : base
}

/** `image_url.url` is `image_url` in this format, and `file.file_data` is `file_data`. */
function partTail(tail: string): string {
  return tail
    .replace(/^\.image_url\.url$/, '.image_url')
    .replace(/^\.image_url\.detail$/, '.detail')
    .replace(/^\.file(?=\.|$)/, '')
}

function toolPlace(tool: string, rest: string): string {
  return `${tool}${rest.replace(/^\.(?:function|custom)(?=\.|$)/, '').replace(/^\.format\.grammar(?=\.|$)/, '.format')}`
}

/**
 * Paths in a sentence, and names that are not everyday words; other names only in quotation marks, as this gateway's errors write them.
 * A final dot is not part of a path.
 */
const MENTIONS =
  /\b(?:messages|tools)\[\d+\](?:\.\w+|\[\d+\])*|\b(?:response_format|max_completion_tokens|max_tokens|reasoning_effort|tool_choice)\b(?:\.\w+|\[\d+\])*|(?<=')(?:messages|verbosity|logprobs|web_search_options)(?=')/g

function translateSentence(message: string, places: Places): string {
  return message.replace(MENTIONS, mention => placeOf(mention, places))
}
