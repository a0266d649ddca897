/** Maps an index in a parsed text to the file: quotes, escapes, folding and indentation make them differ. */
import type { Scalar } from 'yaml'

/**
 * The offset in `text` of the character at `index` of the scalar's value. Both are read in parallel: a run of white space
 * matches a run, an escape matches one character.
 */
export function indexInFile(text: string, node: Scalar, index: number): number {
  const value = String(node.value)
  const [start, end] = node.range ?? [0, 0]
  const quoted = node.type === 'QUOTE_DOUBLE' || node.type === 'QUOTE_SINGLE'
  const block = isBlock(node)
  let at = quoted ? start + 1 : block ? skipSpace(text, text.indexOf('\n', start), end) : start
  // In the file, the leading empty lines of a block text were skipped above.
  let i = block ? spaceAt(value, 0) : 0
  while (at < end) {
    if (node.type === 'QUOTE_DOUBLE' && /^\\\r?\n/.test(text.slice(at, at + 3))) {
      // An escaped line break: neither the break nor the blanks after it are part of the value.
      at = skipSpace(text, at + 1, end)
    } else if (i >= Math.min(index, value.length)) {
      break
    } else if (isSpace(value[i]) && isSpace(text[at])) {
      // A run within a line has the same length in the file, so an index inside it is exact.
      const run = /^[^\S\n]*?(?=\r?\n|\S|$)/.exec(text.slice(at, end))![0].length
      if (/^\r?\n/.test(text.slice(at + run, at + run + 2))) {
        const after = skipSpace(text, at, end)
        i += block ? spaceAt(value, i) : foldedLength(text.slice(at, after))
        at = after
      } else {
        const length = Math.min(run, index - i) || 1
        at += length
        i += length
      }
    } else {
      at += escapeLength(text, at, node.type)
      i++
    }
  }
  return Math.min(at, Math.max(start, end - 1))
}

function isBlock(node: Scalar): boolean {
  return node.type === 'BLOCK_LITERAL' || node.type === 'BLOCK_FOLDED'
}

function isSpace(char: string | undefined): boolean {
  return char === ' ' || char === '\n' || char === '\r' || char === '\t'
}

function skipSpace(text: string, from: number, end: number): number {
  let at = from
  while (at < end && /\s/.test(text[at]!)) at++
  return at
}

function spaceAt(text: string, from: number): number {
  return /^\s*/.exec(text.slice(from))![0].length
}

/** The length of a folded run in the value: one blank, or all line breaks except the first. */
function foldedLength(run: string): number {
  return Math.max(1, run.split('\n').length - 2)
}

const HEX_ESCAPES: Record<string, number> = { x: 4, u: 6, U: 10 }

function escapeLength(text: string, at: number, type: Scalar['type']): number {
  if (type === 'QUOTE_SINGLE' && text.startsWith("''", at)) return 2
  if (type === 'QUOTE_DOUBLE' && text[at] === '\\') return HEX_ESCAPES[text[at + 1] ?? ''] ?? 2
  return 1
}
