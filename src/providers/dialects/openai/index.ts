/**
 * The OpenAI dialect: the canonical format itself, so bytes pass, and only what must change is spliced: in the request
 * the model, the output cap and `stream_options`; in the answer the model, and usage that the client did not ask for.
 * Its relatives are the same dialect with other addresses and with quirks (quirks.ts).
 */
import type { AnswerView, ChatCompletion, DecodedAnswer, Dialect, UpstreamFailure } from '#contract'
import { shownUsage } from '../../../common/usage.ts'
import { errorDetails, failureInside, failureOf, isError, type Redact, saysNothing } from '../failure.ts'
import { scanTopLevel, setMembers } from '../json-splice.ts'
import { type AzurePlace, azureApi } from './azure.ts'
import { parseWithCalls } from './call-pieces.ts'
import { openAiCounting } from './count.ts'
import { callsBack } from './custom-calls.ts'
import { quirksOf } from './hosts.ts'
import { plainAnswer } from './plain-answer.ts'
import type { Quirks } from './profile.ts'
import { OPENAI, PROFILES, type ProfileName, QUIRKS, type RelativeName } from './quirks.ts'
import { isObject, repairCompletion, repairHead } from './repair.ts'
import { encodeBody } from './request.ts'
import { decodeOpenAiStream, type Fail } from './stream.ts'

export { type AzurePlace, azureHeaders } from './azure.ts'
export type { ProfileName, RelativeName } from './quirks.ts'

/** How one of the family differs from OpenAI itself. */
interface Manners {
  readonly name: string
  readonly quirks?: Quirks | undefined
  /** Further headers of a request. */
  readonly headers?: Readonly<Record<string, string>>
  /** Below the `base_url`. @param model the provider's name for it */
  path?(model: string): string
}

/**
 * @param now milliseconds since the epoch, for a Retry-After that is a date
 * @param redact takes the gateway's own secrets out of what a provider says
 * @param host of the provider, by which a relative may be known
 * @param profile of a relative that is not known by its host
 */
export function openAiDialect(now: () => number, redact?: Redact, host = '', profile?: ProfileName): Dialect {
  const quirks: Quirks = profile === undefined ? quirksOf(host) : PROFILES[profile]
  const dialect = dialectOf(now, redact, { name: 'openai', quirks })
  return quirks === OPENAI ? { ...dialect, counting: openAiCounting } : dialect
}

/** A relative: see quirks.ts. */
export function relativeDialect(name: RelativeName, now: () => number, redact?: Redact): Dialect {
  return dialectOf(now, redact, { name, quirks: QUIRKS[name] })
}

export function azureDialect(now: () => number, redact: Redact | undefined, place: AzurePlace): Dialect {
  return dialectOf(now, redact, { name: 'azure', ...azureApi(place) })
}

function dialectOf(
  now: () => number,
  redact: Redact | undefined,
  { name, quirks, headers = {}, path = () => '/chat/completions' }: Manners,
): Dialect {
  const asked = {
    whole: { ...headers, accept: 'application/json' },
    stream: { ...headers, accept: 'text/event-stream' },
  }
  const fail: Fail = (status, answered, details) => failureOf(status, answered, details, now(), redact)
  return {
    name,
    encodeRequest: (chat, target, spans) => ({
      path: path(target.model),
      headers: chat.stream ? asked.stream : asked.whole,
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
  // The identity needs a parsed answer.
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
  if (!saysNothing(error) || (!Array.isArray(choices) && isError(parsed)))
    return { failure: failureInside(parsed, fail) }
  if (!Array.isArray(choices) || choices.length === 0 || !choices.every(isChoice)) {
    return invalid('the answer has no choices')
  }
  const completion = parsed as ChatCompletion
  if (view.identity) Object.assign(view.identity, { id: completion.id, model: completion.model })
  const { isChanged, failure } = repairCompletion(completion, view)
  if (failure !== null) return { failure }
  const isCustom = quirks?.customTools !== undefined && callsBack(completion, view)
  const changes = headChanges(completion, view)
  const spans = isChanged || isCustom ? null : scanTopLevel(body)
  return { completion, raw: spans ? setMembers(body, spans, changes) : null }
}

/** Writes what differs in the outermost object into the answer. Returns the same as JSON texts. */
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

/** A choice without a message is real: a filter took it away and left the finish reason. */
function isChoice(value: unknown): boolean {
  if (!isObject(value)) return false
  const { message } = value as { message?: unknown }
  return message == null || isObject(message)
}
