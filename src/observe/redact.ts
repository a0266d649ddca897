/**
 * Keeps secrets out of the log: the last pass over a finished line. Nearly all lines contain none, so one expression searches the whole
 * line first. A line that may contain a secret is parsed again, and each text in it, names included, is cleaned by itself.
 */

import { visible, visibleJson } from '#contract'

/** The replacement of a secret. */
export const REDACTED = '[secret]'

export interface Redactor {
  /** A JSON line without secrets; it stays one valid line. */
  line(json: string): string
  /**
   * A text that is not JSON.
   * @param isBroken whether its end may be missing: then a beginning of a known secret there goes too
   */
  text(text: string, isBroken?: boolean): string
  /** Further secrets, such as those of a configuration that was loaded later. The old ones stay. */
  learn(secrets: readonly string[]): void
}

/** A shorter secret would be found in every other word. */
const MIN_SECRET = 8
/** A shorter beginning of a secret says nothing of it, and many words end so. */
const MIN_BEGINNING = 4

/**
 * Secrets by their form: keys and tokens of the gateway and parts of them, and keys in the format of OpenAI or Google. Credentials in a
 * header or a URL too. A second pass changes nothing.
 */
const PATTERNS: readonly (readonly [RegExp, string])[] = [
  [/tg_(?:live|oper)_[0-9A-Za-z]+/g, REDACTED],
  [/(?<![0-9A-Za-z])(?:sk|gsk|xai)[-_][0-9A-Za-z_*-]{6,}/g, REDACTED],
  [/AIza[0-9A-Za-z_-]{10,}/g, REDACTED],
  [/\b(bearer)\s+[^\s"'`,;[]{6,}/gi, `$1 ${REDACTED}`],
  [/\b([Bb]asic)\s+(?=\S*[0-9A-Z=])[0-9A-Za-z+/]{6,}={0,2}/g, `$1 ${REDACTED}`],
  [/((?:key|token|secret|password|signature)=)[^\s"'`,;&[]+/gi, `$1${REDACTED}`],
]

/** Found in every text in which a pattern could match; it may find too much, which costs a little time. */
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
    // The longest first: a secret that begins like another must not leave the other's end behind.
    const forms = [...known].sort((one, other) => other.length - one.length)
    exact = new RegExp(forms.map(escapePattern).join('|'), 'g')
    const inJson = forms.map(form => escapePattern(escapeJson(form)))
    suspicious = new RegExp(`${inJson.join('|')}|${SUSPICIOUS}`, 'i')
  }
  learn(secrets)
  // JSON may contain half of a surrogate pair with or without an escape (pino on Node 24 writes none). `suspicious` matches only the
  // escape.
  const line = (json: string) =>
    visibleJson(suspicious.test(json) || !json.isWellFormed() ? cleanLine(json, text) : json)
  return { text, learn, line }
}

/** Without a piece at the end that is the beginning of one of these, if there is one. */
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

/** The forms of a secret: unchanged, without its scheme (`Bearer …`), in quoted JSON (some escape slashes), in an error's message, in a URL. */
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
    // It may hold a secret and cannot be cleaned: that something was logged is all that may be said.
    return '{"level":"error","msg":"a log line may have held a secret and could not be cleaned, so it was left out"}\n'
  }
}

function cleanValue(value: unknown, clean: (text: string) => string): unknown {
  if (typeof value === 'string') return clean(value)
  if (Array.isArray(value)) return value.map(each => cleanValue(each, clean))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [clean(name), cleanValue(each, clean)]))
}
