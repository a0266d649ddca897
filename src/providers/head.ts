/** What can be said of an answer by its head alone: the same for chat and raw routes. */
import type { UpstreamFailure } from '#contract'

/** Error bodies beyond this are cut: what matters stands at their beginning. */
export const LARGEST_ERROR_BYTES = 64 * 1024
/** What is said of a `101 Switching Protocols`: nobody asked for it, so no answer can follow. */
export const SWITCHES = 'status 101: the provider switches to another protocol'
/** Informational (1xx) responses beyond this are an attack. */
export const MAX_INFORMATIONAL = 100

/**
 * What is wrong with an answer before its body was seen; null for a good head, and for an error whose body is to be read.
 *
 * @param headers with lower-case names
 * @param decodeError makes the failure of an error whose body cannot be read
 */
export function headFailure(
  status: number,
  headers: Readonly<Record<string, string>>,
  decodeError: (status: number, headers: Readonly<Record<string, string>>, body: Buffer) => UpstreamFailure,
): UpstreamFailure | null {
  const encoding = (headers['content-encoding'] ?? '').toLowerCase()
  if (encoding !== '' && encoding !== 'identity') {
    // An error says what it is by its status; its words are left unread.
    if (status >= 400) return decodeError(status, headers, Buffer.alloc(0))
    return {
      code: 'upstream_invalid',
      detail: `the answer is encoded (${encoding.slice(0, 100)}) though identity was asked for`,
    }
  }
  if (status >= 300 && status < 400) {
    return { code: 'upstream_error', detail: `status ${status}: redirects are not followed` }
  }
  if (status >= 400) return null
  if (status < 200) return { code: 'upstream_invalid', detail: status === 101 ? SWITCHES : `status ${status}` }
  const isHtml = (headers['content-type'] ?? '').toLowerCase().startsWith('text/html')
  return isHtml ? { code: 'upstream_invalid', detail: 'the answer is text/html' } : null
}
