/**
 * The redactor: removes secrets from finished log lines. Nearly all lines have none, so one expression first searches the
 * whole line. A line that may have a secret is parsed again, and each of its texts, names included, is cleaned separately.
 */

import { visible, visibleJson } from '#contract'

/** The replacement of a secret. */
export const REDACTED = '[secret]'

export interface Redactor {
  /** Removes secrets from a JSON line; the result is one valid line. */
  line(json: string): string
  /**
   * Removes secrets from a text that is not JSON.
   * @param isBroken whether its end may be missing: then the beginning of a known secret at its end is removed too
   */
  text(text: string, isBroken?: boolean): string
  /** Adds secrets, such as those of a new configuration. The old ones stay. */
  learn(secrets: readonly string[]): void
}

/** Shorter secrets would match parts of words. */
const MIN_SECRET = 8
/** A shorter beginning of a secret reveals nothing, and many words end with it. */
const MIN_BEGINNING = 4

/**
 * Formats of secrets: keys and tokens of Tollgate or pieces of them, keys of OpenAI, compatible vendors and Google, and
 * credentials in headers or URLs. Replacing twice gives the same text.
 */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/tg_(?:live|oper)_[0-9A-Za-z]+/g, REDACTED],
  [/(?<![0-9A-Za-z])(?:sk|gsk|xai)[-_][0-9A-Za-z_*-]{6,}/g, REDACTED],
  [/AIza[0-9A-Za-z_-]{10,}/g, REDACTED],
  [/\b(bearer)\s+[^\s"'`,;[]{6,}/gi, `$1 ${REDACTED}`],
  [/\b([Bb]asic)\s+(?=\S*[0-9A-Z=])[0-9A-Za-z+/]{6,}={0,2}/g, `$1 ${REDACTED}`],
  [/((?:key|token|secret|password|signature)=)[^\s"'`,;&[]+/gi, `$1${REDACTED}`],
]

/** Matches every text in which a pattern could match. False positives only cost a little time. */
const SUSPICIOUS = 'tg_live_|tg_oper_|sk[-_]|xai[-_]|aiza|bearer|basic|key=|token=|secret=|password=|signature='
const LOOK = new RegExp(SUSPICIOUS, 'i')

export function createRedactor(secrets: readonly string[]): Redactor {
  const known = new Set<string>()
  let exact: RegExp | null = null
  let suspicious = new RegExp(SUSPICIOUS, 'i')

  const text = (value: string, isBroken = false): string => {
    let clean = exact === null ? value : value.replace(exact, REDACTED)
    if (isBroken) clean = withoutBeginning(clean, known)
    if (LOOK.test(clean)) for (const [pattern, replacement] of PATTERNS) clean = clean.replace(pattern, replacement)
    return clean
  }
  const learn = (more: readonly string[]): void => {
    for (const secret of more) for (const form of formsOf(secret)) known.add(form)
    if (known.size === 0) return
    // Longest first: a secret that is a prefix of another must not leave the rest of it.
    const forms = [...known].sort((one, other) => other.length - one.length)
    exact = new RegExp(forms.map(escapePattern).join('|'), 'g')
    const inJson = forms.map(form => escapePattern(escapeJson(form)))
    suspicious = new RegExp(`${inJson.join('|')}|${SUSPICIOUS}`, 'i')
  }
  learn(secrets)
  // JSON may have half of a surrogate pair escaped or raw (pino on Node 24 writes it raw). `suspicious` finds only the escape.
  const line = (json: string) =>
    visibleJson(suspicious.test(json) || !json.isWellFormed() ? cleanLine(json, text) : json)
  return { text, learn, line }
}

/** Removes the beginning of a secret at the end of a text. */
function withoutBeginning(text: string, secrets: Iterable<string>): string {
  let end = text.length
  for (const secret of secrets) {
    const first = secret.slice(0, MIN_BEGINNING)
    let at = text.indexOf(first, Math.max(0, text.length - secret.length))
    while (at !== -1 && at < end) {
      if (secret.startsWith(text.slice(at))) end = at
      else at = text.indexOf(first, at + 1)
    }
  }
  return text.slice(0, end)
}

/**
 * Forms of a secret: raw, without its scheme (`Bearer …`), quoted in JSON (some escape slashes), in the message
 * of an error, in a URL.
 */
function formsOf(secret: string): string[] {
  const trimmed = secret.trim()
  const credential = /^\S+\s+(\S+)$/.exec(trimmed)?.[1] ?? ''
  const url = encodeURIComponent(trimmed.toWellFormed())
  const json = escapeJson(trimmed)
  const forms = [secret, trimmed, credential, json, json.replaceAll('/', '\\/'), visible(trimmed), url]
  return forms.filter(form => form.length >= MIN_SECRET)
}

function escapeJson(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')
}

function cleanLine(json: string, clean: (text: string) => string): string {
  try {
    return `${JSON.stringify(cleanValue(JSON.parse(json), clean))}\n`
  } catch {
    // The line may have a secret and cannot be cleaned, so only this may be logged.
    return '{"level":"error","msg":"a log line that may contain a secret could not be cleaned and was dropped"}\n'
  }
}

function cleanValue(value: unknown, clean: (text: string) => string): unknown {
  if (typeof value === 'string') return clean(value)
  if (Array.isArray(value)) return value.map(each => cleanValue(each, clean))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [clean(name), cleanValue(each, clean)]))
}
