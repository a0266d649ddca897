/** Google's errors (google.rpc.Status) in the gateway's words. */
import type { UpstreamFailure } from '#contract'
import { type ErrorDetails, failureOf, type Redact } from '../failure.ts'
import { isFields } from './candidate.ts'

/** Makes the failure of a status, headers with lower-case names, what was found, and the parsed body if it is JSON. */
export type Fail = (
  status: number,
  headers: Readonly<Record<string, string>>,
  said: ErrorDetails,
  parsed: unknown,
) => UpstreamFailure

export function failures(now: () => number, redact: Redact = text => text): Fail {
  // Vertex names the project in its sentences, and that is nobody's business.
  const clean: Redact = text => redact(text).replace(/\bprojects\/[\w.:-]+/g, 'projects/[hidden]')
  return (status, headers, said, parsed) => {
    const details = detailsIn(parsed)
    const wait = waitOf(details)
    const headersWithWait = wait === null ? headers : { 'retry-after-ms': String(wait), ...headers }
    return failureOf(statusOf(status, said, details), headersWithWait, said, now(), clean)
  }
}

/** An error inside of a 200: its numeric `code` is the status that it should have had. */
export function statusIn({ code, type }: ErrorDetails): number {
  const status = Number(code)
  if (Number.isInteger(status) && status >= 400 && status <= 599) return status
  return STATUSES.get(type ?? '') ?? 500
}

const STATUSES: ReadonlyMap<string, number> = new Map([
  ['INVALID_ARGUMENT', 400],
  ['FAILED_PRECONDITION', 400],
  ['UNAUTHENTICATED', 401],
  ['PERMISSION_DENIED', 403],
  ['NOT_FOUND', 404],
  ['RESOURCE_EXHAUSTED', 429],
  ['UNAVAILABLE', 503],
  ['DEADLINE_EXCEEDED', 504],
])

/** Two 400s that are no mistake of the client's: a bad key, and a project or place that Google does not serve. */
function statusOf(status: number, { type }: ErrorDetails, details: readonly unknown[]): number {
  if (status !== 400) return status
  if (type === 'FAILED_PRECONDITION') return 403
  const isKey = details.some(detail => isFields(detail) && String(detail['reason']).startsWith('API_KEY_'))
  return isKey ? 401 : 400
}

function detailsIn(parsed: unknown): readonly unknown[] {
  const value = Array.isArray(parsed) ? parsed[0] : parsed
  const error = isFields(value) ? value['error'] : null
  const details = isFields(error) ? error['details'] : null
  return Array.isArray(details) ? details : []
}

/** `RetryInfo` stands in for a Retry-After header, which Google does not send: `"37s"`, `"0.5s"`. */
function waitOf(details: readonly unknown[]): number | null {
  for (const detail of details) {
    if (!isFields(detail) || typeof detail['retryDelay'] !== 'string') continue
    const [, seconds] = /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(detail['retryDelay']) ?? []
    if (seconds !== undefined) return Math.ceil(Number(seconds) * 1000)
  }
  return null
}
