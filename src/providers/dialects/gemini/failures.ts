/** Google's errors (google.rpc.Status) in the gateway's words. */
import type { UpstreamFailure } from '#contract'
import { type ErrorDetails, failureInside, failureOf, type Redact } from '../failure.ts'
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
    return failureOf(statusOf(status, said, details), headers, said, now(), clean)
  }
}

/** The failure of an error inside a 200. */
export function failedInside(parsed: unknown, fail: Fail): UpstreamFailure {
  return failureInside(parsed, (status, headers, said) => fail(status, headers, said, parsed))
}

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
