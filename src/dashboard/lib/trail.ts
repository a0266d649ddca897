/**
 * The texts of a receipt: its trail, codes, outcome, and the source of its charge.
 *
 * The operator names the steps. For built-in plugins, a sentence says what the step did; for others, only its result.
 */
import type { OutcomeName, ReceiptView } from '../../api/views.ts'

/** One line of a receipt's trail. */
export type TrailLine = ReceiptView['trail'][number]

/** The colour of a line or a word. */
export type Tone = 'good' | 'bad' | 'warning' | 'neutral'

/** A line of the trail as text. */
export interface Explanation {
  readonly sentence: string
  /** Further facts; null: none. */
  readonly more: string | null
  readonly tone: Tone
}

/** One step's line of the trail as a sentence that begins with the step's name. */
export function explain(line: TrailLine): Explanation {
  const [tone, predicate] = predicateOf(line)
  const more = [WHYS[line.why ?? ''], discardedActions(line), line.note && `It noted: “${line.note}”.`].filter(Boolean)
  return { tone, sentence: `${line.step} ${predicate}`, more: more.length === 0 ? null : more.join(' ') }
}

function predicateOf({ step, plugin = step, verdict, code, why }: TrailLine): readonly [Tone, predicate: string] {
  const reason = code === undefined ? null : reasonOf(code)
  const because = reason === null ? '' : `: ${reason}`
  switch (verdict) {
    case 'passed':
      return ['good', PASSED[plugin] ?? 'let the request pass.']
    case 'answered':
      return ['good', 'answered the request without a model provider.']
    case 'refused':
      return ['bad', `${why === 'in_answer' ? 'stopped the answer' : 'refused the request'}${because}.`]
    case 'failed':
      if (why === 'skipped_on_error') {
        return ['warning', 'failed; its settings let the request continue.']
      }
      if (why === 'in_answer') return ['bad', 'failed while it read the answer. This is a gateway error.']
      return code === undefined || code === 'plugin_error'
        ? ['bad', 'failed. This is a gateway error, not an error in the request.']
        : ['bad', `failed${because}.`]
    case 'skipped':
      return ['neutral', 'did not run: its condition was false.']
    case 'off':
      return ['neutral', 'is switched off.']
    case 'would_refuse':
      return ['warning', `${wouldHave(reason, why)}, but shadow mode let the request continue.`]
    case 'late':
      return ['warning', 'timed out; the gateway continued without it.']
    default:
      return ['neutral', `did this: ${spaced(verdict)}${because}.`]
  }
}

/** The action of each built-in plugin that let a request pass. */
const PASSED: Readonly<Record<string, string>> = {
  'api-key': 'accepted the key.',
  schema: 'validated the request and its model.',
  'rate-limit': 'checked the limits.',
  credits: 'held credit, then settled the charge.',
  route: 'chose the model provider.',
}

/** Without a code, the step would have answered itself. */
function wouldHave(reason: string | null, why: TrailLine['why']): string {
  if (reason === null) return 'would have answered the request'
  return `would have ${why === 'in_answer' ? 'stopped the answer' : 'refused the request'} (${reason})`
}

/** Reasons of a verdict that the sentence does not contain. */
const WHYS: Readonly<Record<string, string>> = {
  when_threw: 'Its condition failed to evaluate.',
  not_awaited: 'It did not wait for the answer.',
  no_decision: 'It did not continue, answer or refuse.',
  threw_after_error: 'It failed after a later step had failed.',
  kept_error: 'It caught the error of a later step; the error still ended the request.',
} satisfies Partial<Record<NonNullable<TrailLine['why']>, string>>

function discardedActions({ would = [] }: TrailLine): string | null {
  const deeds = would.map(({ deed, header }) => (deed === 'set_header' ? `set ${header}` : DEEDS[deed]))
  return deeds.length === 0 ? null : `Shadow mode discarded its actions: ${deeds.join(', ')}.`
}

const DEEDS = { answer: 'answered', edit: 'edited the answer', rewrite: 'rewrote the request' } as const

/** An error's code as the end of a sentence: `rate_limit_exceeded` is "too many requests in a short time". */
export function reasonOf(code: string): string {
  return REASONS[code] ?? spaced(code)
}

