/**
 * What happened to a request, in words: a receipt's trail, its codes, its outcome, and how its charge was found.
 *
 * Steps have the names that the operator gave them. Of the steps that the gateway brings along the sentence says what
 * they do; of any other only what became of it.
 */
import type { OutcomeName, ReceiptView } from '../../admin/api/views.ts'

/** One line of a receipt's trail. */
export type TrailLine = ReceiptView['trail'][number]

/** How a line or a word is to be shown: in what colour. */
export type Tone = 'good' | 'bad' | 'warning' | 'neutral'

/** A line of the trail for people. */
export interface Explained {
  readonly sentence: string
  /** What else there is to know of it; null: nothing. */
  readonly more: string | null
  readonly tone: Tone
}

/** One step's line of the trail as a sentence that begins with the step's name. */
export function explain({ step, verdict, code, note }: TrailLine): Explained {
  const why = code === undefined ? null : reasonOf(code)
  const because = why === null ? '' : `: ${why}`
  switch (verdict) {
    case 'passed':
      return said('good', PASSED[step]?.(note) ?? `${step} let the request pass.`, note)
    case 'answered':
      return said('good', `${step} answered the request itself; no model provider was asked.`, note)
    case 'refused':
      if (note?.includes(IN_THE_MIDDLE)) return said('bad', `${step} stopped the answer on its way${because}.`, note)
      return said('bad', `${step} refused the request${because}.`, note)
    case 'failed':
      return failed(step, code, note)
    case 'skipped':
      return said('neutral', `${step} did not run: its condition did not hold for this request.`, note)
    case 'off':
      return said('neutral', `${step} is switched off.`, note)
    case 'would_refuse':
      return wouldRefuse(step, why, note)
    case 'late':
      return said('warning', `${step} did not finish in time, and the gateway went on without it.`, note)
    default:
      return said('neutral', `${step}: ${spaced(verdict)}${because}.`, note)
  }
}

/** What the steps of the gateway itself do when they let a request pass. */
const PASSED: Readonly<Record<string, (note: string | undefined) => string>> = {
  'api-key': () => 'api-key let the request in: its key is known and valid.',
  schema: () => 'schema found the request well formed, and its model in the catalog.',
  'rate-limit': () => 'rate-limit let it pass: it was within the limits.',
  credits: note =>
    note?.split('; ').includes(FREE)
      ? 'credits let it pass: this costs nothing.'
      : 'credits set the money aside before, and settled the charge after.',
  route: () => 'route chose the model provider to send it to.',
}

function failed(step: string, code: string | undefined, note: string | undefined): Explained {
  if (note?.includes(SKIPPED_BY_ERROR)) {
    return said('warning', `${step} failed; the request went on without it, as its settings say.`, note)
  }
  if (code === undefined || code === 'plugin_error') {
    return said('bad', `${step} failed. That is a fault of the gateway, not of the request.`, note)
  }
  return said('bad', `${step} failed: ${reasonOf(code)}.`, note)
}

/** In shadow a step only watches; without a code it would have given an answer of its own. */
function wouldRefuse(step: string, why: string | null, note: string | undefined): Explained {
  const deed = why === null ? 'would have answered by itself' : `would have refused the request (${why})`
  return said('warning', `${step} ${deed}, but it only watches (shadow mode): the request went on.`, note)
}

const IN_THE_MIDDLE = 'in the middle of the answer'
const SKIPPED_BY_ERROR = 'skipped by onError'
const FREE = 'free'

/** Remarks that the sentence has said already. */
const SAID: readonly string[] = [IN_THE_MIDDLE, SKIPPED_BY_ERROR, FREE, '`when` is false']

