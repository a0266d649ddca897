/** Maps Google's errors (google.rpc.Status) to the gateway's. */
import type { UpstreamFailure } from '#contract'
import { type ErrorDetails, failureInside, failureOf, type Redact } from '../failure.ts'
import { isFields } from './candidate.ts'

/** Makes the failure of a status, headers with lower-case names, the error's details, and the parsed body if it is JSON. */
export type Fail = (
  status: number,
  headers: Readonly<Record<string, string>>,
  details: ErrorDetails,
  parsed: unknown,
) => UpstreamFailure

export function failures(now: () => number, redact: Redact = text => text): Fail {
  // Vertex names the operator's project in its sentences, which is private.
  const clean: Redact = text => redact(text).replace(/\bprojects\/[\w.:-]+/g, 'projects/[hidden]')
  return (status, headers, details, parsed) => {
    const infos = errorInfosIn(parsed)
    return failureOf(statusOf(status, details, infos), headers, details, now(), clean)
  }
}

/** The failure of an error inside a 200. */
export function failedInside(parsed: unknown, fail: Fail): UpstreamFailure {
  return failureInside(parsed, (status, headers, details) => fail(status, headers, details, parsed))
}

/** Two 400s that are not the client's mistake: a bad key, and a project or location that Google does not serve. */
function statusOf(status: number, { type }: ErrorDetails, details: readonly unknown[]): number {
  if (status !== 400) return status
  if (type === 'FAILED_PRECONDITION') return 403
  const isKey = details.some(detail => isFields(detail) && String(detail['reason']).startsWith('API_KEY_'))
  return isKey ? 401 : 400
}

function errorInfosIn(parsed: unknown): readonly unknown[] {
  const value = Array.isArray(parsed) ? parsed[0] : parsed
  const error = isFields(value) ? value['error'] : null
  const details = isFields(error) ? error['details'] : null
  return Array.isArray(details) ? details : []
}
