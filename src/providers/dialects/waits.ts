/** Reads how long a provider wants clients to wait: from headers, from members of the error, or from its sentence. */

/** The longest wait that is passed on; a longer one is cut to this. Clients do not wait that long. */
const MAX_WAIT_MS = 600_000
/** A spent quota is restored within a month at the latest. */
const MAX_REST_MS = 32 * 86_400_000

const NUMBER = /^\d{1,12}(?:\.\d{1,9})?$/

const within = (waitMs: number) => Math.min(Math.ceil(waitMs), MAX_WAIT_MS)

/** `retry-after-ms`, or `Retry-After` in seconds or as a date (RFC 9110 10.2.3), also with fractions. Invalid values are ignored. */
export function retryAfterOf(headers: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const exact = headers['retry-after-ms']
  if (exact !== undefined && NUMBER.test(exact)) return within(Number(exact))
  const text = headers['retry-after']
  if (text === undefined) return undefined
  if (NUMBER.test(text)) return within(Number(text) * 1000)
  const date = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} /.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(date) ? undefined : within(Math.max(date - nowMs, 0))
}

/** Google's `RetryInfo` among an error's details (`"37s"`, `"0.5s"`). */
export function waitInDetails(details: unknown): number | undefined {
  if (!Array.isArray(details)) return undefined
  for (const detail of details as readonly ({ readonly retryDelay?: unknown } | null)[]) {
    const [, seconds] = /^(\d{1,6}(?:\.\d{1,9})?)s$/.exec(String(detail?.retryDelay)) ?? []
    if (seconds !== undefined) return within(Number(seconds) * 1000)
  }
  return undefined
}

const COUNT = String.raw`(\d{1,6}(?:\.\d{1,9})?)\s*`
const WAIT = new RegExp(
  String.raw`\b(?:try again|retry|wait)\b[^.\d]{0,40}(?=\d)` +
    `(?:${COUNT}h(?:ours?)?(?![a-z])[\\s,]*)?(?:${COUNT}m(?:in(?:ute)?s?)?(?![a-z])[\\s,]*)?` +
    `(?:${COUNT}(ms|milliseconds?|s(?:ec(?:ond)?s?)?)(?![a-z]))?`,
  'i',
)

/** Some providers without the header have it in the sentence: `Please try again in 7m12s`, `6ms`, `retry after 26 seconds`. */
export function waitInWords(message: string | null): number | undefined {
  const match = WAIT.exec(message ?? '')
  if (match === null) return undefined
  const [, hours = '0', minutes = '0', rest = '0', unit = 's'] = match
  const restMs = Number(rest) * (unit.toLowerCase().startsWith('m') ? 1 : 1000)
  const waitMs = (Number(hours) * 60 + Number(minutes)) * 60_000 + restMs
  return waitMs === 0 ? undefined : within(waitMs)
}

/** Anthropic's sentence. It must be at the beginning: anywhere else it may be the client's words. */
const BACK_AT =
  /^You have reached your specified API usage limits\. You will regain access on (\d{4}-\d{2}-\d{2}) at (\d{2}:\d{2}) UTC/

/** Milliseconds until a spent quota is restored, if the provider says when. */
export function restInWords(message: string | null, nowMs: number): number | undefined {
  const [, day, time] = BACK_AT.exec(message ?? '') ?? []
  if (day === undefined) return undefined
  const restMs = Date.parse(`${day}T${time}:00Z`) - nowMs
  return restMs > 0 ? Math.min(restMs, MAX_REST_MS) : undefined
}
