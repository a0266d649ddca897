/** Encodes errors of the Messages API, and translates places of the canonical body to the client's. */
import { type Refusal, reworded } from '#contract'
import { overflowIn } from '../../overflow.ts'
import type { DecodedRequest } from './request.ts'

/**
 * The body of an error answer and of a stream's error event. Besides the format's own members it has the gateway's `code`, which the
 * official library shows as `errorCode`, and `param`.
 */
export function errorBody(refusal: Refusal, request: string): string {
  const { message, code, param } = refusal
  const details = param === 'thread' ? NO_THREADS : { error_code: code }
  const error = { type: typeOf(refusal), message, code, param, details }
  return JSON.stringify({ type: 'error', error, request_id: request })
}

/** In Anthropic's own form: its library then sends all messages each time. */
const NO_THREADS = { error_code: 'thread_unsupported_request', unsupported: ['thread'] }

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  408: 'timeout_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  503: 'overloaded_error',
  504: 'timeout_error',
}

function typeOf({ status }: Refusal): string {
  return TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error')
}

type Places = Pick<DecodedRequest, 'origins' | 'effortPlace' | 'dropped'>

/** The numbers for an error about a prompt that is too long. */
export interface Sizes {
  /** The gateway's estimate. */
  readonly promptTokens: () => number
  readonly context: number | undefined
}

/** The refusal with places of the client's body instead of the canonical one. */
export function inClientTerms(refusal: Refusal, request: Places, sizes: Sizes): Refusal {
  const { param, message } = refusal
  if (refusal.code === 'context_length_exceeded') return reworded(refusal, { message: tooLong(message, sizes), param })
  const own = param === null ? null : placeOf(param, request)
  let sentence = message.replaceAll(MESSAGE_PLACE, place => placeOf(place, request))
  if (param !== null && own !== null && own !== param) sentence = sentence.replaceAll(`'${param}'`, `'${own}'`)
  // Some sentences mention this name without quotation marks and without a `param`. It is not an everyday word.
  sentence = sentence.replaceAll('max_completion_tokens', 'max_tokens')
  return reworded(refusal, { message: sentence, param: own })
}

/** Anthropic's sentence for a prompt that fits without its output. Claude Code reads the numbers and requests less output. */
const WITH_OUTPUT = /input length and `max_tokens` exceed context limit: \d+ \+ \d+ > \d+/

/** Anthropic's sentence, which makes Claude Code shorten the conversation automatically. */
function tooLong(message: string, { promptTokens, context }: Sizes): string {
  if (WITH_OUTPUT.test(message)) return message
  const { asked, output, limit } = overflowIn(message)
  if (output !== null) return `input length and \`max_tokens\` exceed context limit: ${asked} + ${output} > ${limit}`
  const most = limit ?? context
  if (most === undefined) return 'prompt is too long'
  return `prompt is too long: ${asked ?? Math.max(promptTokens(), most + 1)} tokens > ${most} maximum`
}

/** `messages[3].content[0].image_url.url`, anywhere in a sentence. */
const MESSAGE_PLACE = /\bmessages\[\d+\](?:\.\w+|\[\d+\])*/g
const IN_MESSAGE = /^messages\[(\d+)\](?:\.(content|tool_calls)\[(\d+)\])?(.*)$/
const IN_FUNCTION = /^(tools\[\d+\])\.function(?:\.(.*))?$/

/** Parameters with another name here. The rest of the path is kept only if it means the same. */
const NAMES: readonly (readonly [canonical: RegExp, own: string])[] = [
  [/^max_completion_tokens$/, 'max_tokens'],
  [/^stop(?=$|\[)/, 'stop_sequences'],
  [/^parallel_tool_calls$/, 'tool_choice.disable_parallel_tool_use'],
  [/^response_format(?:\.json_schema)?/, 'output_config.format'],
  [/^(?:user|safety_identifier)$/, 'metadata.user_id'],
  [/^stream_options.*$/, 'stream'],
]

function placeOf(place: string, { origins, effortPlace, dropped }: Places): string {
  const droppedPlace = dropped.get(place)
  if (droppedPlace !== undefined) return droppedPlace
  if (place === 'reasoning_effort') return effortPlace
  const inMessage = IN_MESSAGE.exec(place)
  if (inMessage) {
    const [, index, list, item, rest = ''] = inMessage
    const origin = origins[Number(index)]
    if (!origin) return place
    if (list === 'tool_calls')
      return (origin.calls?.[Number(item)] ?? origin.at) + (/arguments/.test(rest) ? '.input' : '')
    if (list === 'content') return origin.parts?.[Number(item)] ?? origin.at
    if (rest === '.tool_call_id') return `${origin.at}.tool_use_id`
    return rest === '.content' && origin.at !== 'system' ? `${origin.at}.content` : origin.at
  }
  const inFunction = IN_FUNCTION.exec(place)
  if (inFunction) {
    const [, tool, rest] = inFunction
    return rest === undefined ? tool! : `${tool}.${rest.replace(/^parameters/, 'input_schema')}`
  }
  const renamed = NAMES.find(([canonical]) => canonical.test(place))
  return renamed ? place.replace(...renamed) : place
}