const REASONS: Readonly<Record<string, string>> = {
  bad_request: 'the HTTP request is malformed',
  request_timeout: 'the request did not arrive in time',
  unknown_url: 'nothing has that address',
  not_supported: 'the gateway does not support that part of the API',
  method_not_allowed: 'that address does not accept this method',
  request_too_large: 'the request is too large',
  unsupported_media_type: 'the request is not JSON',
  websocket_not_supported: 'WebSockets are not supported',
  headers_too_large: 'the headers are too large',
  invalid_json: 'the request is not valid JSON',
  request_too_complex: 'the request is nested too deeply or has too many parts',
  missing_required_parameter: 'a required parameter is missing',
  unknown_parameter: 'a parameter is unknown',
  invalid_type: 'a parameter has the wrong type',
  invalid_value: 'a parameter has a value that is not allowed',
  invalid_tag: 'a tag has a value that is not allowed',
  tag_required: 'a required tag has no value',
  unsupported_parameter: 'the model does not support one of the parameters',
  context_length_exceeded: 'the messages are longer than the model can read',
  response_not_found: 'the response does not exist or has been deleted',
  previous_response_not_found: 'the earlier response has been deleted',
  item_not_found: 'the item does not exist or has been deleted',
  model_not_found: 'the model does not exist, or the key may not use it',
  missing_api_key: 'the request has no key',
  malformed_api_key: 'the key is incomplete or mistyped',
  invalid_api_key: 'the key is unknown',
  revoked_api_key: 'the key has been revoked',
  expired_api_key: 'the key has expired',
  account_frozen: 'the account is frozen',
  plan_not_declared: 'the plan of the account is not declared',
  unauthorized: 'the request has no credentials',
  forbidden: 'this is not allowed',
  rate_limit_exceeded: 'too many requests in a short time',
  credit_on_hold: 'the rest of the credit is held for other open requests',
  insufficient_quota: 'the account has too little credit',
  spending_cap_reached: 'the key has reached its spending cap',
  budget_exhausted: 'a budget is exhausted until its next period',
  overloaded: 'the gateway is overloaded',
  shutting_down: 'the gateway is shutting down',
  store_unavailable: 'the ledger could not be written',
  plugin_error: 'a step of the gateway failed',
  internal_error: 'something unexpected failed in the gateway',
  loop_detected: 'the request has come back to this gateway',
  upstream_rejected: 'the model provider rejected the request',
  content_filter: 'the content filter of the model provider stopped it',
  upstream_auth: "the model provider rejected the gateway's credentials",
  upstream_forbidden: 'the model provider does not allow it',
  upstream_quota: "the gateway's own quota at the model provider is used up",
  upstream_rate_limited: 'the model provider limits requests',
  upstream_overloaded: 'the model provider is overloaded',
  upstream_unreachable: 'the model provider could not be reached',
  upstream_timeout: 'the model provider did not answer in time',
  upstream_error: 'the model provider failed',
  upstream_invalid: 'the model provider sent an invalid answer',
  upstream_too_large: 'the answer of the model provider is larger than this gateway accepts',
  upstream_truncated: 'the answer of the model provider broke off',
}

function spaced(code: string): string {
  return code.replaceAll('_', ' ')
}

/** An outcome's short name and sentence; null: the request is in progress. */
export function outcomeOf(outcome: OutcomeName | null): {
  readonly label: string
  readonly sentence: string
  readonly tone: Tone
} {
  return outcome === null ? IN_PROGRESS : OUTCOMES[outcome]
}

const IN_PROGRESS = { label: 'In progress', sentence: 'The request is in progress.', tone: 'neutral' } as const

const OUTCOMES = {
  answered: { label: 'Answered', sentence: 'The request was answered.', tone: 'good' },
  refused: { label: 'Refused', sentence: 'The request was refused.', tone: 'warning' },
  failed: { label: 'Failed', sentence: 'The request failed.', tone: 'bad' },
  client_left: {
    label: 'Stopped',
    sentence: 'The client disconnected before the end of the answer.',
    tone: 'neutral',
  },
  cut: { label: 'Cut', sentence: 'The gateway was stopped before the end of the answer.', tone: 'bad' },
} as const satisfies Record<OutcomeName, object>

/** All outcomes, for filters. */
export const OUTCOME_NAMES = Object.keys(OUTCOMES) as readonly OutcomeName[]

/** The source of the charge; null while the request is in progress. */
export function sourceOf(source: string | null): string {
  if (source === null) return 'The charge is not known yet: the request is in progress.'
  return SOURCES[source] ?? `How the charge was found: ${spaced(source)}.`
}

const SOURCES: Readonly<Record<string, string>> = {
  reported: 'The model provider reported these tokens.',
  clamped:
    'The model provider reported more tokens than this request can have used. Only the possible maximum is charged; the operator pays the rest.',
  estimated: 'The model provider reported no usable figures, so the charge uses the count of the gateway.',
  estimated_low:
    'The answer ended early, and hidden reasoning tokens cannot be counted. The counted tokens are charged; the true figure may be higher.',
  prompt_estimated:
    'The client disconnected before the answer began. The prompt had been sent to the model provider, so its estimated tokens are charged.',
  insurance: 'The answer was empty, so nothing is charged, whatever the model provider bills.',
  released: 'Nothing usable was delivered, so nothing is charged and the hold is released.',
  recovered:
    'The gateway stopped during the request. Only the part of the answer up to its last checkpoint is charged.',
  cached: 'The answer came from a cache.',
}