/** Remarks of the gateway itself, and what they mean. Longer ones stand before shorter ones that they begin with. */
const REMARKS: readonly (readonly [pattern: RegExp, meaning: string])[] = [
  [
    /^output capped at (\d+) tokens: the balance does not pay for (\d+)/,
    'The balance did not pay for an answer of $2 tokens, so it was limited to $1.',
  ],
  [/^kept an inner error; it stands all the same/, 'It hid the error of a later step; the error stands all the same.'],
  [/^threw after an inner error/, 'It broke when a later step had failed already.'],
  [/^did not await next\(\)/, 'It did not wait for the answer.'],
  [/^returned without next\(\), an answer or a refusal/, 'It neither went on, nor answered, nor refused.'],
  [/^watch or edit threw/, 'It broke while it read the answer.'],
  [/^`when` threw/, 'Its condition could not be worked out.'],
  [/^would have: ([^;]+)/, 'Shadow mode held back what it did: $1.'],
]

/** The sentence, and the remarks that it has not said yet. */
function said(tone: Tone, sentence: string, note: string | undefined): Explained {
  return { tone, sentence, more: note === undefined ? null : remarks(note) }
}

/**
 * The gateway joins a step's remarks by semicolons, and a remark may have one itself: known remarks are taken off the
 * front, and what is not known is quoted up to the next semicolon.
 */
function remarks(note: string): string | null {
  const found: string[] = []
  let rest = note.trim()
  while (rest !== '') {
    const { text, length } = firstRemark(rest)
    if (text !== null) found.push(text)
    rest = rest.slice(length).replace(/^;?\s*/, '')
  }
  return found.length === 0 ? null : found.join(' ')
}

function firstRemark(rest: string): { readonly text: string | null; readonly length: number } {
  for (const [pattern, meaning] of REMARKS) {
    const match = pattern.exec(rest)
    if (match && endsThere(rest, match[0].length)) {
      return { text: meaning.replace(/\$(\d)/g, (_, index: string) => match[Number(index)]!), length: match[0].length }
    }
  }
  const said = SAID.find(each => rest.startsWith(each) && endsThere(rest, each.length))
  if (said !== undefined) return { text: null, length: said.length }
  const end = rest.indexOf(';')
  // At least one character, so that a remark of nothing but semicolons comes to an end.
  const length = Math.max(1, end === -1 ? rest.length : end)
  const own = rest.slice(0, length).replace(/;$/, '').trim()
  return { text: own === '' ? null : `It noted: “${own}”.`, length }
}

function endsThere(text: string, length: number): boolean {
  return text.length === length || text[length] === ';'
}

/** An error's code as the end of a sentence: `rate_limit_exceeded` is "too many requests in a short time". */
export function reasonOf(code: string): string {
  return REASONS[code] ?? spaced(code)
}

