/** Command lines that people paste. */

/** As one word for a POSIX shell. */
export function quoted(text: string): string {
  return /^[\w.,:/@+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
