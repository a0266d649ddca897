/**
 * The demo's tokenizer: a word with the white space before it, in pieces of at most four bytes.
 *
 * Such small pieces make the count at least a quarter of the UTF-8 bytes, and each piece is one delta. A client that counts
 * the deltas of a broken stream, or a quarter of its bytes, gets the count that the demo would have billed.
 */

const PIECE_BYTES = 4

export function countTokens(text: string): number {
  let count = 0
  eachPiece(text, () => count++)
  return count
}

/** The tokens of a text; joined they are the text. No code point is split. */
export function splitTokens(text: string): string[] {
  const tokens: string[] = []
  eachPiece(text, (start, end) => tokens.push(text.slice(start, end)))
  return tokens
}

function eachPiece(text: string, take: (start: number, end: number) => void): void {
  let start = 0
  let bytes = 0
  let inSpace = false
  for (let at = 0; at < text.length; ) {
    const point = text.codePointAt(at)!
    const width = utf8Width(point)
    const space = isSpace(point)
    const newWord = space && !inSpace
    if (bytes > 0 && (newWord || bytes + width > PIECE_BYTES)) {
      take(start, at)
      start = at
      bytes = 0
    }
    bytes += width
    inSpace = space
    at += point > 0xffff ? 2 : 1
  }
  if (start < text.length) take(start, text.length)
}

function utf8Width(point: number): number {
  if (point < 0x80) return 1
  if (point < 0x800) return 2
  return point < 0x10000 ? 3 : 4
}

function isSpace(point: number): boolean {
  return point === 0x20 || (point >= 0x09 && point <= 0x0d)
}
