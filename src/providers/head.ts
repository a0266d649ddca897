/** Checks of a response head, shared by chat and raw routes. */
import type { UpstreamFailure } from '#contract'

/** Larger error bodies are cut: the important part is at the beginning. */
export const LARGEST_ERROR_BYTES = 64 * 1024
/** The failure detail for `101 Switching Protocols`. The gateway never asks for it, so no answer can follow. */
export const SWITCHES = 'status 101: the provider switches to another protocol'
/** More informational (1xx) responses than this are an attack. */
export const MAX_INFORMATIONAL = 100

/**
 * The failure that a head shows before the body is read. Null for a good head, and for an error whose body is to be read.
 *
 * @param headers with lower-case names
 * @param decodeError decodes an error whose body cannot be read
 */
export function headFailure(
  status: number,
  headers: Readonly<Record<string, string>>,
  decodeError: (status: number, headers: Readonly<Record<string, string>>, body: Buffer) => UpstreamFailure,
): UpstreamFailure | null {
  const encoding = (headers['content-encoding'] ?? '').toLowerCase()
  if (encoding !== '' && encoding !== 'identity') {
    // An encoded error body is not read: the status is enough.
    if (status >= 400) return decodeError(status, headers, Buffer.alloc(0))
    return {
      code: 'upstream_invalid',
      detail: `the answer is encoded (${encoding.slice(0, 100)}), but identity was requested`,
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
