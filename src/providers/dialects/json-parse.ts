/** Parses a request's body. It is scanned first, because `JSON.parse` has no limits. */
import { refuse, type Sliced } from '#contract'
import { parseRequest } from './json-exact.ts'
import { SCAN_LIMITS, scanJson } from './json-scan.ts'

/**
 * Throws the refusal `invalid_json`, `request_too_complex` or `unknown_parameter`.
 *
 * @param spans empty; filled as by `scanJson`
 */
export function parseJson(bytes: Buffer, spans?: number[]): unknown {
  const hasUsualNumbers = scan(bytes, spans)
  return parse(bytes.toString('utf8'), hasUsualNumbers)
}

/**
 * The same for a long body, in slices. Scanning, decoding and parsing take about a nanosecond a byte each; other work runs between
 * them.
 */
export function* parseInSlices(bytes: Buffer, spans?: number[]): Sliced<unknown> {
  yield
  const hasUsualNumbers = scan(bytes, spans)
  yield
  const text = bytes.toString('utf8')
  yield
  const value = parse(text, hasUsualNumbers)
  yield
  return value
}

/** Scans the body. Returns whether `JSON.stringify` would write all of its numbers in the same way. */
function scan(bytes: Buffer, spans?: number[]): boolean {
  if (bytes.length === 0) throw refuse('invalid_json', { message: 'The body is empty; it must be a JSON object.' })
  const scanned = scanJson(bytes, SCAN_LIMITS, spans)
  if (scanned.ok) return scanned.hasUsualNumbers
  const { code, message, param } = scanned.problem
  throw refuse(code, { message, param })
}

function parse(text: string, hasUsualNumbers: boolean): unknown {
  try {
    return parseRequest(text, hasUsualNumbers)
  } catch (cause) {
    throw refuse('invalid_json', { cause })
  }
}