const REASONS: Readonly<Record<string, string>> = {
  bad_request: 'the HTTP request is malformed',
  request_timeout: 'the request did not arrive in time',
  unknown_url: 'there is nothing at that address',
  method_not_allowed: 'that address does not take this method',
  request_too_large: 'the request is too large',
  unsupported_media_type: 'the request is not JSON',
  headers_too_large: 'the headers are too large',
  invalid_json: 'the request is not valid JSON',
  request_too_complex: 'the request is nested too deeply or has too many parts',
  missing_required_parameter: 'a required parameter is missing',
  unknown_parameter: 'a parameter is not known',
  invalid_type: 'a parameter has the wrong type',
  invalid_value: 'a parameter has a value that is not allowed',
  unsupported_parameter: 'the model does not take one of the parameters',
  context_length_exceeded: 'the messages are longer than the model can read',
  response_not_found: 'there is no such response, or it is not kept any more',
  previous_response_not_found: 'the earlier response is not kept any more',
  item_not_found: 'there is no such item, or it is not kept any more',
  model_not_found: 'there is no such model, or the key may not use it',
  missing_api_key: 'there was no key',
  malformed_api_key: 'the key is incomplete or mistyped',
  invalid_api_key: 'the key is not known here',
  revoked_api_key: 'the key has been revoked',
  expired_api_key: 'the key has expired',
  account_frozen: 'the account is frozen',
  unauthorized: 'the request does not say who sends it',
  forbidden: 'this is not allowed',
  rate_limit_exceeded: 'too many requests in a short time',
  credit_on_hold: 'the rest of the credit is held for other open requests',
  insufficient_quota: 'the account has too little credit',
  spending_cap_reached: 'the key has reached its spending cap',
  overloaded: 'the gateway has too much to do',
  shutting_down: 'the gateway is shutting down',
  store_unavailable: 'the ledger could not be written',
  plugin_error: 'a step of the gateway failed',
  internal_error: 'something unexpected failed in the gateway',
  loop_detected: 'the request has come back to this gateway',
  upstream_rejected: 'the model provider did not accept the request',
  content_filter: 'the content filter of the model provider stopped it',
  upstream_auth: "the model provider did not accept the gateway's credentials",
  upstream_forbidden: 'the model provider does not allow it',
  upstream_quota: "the gateway's own quota at the model provider is used up",
  upstream_rate_limited: 'the model provider limits requests',
  upstream_overloaded: 'the model provider has too much to do',
  upstream_unreachable: 'the model provider could not be reached',
  upstream_timeout: 'the model provider did not answer in time',
  upstream_error: 'the model provider failed',
  upstream_invalid: 'the model provider sent an answer that makes no sense',
  upstream_too_large: 'the answer of the model provider is larger than this gateway accepts',
  upstream_truncated: 'the answer of the model provider broke off',
}

function spaced(code: string): string {
  return code.replaceAll('_', ' ')
}

/** An outcome's short name and the sentence that says it; null: still under way. */
export function outcomeOf(outcome: OutcomeName | null): {
  readonly label: string
  readonly sentence: string
  readonly tone: Tone
} {
  return outcome === null ? UNDER_WAY : OUTCOMES[outcome]
}

const UNDER_WAY = { label: 'In progress', sentence: 'The request is in progress.', tone: 'neutral' } as const

const OUTCOMES = {
  answered: { label: 'Answered', sentence: 'The request was answered.', tone: 'good' },
  refused: { label: 'Refused', sentence: 'The request was refused.', tone: 'warning' },
  failed: { label: 'Failed', sentence: 'The request failed.', tone: 'bad' },
  client_left: {
    label: 'Stopped',
    sentence: 'The client stopped the answer, or left before its end.',
    tone: 'neutral',
  },
  cut: { label: 'Cut', sentence: 'The gateway was stopped before the end of the answer.', tone: 'bad' },
} as const satisfies Record<OutcomeName, object>

/** Every outcome, for lists to choose from. */
export const OUTCOME_NAMES = Object.keys(OUTCOMES) as readonly OutcomeName[]

/** How the charge was found; null while the request is in progress. */
export function sourceOf(source: string | null): string {
  if (source === null) return 'The charge is not known yet: the request is in progress.'
  return SOURCES[source] ?? `How the charge was found: ${spaced(source)}.`
}

const SOURCES: Readonly<Record<string, string>> = {
  reported: 'The model provider reported these tokens.',
  clamped:
    'The model provider reported more tokens than this request can have used. Only what is possible is charged; the house pays the rest.',
  estimated:
    'The model provider reported no usable figures, so the gateway charged what it counted while the answer passed.',
  estimated_low:
    'The answer ended early, and thinking that the model keeps to itself cannot be counted. What could be counted is charged; the true figure may be higher.',
  prompt_estimated:
    'The client left before anything of the answer had come. The model provider had been sent the prompt, so the prompt is charged, as the gateway estimates it.',
  insurance: 'The answer was empty, so nothing is charged, whatever the model provider bills.',
  released: 'Nothing usable was delivered, so nothing is charged and all of the money set aside is free again.',
  recovered:
    'The gateway stopped in the middle of the request. What its last note of the answer had counted is charged, and no more.',
  cached: 'The answer came from a cache; no model provider was asked.',
}
