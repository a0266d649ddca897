/**
 * The error codes and phrases of all providers, in one place for all dialects. A relay repeats the error of its own provider, and a
 * status alone is often wrong. Sources: the error pages of the providers that each row names, as of November 2026.
 */
import type { ErrorCode } from '#contract'

/** Values of an error's `code` or `type`, in lower case. */
const WORDS: ReadonlyMap<string, ErrorCode> = new Map(
  Object.entries({
    context_length_exceeded:
      // OpenAI, llama.cpp, relays, Z.ai.
      'context_length_exceeded exceed_context_size_error context_window_exceeded prompt_too_long input_too_long 1261',
    upstream_quota:
      // OpenAI, Anthropic, Moonshot, Alibaba, MiniMax, relays.
      'insufficient_quota insufficient_user_quota billing_error billing_not_active billing_hard_limit_reached ' +
      'exceeded_current_quota_error arrearage insufficient_balance insufficient_balance_error insufficient_credits ' +
      'insufficient_funds payment_required usage_limit_reached blocked_api_access ' +
      // Z.ai and MiniMax.
      '1113 1308 1309 1310 1008 2056',
    upstream_rate_limited:
      'rate_limit_exceeded rate_limit_reached_error rate_limited throttlingexception throttling ' +
      // Z.ai and MiniMax.
      '1302 1303 1304 1305 1312 1002 1039 1041',
    upstream_overloaded: 'engine_overloaded_error overloaded_error',
    content_filter:
      // OpenAI, Azure, Alibaba, Volcano, Moonshot, relays.
      'content_filter content_policy_violation moderation_blocked invalid_prompt responsibleaipolicyviolation ' +
      'data_inspection_failed datainspectionfailed inputtextsensitivecontentdetected sensitivecontentdetected ' +
      'safety_check_failed ' +
      // Z.ai and MiniMax.
      '1301 1026 1027',
    upstream_auth: 'invalid_api_key organization_restricted account_deactivated 1004 2049',
    model_not_found: 'model_not_found deploymentnotfound invalid_model model_not_exist 1211',
  } satisfies Partial<Record<ErrorCode, string>>).flatMap(([code, words]) =>
    words.split(' ').map(word => [word, code as ErrorCode] as const),
  ),
)

/** The meaning of a `code` or `type`; undefined if the status decides. */
export function meaningOfWord(word: string | null): ErrorCode | undefined {
  return word === null ? undefined : WORDS.get(word.toLowerCase())
}

/** The operator's money or quota is used up, and waiting for seconds does not help. */
const SPENT = new RegExp(
  [
    'insufficient[ _](?:account )?(?:balance|credits?|funds)|not enough credits?|requires more credits|out of credits',
    'credits? balance is too low|credits are depleted|included credits|have any credits|used all available credits',
    'specified api usage limits|usage limit (?:reached|exceeded)|weekly\\/monthly limit|exceeded your monthly',
    'spend(?:ing)?[ _-]limit|billing hard limit|no resource package|please recharge|in arrears|overdue payment',
  ].join('|'),
  'i',
)

/** A filter blocked the prompt or the answer. */
const FILTERED = new RegExp(
  [
    'content management policy|content filter(?:s|ing)?\\b|responsibleaipolicyviolation|data ?inspection ?failed',
    'inappropriate content|unsafe or sensitive content|content exists risk|considered high risk|new_sensitive',
    'prohibited content|violat(?:es?|ed|ing) (?:our|the|your|openai.?s)? ?(?:usage|content|safety) (?:polic|guideline)',
    'prompt was flagged|input was flagged|rejected by the safety system',
  ].join('|'),
  'i',
)

/** Google and xAI send 400 where others send 401. */
const BAD_KEY = /\bapi key (?:not valid|invalid|expired|not found)|\b(?:incorrect|invalid) api key/i
/** DeepSeek and OpenRouter send 400 where others send 404. */
const NO_MODEL = /\bmodel not exist\b|\bis not a valid model id\b/i

/**
 * The provider's own words at the beginning of a sentence. After a quote, a brace or an equals sign, and in the path of a member, it
 * repeats text of the client. That text must not take a credential out of rotation.
 */
export function ownWords(sentence: string): string {
  const [own = ''] = sentence.split(/(?<!\w)'|["`={[]/, 1)
  return own.replace(/^\w+(?:\.[^:]*)?:/, path => (path.includes('.') ? '' : path))
}

/** The meaning of a sentence, for any status; undefined if unknown. For overflows see `OVERFLOW`. */
export function meaningOfSentence(sentence: string | null): ErrorCode | undefined {
  if (sentence === null) return undefined
  const own = ownWords(sentence)
  if (BAD_KEY.test(own)) return 'upstream_auth'
  if (SPENT.test(own)) return 'upstream_quota'
  if (FILTERED.test(sentence)) return 'content_filter'
  return NO_MODEL.test(sentence) ? 'model_not_found' : undefined
}

/** Statuses for types of errors that come without one. */
const STATUSES: Readonly<Record<string, number>> = {
  // Anthropic and OpenAI.
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  timeout_error: 504,
  conflict_error: 409,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  rate_limited: 429,
  api_error: 500,
  overloaded_error: 529,
  // Google.
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
}

/** The status of an error inside a 200, by its type; null if the type is unknown. */
export function statusOfType(type: string | null): number | null {
  return type !== null && Object.hasOwn(STATUSES, type) ? STATUSES[type]! : null
}
