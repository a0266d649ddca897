/** Quotes a text as one word for a POSIX shell, for command lines to paste. */
export function quoted(text: string): string {
  return /^[\w.,:/@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
