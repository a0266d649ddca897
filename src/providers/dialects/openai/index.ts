/**
 * The OpenAI dialect: the canonical format itself, so bytes pass through and only the changes are spliced in. These are model, output
 * cap and `stream_options` in the request, and model and unrequested usage in the answer. Compatible providers use the same dialect
 * with other URLs and quirks (quirks.ts).
 */
import type { AnswerView, ChatCompletion, DecodedAnswer, Dialect, UpstreamFailure } from '#contract'
import { shownUsage } from '../../../common/usage.ts'
import { errorDetails, failureInside, failureOf, isEmptyValue, isError, type Redact } from '../failure.ts'
import { scanTopLevel, setMembers } from '../json-splice.ts'
import { type AzurePlace, azureApi } from './azure.ts'
import { parseWithCalls } from './call-pieces.ts'
import { openAiCounting } from './count.ts'
import { restoreCustomCalls } from './custom-calls.ts'
import { quirksOf } from './hosts.ts'
import { plainAnswer } from './plain-answer.ts'
import type { Quirks } from './profile.ts'
import { type CompatibleName, OPENAI, PROFILES, type ProfileName, QUIRKS } from './quirks.ts'
import { isObject, repairCompletion, repairHead } from './repair.ts'
import { encodeBody } from './request.ts'
import { decodeOpenAiStream, type Fail } from './stream.ts'

export { type AzurePlace, azureHeaders } from './azure.ts'
export type { CompatibleName, ProfileName } from './quirks.ts'

/** How a compatible provider differs from OpenAI. */
interface Variant {
  readonly name: string
  readonly quirks?: Quirks | undefined
  /** Further headers of a request. */
  readonly headers?: Readonly<Record<string, string>>
  /** The path below the `base_url`. @param model the provider's name for it */
  path?(model: string): string
}

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact removes the gateway's own secrets from a provider's words
 * @param host host of the provider, which may determine the profile
 * @param profile profile of a provider that the host does not determine
 */
export function openAiDialect(now: () => number, redact?: Redact, host = '', profile?: ProfileName): Dialect {
  const quirks: Quirks = profile === undefined ? quirksOf(host) : PROFILES[profile]
  const dialect = dialectOf(now, redact, { name: 'openai', quirks })
  return quirks === OPENAI ? { ...dialect, counting: openAiCounting } : dialect
}

/** The dialect of a provider with a profile in quirks.ts. */
export function compatibleDialect(name: CompatibleName, now: () => number, redact?: Redact): Dialect {
  return dialectOf(now, redact, { name, quirks: QUIRKS[name] })
}

export function azureDialect(now: () => number, redact: Redact | undefined, place: AzurePlace): Dialect {
  return dialectOf(now, redact, { name: 'azure', ...azureApi(place) })
}

function dialectOf(
  now: () => number,
  redact: Redact | undefined,
  { name, quirks, headers = {}, path = () => '/chat/completions' }: Variant,
): Dialect {
  const requestHeaders = {
    whole: { ...headers, accept: 'application/json' },
    stream: { ...headers, accept: 'text/event-stream' },
  }
  const fail: Fail = (status, answered, details) => failureOf(status, answered, details, now(), redact)
  return {
    name,
    encodeRequest: (chat, target, spans) => ({
      path: path(target.model),
      headers: chat.stream ? requestHeaders.stream : requestHeaders.whole,
      ...encodeBody(chat, target, quirks, spans),
    }),
    decodeAnswer: (body, view) => decodeAnswer(body, view, fail, quirks),
    decodeStream: view => decodeOpenAiStream(view, fail, quirks?.customTools && view.customTools),
    decodeError: (status, answered, body) => fail(status, answered, errorDetails(body)),
  }
}

function decodeAnswer(
  bytes: Buffer,
  view: AnswerView,
  fail: Fail,
  quirks: Quirks | undefined,
): DecodedAnswer | { readonly failure: UpstreamFailure } {
  const body = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? bytes.subarray(3) : bytes
  const invalid = (detail: string) => ({ failure: { code: 'upstream_invalid' as const, detail } })
  if (body.length === 0) return invalid('the answer is empty')
  // The identity is read from a parsed answer.
  const plain = view.identity ? null : plainAnswer(body, view)
  if (plain !== null) return plain
  let parsed: unknown
  try {
    parsed = parseWithCalls(body.toString('utf8'))
  } catch {
    return invalid('the answer is not JSON')
  }
  if (typeof parsed !== 'object' || parsed === null) return invalid('the answer is not an object')
  const { error, choices } = parsed as { error?: unknown; choices?: unknown }
  if (!isEmptyValue(error) || (!Array.isArray(choices) && isError(parsed)))
    return { failure: failureInside(parsed, fail) }
  if (!Array.isArray(choices) || choices.length === 0 || !choices.every(isChoice)) {
    return invalid('the answer has no choices')
  }
  const completion = parsed as ChatCompletion
  if (view.identity) Object.assign(view.identity, { id: completion.id, model: completion.model })
  const { isChanged, failure } = repairCompletion(completion, view)
  if (failure !== null) return { failure }
  const isCustom = quirks?.customTools !== undefined && restoreCustomCalls(completion, view)
  const changes = headChanges(completion, view)
  const spans = isChanged || isCustom ? null : scanTopLevel(body)
  return { completion, raw: spans ? setMembers(body, spans, changes) : null }
}

/** Changes members of the outermost object. Returns the same changes as JSON texts. */
function headChanges(completion: ChatCompletion, view: AnswerView): Record<string, string | undefined> {
  const changes: Record<string, string | undefined> = { model: JSON.stringify(view.model) }
  completion.model = view.model
  repairHead(completion, { id: view.exchange, object: 'chat.completion', created: view.createdAt }, changes)
  const usage = shownUsage(completion.usage)
  if (usage !== null && usage !== completion.usage) {
    completion.usage = usage
    changes['usage'] = JSON.stringify(usage)
  }
  return changes
}

/** A choice without a message is valid: a filter removed it and left the finish reason. */
function isChoice(value: unknown): boolean {
  if (!isObject(value)) return false
  const { message } = value as { message?: unknown }
  return message == null || isObject(message)
}
