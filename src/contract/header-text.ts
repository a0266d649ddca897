/** Texts of request headers. Node.js decodes header bytes as Latin-1, but clients send UTF-8. */

const BEYOND_ASCII = /[\u0080-\u00ff]/
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The text that a client sent in a header; null: its bytes are not UTF-8.
 *
 * @param value the value in Node.js or Koa
 */
export function headerText(value: string): string | null {
  if (!BEYOND_ASCII.test(value)) return value
  try {
    return UTF8.decode(Buffer.from(value, 'latin1'))
  } catch {
    return null
  }
}

/** The reverse: encodes a text as Node.js represents it in a header. */
export const headerBytes = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')
