/** Texts of request headers. Node.js reads their bytes as Latin-1, and clients send UTF-8. */

const BEYOND_ASCII = /[\u0080-\u00ff]/
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The text that a client sent in a header; null: its bytes are not UTF-8.
 *
 * @param value as Node.js or Koa has it
 */
export function headerText(value: string): string | null {
  if (!BEYOND_ASCII.test(value)) return value
  try {
    return UTF8.decode(Buffer.from(value, 'latin1'))
  } catch {
    return null
  }
}

/** The opposite: a text as Node.js has it in a header. */
export const headerBytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')
