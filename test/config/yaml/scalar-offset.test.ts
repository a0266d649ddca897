/** Maps a character of a parsed text to its position in the file, for every YAML notation. */
import { describe, expect, test } from 'vitest'
import { parseDocument, type Scalar } from 'yaml'
import { indexInFile } from '../../../src/config/yaml/scalar-offset.ts'

/** Each has a text under `when` with a single X, whose position is expected. */
const TEXTS: [string, string][] = [
  ['plain', 'when: aa && Xb\n'],
  ['plain, over two lines', 'when: aa &&\n    Xb\nuse: c\n'],
  ['plain, over two lines with blanks at the end', 'when: aa &&  \n    bb  &&\n  Xb\n'],
  ['plain, with an empty line', 'when: aa &&\n\n\n  Xb\n'],
  ['in single quotes', "when: 'it''s  Xb'\n"],
  ['in single quotes, over two lines', "when: 'it''s &&\n    Xb'\n"],
  ['in double quotes', 'when: "a\\"\\u0041\\x41\\U00000041\\t  Xb"\n'],
  ['in double quotes, over two lines', 'when: "aa &&\n    Xb"\n'],
  ['in double quotes, with an empty line', 'when: "aa &&\n\n    Xb"\n'],
  ['in double quotes, with a line break and one written out', 'when: "aa &&\n    \\nb Xb"\n'],
  ['in double quotes, continued', 'when: "aa && \\\n    Xb"\n'],
  ['in double quotes, continued within a word', 'when: "aa &&bb\\\n    Xb"\n'],
  ['in double quotes, continued with blanks', 'when: "aa\\\n  \\  && \\\n    Xb"\n'],
  ['in double quotes, continued at once', 'when: "\\\n  Xb"\n'],
  ['as a block', 'when: |\n  aa &&\n  bb &&\n    Xb\n'],
  ['as a block, after a note', 'when: | # a note\n  aa &&\n  Xb\n'],
  ['as a block, after empty lines', 'when: |\n\n\n  aa &&\n  Xb\n'],
  ['as a block, at its beginning', 'when: |-\n  Xb\n'],
  ['as a folded block', 'when: >\n  aa &&\n  bb &&\n  Xb\n'],
  ['as a folded block with paragraphs', 'when: >-\n  aa &&\n  bb\n\n    cc\n  Xb\n'],
]

describe.each([
  ['\n', 'LF'],
  ['\r\n', 'CRLF'],
])('%j', lineEnd => {
  test.each(TEXTS)('%s', (_, lines) => {
    const text = lines.replaceAll('\n', lineEnd)
    const node = parseDocument(text).get('when', true) as Scalar
    const index = String(node.value).indexOf('X')
    expect(index, 'the value has the mark').toBeGreaterThanOrEqual(0)
    expect(indexInFile(text, node, index)).toBe(text.indexOf('X'))
    // The next character too: skipped characters are skipped once.
    expect(indexInFile(text, node, index + 1)).toBe(text.indexOf('X') + 1)
  })
})
