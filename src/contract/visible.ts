/**
 * Escapes characters that act instead of being shown. On a terminal they move the cursor and change earlier output; in a line of text
 * they reverse or hide a part of it. Text of clients, providers and plugins is escaped before it reaches an error message, a log line,
 * the trail, or a terminal.
 *
 * They are control characters (C0, DEL, C1), line and paragraph separators, and direction marks (U+061C, U+200E/F, U+202A-202E,
 * U+2066-2069). They also include characters that have no width and no use in words: U+00AD, U+180E, U+200B, U+2060-2065, U+206A-206F,
 * U+FEFF, U+FFF9-FFFB and the tags (U+E0000-E007F). The joiners U+200C/D stay: Persian, Indic scripts and emoji need them.
 */
const BEYOND_C0 =
  '[\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]|\\udb40[\\udc00-\\udc7f]'
const IN_TEXT = new RegExp(`[\\u0000-\\u001f]|${BEYOND_C0}`)
const ALL_IN_TEXT = new RegExp(IN_TEXT, 'g')
const IN_JSON = new RegExp(BEYOND_C0)
const ALL_IN_JSON = new RegExp(BEYOND_C0, 'g')

/** Returns a text on one line in which every character is visible: `\u202e` replaces the character. Idempotent. */
export function visible(text: string): string {
  return IN_TEXT.test(text) ? text.replace(ALL_IN_TEXT, escaped) : text
}

/** The same for JSON; its values stay the same. C0 is skipped: JSON escapes it in strings, and has it otherwise only between values. */
export function visibleJson(json: string): string {
  return IN_JSON.test(json) ? json.replace(ALL_IN_JSON, escaped) : json
}

/** Replaces each character by one other, for text whose columns count. Tabs stay. */
export function inColumns(text: string): string {
  return text.replace(ALL_IN_TEXT, found => (found === '\t' ? found : '\ufffd'.repeat(found.length)))
}

/** Short escapes as in JSON, so that the log recognizes a multi-line secret. */
const SHORT: Readonly<Record<string, string>> = {
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
}

function escaped(found: string): string {
  const unit = (at: number) => `\\u${found.charCodeAt(at).toString(16).padStart(4, '0')}`
  return SHORT[found] ?? (found.length === 2 ? unit(0) + unit(1) : unit(0))
}
