/**
 * Characters that would act instead of being seen: on a terminal they move the cursor and change what was written, in a
 * line of text they turn it around or hide a part of it. Whatever comes from a client, a provider or a plugin passes here
 * before it stands in an error's message, a log line, the trail, or on a terminal.
 *
 * They are the control characters (C0, DEL, C1), line and paragraph separators, marks of direction (U+061C, U+200E/F,
 * U+202A-202E, U+2066-2069), and what has no width and no use in words: U+00AD, U+180E, U+200B, U+2060-2065, U+206A-206F, U+FEFF,
 * U+FFF9-FFFB and the tags (U+E0000-E007F). The joiners U+200C/D stay: Persian, Indic scripts and emoji are written with them.
 */
const BEYOND_C0 =
  '[\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb]|\\udb40[\\udc00-\\udc7f]'
const IN_TEXT = new RegExp(`[\\u0000-\\u001f]|${BEYOND_C0}`)
const ALL_IN_TEXT = new RegExp(IN_TEXT, 'g')
const IN_JSON = new RegExp(BEYOND_C0)
const ALL_IN_JSON = new RegExp(BEYOND_C0, 'g')

/** A text on one line, in which everything can be seen: `\u202e` in place of the character. A second time changes nothing. */
export function visible(text: string): string {
  return IN_TEXT.test(text) ? text.replace(ALL_IN_TEXT, escaped) : text
}

/** The same for JSON, whose values stay what they are. C0 is left alone: JSON escapes it, and has it between values only. */
export function visibleJson(json: string): string {
  return IN_JSON.test(json) ? json.replace(ALL_IN_JSON, escaped) : json
}

/** The same with one character for each, for text whose columns count. Tabs stay. */
export function inColumns(text: string): string {
  return text.replace(ALL_IN_TEXT, found => (found === '\t' ? found : '\ufffd'.repeat(found.length)))
}

/** As JSON writes them, so that the log knows a secret of several lines again. */
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
