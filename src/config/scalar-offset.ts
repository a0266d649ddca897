/** Where the n-th character of a parsed text stands in the file: quotes, escapes, folding and indentation are in between. */
import type { Scalar } from 'yaml'

/**
 * The offset in `text` of the character at `index` of the scalar's value. Both are read side by side: a run of white
 * space in one matches a run in the other, an escape matches one character.
 */
export function indexInFile(text: string, node: Scalar, index: number): number {
  const value = String(node.value)
  const [start, end] = node.range ?? [0, 0]
  const quoted = node.type === 'QUOTE_DOUBLE' || node.type === 'QUOTE_SINGLE'
  let at = quoted ? start + 1 : isBlock(node) ? skipSpace(text, text.indexOf('\n', start), end) : start
  for (let i = 0; i < Math.min(index, value.length) && at < end; ) {
    if (isSpace(value[i]) && isSpace(text[at])) {
      // A run on one line is as long in the file, so that an index inside it is exact too.
      const run = /^[^\S\n]*/.exec(text.slice(at, end))![0].length
      const folded = text[at + run] === '\n'
      const length = /^\s*/.exec(value.slice(i))![0].length
      at = folded ? skipSpace(text, at, end) : at + Math.min(run, index - i)
      i += folded ? length : Math.min(run, index - i) || 1
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
  return char === ' ' || char === '\n' || char === '\t'
}

function skipSpace(text: string, from: number, end: number): number {
  let at = from
  while (at < end && /\s/.test(text[at]!)) at++
  return at
}

const HEX_ESCAPES: Record<string, number> = { x: 4, u: 6, U: 10 }

function escapeLength(text: string, at: number, type: Scalar['type']): number {
  if (type === 'QUOTE_SINGLE' && text.startsWith("''", at)) return 2
  if (type === 'QUOTE_DOUBLE' && text[at] === '\\') return HEX_ESCAPES[text[at + 1] ?? ''] ?? 2
  return 1
}
