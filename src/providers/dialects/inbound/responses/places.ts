/**
 * Where in the client's body a place of the canonical one came from: `messages[2].content` was `input[1].content`, and
 * errors must say so, in `param` and in their sentence.
 */
import { type Refusal, reworded } from '#contract'

/** The places that one canonical message was made of. */
export interface MessagePlace {
  /** Of the message as a whole: `input[3]`, or `instructions`. */
  readonly base: string
  /** What its content is called there: `content`, or `output` of a call; empty where the place is the text itself. */
  readonly content: string
  /** Of the parts of its content, when it has parts. */
  readonly parts: readonly string[]
  readonly calls: readonly string[]
}

/** The places of one request. */
export interface Places {
  readonly messages: readonly MessagePlace[]
  readonly tools: readonly string[]
  /** Of what is called otherwise there: tools that were left out, and a search of the web. */
  readonly named?: ReadonlyMap<string, string>
}

/** Canonical names on the top level. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ['max_completion_tokens', 'max_output_tokens'],
  ['max_tokens', 'max_output_tokens'],
  ['reasoning_effort', 'reasoning.effort'],
  ['response_format', 'text.format'],
  ['verbosity', 'text.verbosity'],
  ['logprobs', 'top_logprobs'],
  ['messages', 'input'],
])

/** A refusal in the client's own terms. */
export function inTheirTerms(refusal: Refusal, places: Places): Refusal {
  const { message, param } = refusal
  return reworded(refusal, {
    message: translateSentence(message, places),
    param: param === null ? null : placeOf(param, places),
  })
}

const PATH = /^(\w+)(?:\[(\d+)\])?(.*)$/

/** One path of the canonical body as the client's. */
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

/** `image_url.url` is `image_url` there, and `file.file_data` is `file_data`. */
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
 * Paths in a sentence, and names that are no everyday words; the others only in quotation marks, as errors of this
 * gateway write them. A dot that ends the sentence belongs to no path.
 */
const MENTIONS =
  /\b(?:messages|tools)\[\d+\](?:\.\w+|\[\d+\])*|\b(?:response_format|max_completion_tokens|max_tokens|reasoning_effort|tool_choice)\b(?:\.\w+|\[\d+\])*|(?<=')(?:messages|verbosity|logprobs|web_search_options)(?=')/g

function translateSentence(message: string, places: Places): string {
  return message.replace(MENTIONS, mention => placeOf(mention, places))
}
