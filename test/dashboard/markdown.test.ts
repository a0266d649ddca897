/** Markdown as models write it: the elements that it becomes. Hostile text stays text, and is parsed in linear time. */
import { describe, expect, test } from 'vitest'
import { type Block, blocks, parcels, pieces } from '../../src/dashboard/lib/markdown.ts'
import { type Inline, inlines } from '../../src/dashboard/lib/markdown-inline.ts'
import { expectWithin } from '../helpers/promised.ts'
import { seeded } from '../helpers/seeded.ts'

const text = (written: string): Block => ({ kind: 'text', text: written })

test.each<[what: string, source: string, made: readonly Block[]]>([
  ['paragraphs', 'one\ntwo\n\nthree', [text('one\ntwo'), text('three')]],
  [
    'headings',
    '# One\ntext\n### Three',
    [{ kind: 'heading', level: 1, text: 'One' }, text('text'), { kind: 'heading', level: 3, text: 'Three' }],
  ],
  ['no heading', '#tag', [text('#tag')]],
  [
    'code',
    'so:\n```js\nif (a) {\n\n  b()\n```\nand',
    [text('so:'), { kind: 'code', text: 'if (a) {\n\n  b()' }, text('and')],
  ],
  ['code that has not ended yet', '~~~\n# a', [{ kind: 'code', text: '# a' }]],
  ['code with a shorter mark in it', '````\n```\na\n```\n````', [{ kind: 'code', text: '```\na\n```' }]],
  [
    'a quote',
    '> a\n> - b\n\nc',
    [{ kind: 'quote', blocks: [text('a'), { kind: 'list', start: null, items: [[text('b')]] }] }, text('c')],
  ],
  [
    'a list',
    '- a\n- b\n  c\n\n  d\n  - e\n- f',
    [
      {
        kind: 'list',
        start: null,
        items: [
          [text('a')],
          [text('b\nc'), text('d'), { kind: 'list', start: null, items: [[text('e')]] }],
          [text('f')],
        ],
      },
    ],
  ],
  [
    'numbers',
    '3. a\n4. b\n* c',
    [
      { kind: 'list', start: 3, items: [[text('a')], [text('b')]] },
      { kind: 'list', start: null, items: [[text('c')]] },
    ],
  ],
  [
    'a list behind a paragraph',
    'first:\n1. a\n   - b',
    [
      text('first:'),
      { kind: 'list', start: 1, items: [[text('a'), { kind: 'list', start: null, items: [[text('b')]] }]] },
    ],
  ],
  [
    'a table',
    '| a | b |\n|---|:-:|\n| 1 | 2 |\n3 | 4\n\nc',
    [
      {
        kind: 'table',
        rows: [
          ['a', 'b'],
          ['1', '2'],
          ['3', '4'],
        ],
      },
      text('c'),
    ],
  ],
  ['no table', 'a | b\n---', [text('a | b'), { kind: 'rule', text: '---' }]],
  ['a rule', 'a\n\n* * *\nb', [text('a'), { kind: 'rule', text: '* * *' }, text('b')]],
  ['HTML', '<script>x</script>', [text('<script>x</script>')]],
])('%s', (_, source, made) => {
  expect(blocks(source)).toEqual(made)
})

const link = (href: string, ...inside: Inline[]): Inline => ({ kind: 'link', href, inside })

test.each<[what: string, source: string, made: readonly Inline[]]>([
  [
    'emphasis',
    'a **b *c* d** ~~e~~',
    [
      'a ',
      { kind: 'strong', inside: ['b ', { kind: 'em', inside: ['c'] }, ' d'] },
      ' ',
      { kind: 'del', inside: ['e'] },
    ],
  ],
  ['what is not closed', '**a *b', ['**', 'a ', '*', 'b']],
  ['crossed', '*a **b* c**', [{ kind: 'em', inside: ['a ', '**', 'b'] }, ' c**']],
  ['products and names', '2 * 3 * 4 snake_case_name', ['2 * 3 * 4 snake_case_name']],
  ['code', '`a*b*` ``c`d`` `e', [{ kind: 'code', text: 'a*b*' }, ' ', { kind: 'code', text: 'c`d' }, ' `e']],
  ['what is escaped', '\\*a\\* \\[b](c)', ['*a* [b](c)']],
  [
    'a link',
    '[a **b**](https://example.com/x_(y) "t")',
    [link('https://example.com/x_(y)', 'a ', { kind: 'strong', inside: ['b'] })],
  ],
  [
    'addresses',
    'see https://example.com/a, <mailto:a@b.example>.',
    [
      'see ',
      link('https://example.com/a', 'https://example.com/a'),
      ', ',
      link('mailto:a@b.example', 'mailto:a@b.example'),
      '.',
    ],
  ],
  ['a picture', '![cat](https://elsewhere.example/cat.png)', [link('https://elsewhere.example/cat.png', 'cat')]],
  ['a script', '[a](javascript:alert(1))', ['[a](javascript:alert(1))']],
  ['a script with a blank', '[a](java\tscript:x) [b]( JAVASCRIPT:x)', ['[a](java\tscript:x) [b]( JAVASCRIPT:x)']],
  ['data', '[a](data:text/html,x) ![b](data:image/png,x)', ['[a](data:text/html,x) ![b](data:image/png,x)']],
  ['the page itself', '[a](/api/sessions) [b](//evil.example)', ['[a](/api/sessions) [b](//evil.example)']],
  [
    'a link within a link',
    '[a [b](https://b.example) c](https://c.example)',
    [link('https://c.example/', 'a [b](https://b.example) c')],
  ],
])('within a text: %s', (_, source, made) => {
  expect(inlines(source)).toEqual(made)
})

describe('pieces', () => {
  test('parse like the whole text, and all but the last stay when the answer grows', () => {
    const source = 'a\n\n- b\n\n- c\n\n  d\n\n```\ne\n\nf\n```\n\ng\n\n'
    expect(pieces(source)).toEqual(['a\n\n- b\n\n- c\n\n  d\n\n', '```\ne\n\nf\n```\n\n', 'g\n\n'])
    for (let length = 1; length < source.length; length++) {
      const now = pieces(source.slice(0, length))
      expect(now.join('')).toBe(source.slice(0, length))
      expect(pieces(source).slice(0, now.length - 1)).toEqual(now.slice(0, -1))
    }
  })

  test('longer texts are cut at the ends of lines', () => {
    const [short, long] = ['a\n'.repeat(5000), 'b'.repeat(20_000)]
    expect(parcels(short + long, 3).join('')).toBe((short + long).slice(3))
    expect(parcels(short, 0).every(parcel => parcel.endsWith('\n'))).toBe(true)
    expect(Math.max(...parcels(long, 0).map(({ length }) => length))).toBeLessThan(10_000)
    expect(parcels(short + long, 0).slice(0, 2)).toEqual(parcels(short + long.slice(0, 9000), 0).slice(0, 2))
    expect(parcels(short, short.length)).toEqual([])
  })

  test('of random texts lose nothing', () => {
    const next = seeded(11)
    const parts = [
      'a',
      '**',
      '_',
      '`',
      '```',
      '\n',
      '\n\n',
      '- ',
      '1. ',
      '> ',
      '|',
      '---',
      '[',
      '](',
      ')',
      '  ',
      '#',
      ' ',
      '\\',
      '<',
    ]
    for (let run = 0; run < 500; run++) {
      const source = Array.from({ length: 60 }, () => parts[Math.floor(next() * parts.length)]!).join('')
      expect(pieces(source).join('')).toBe(source)
      for (const piece of pieces(source)) blocks(piece)
      inlines(source)
    }
  })
})

/** Each takes another path through the parser. Parsing twice the length may not take much more than twice the time. */
test.each([
  ['quotes', '>'],
  ['quotes and blanks', '> '],
  ['lists', '- '],
  ['numbers', '1. '],
  ['lists in lines', '- a\n'],
  ['quotes and lists', '>- '],
  ['stars', '*a '],
  ['stars of both kinds', '**a*'],
  ['underscores', '_a__b'],
  ['brackets', '['],
  ['links', '[a]('],
  ['pictures', '![['],
  ['code', '`a``'],
  ['tables', '|a'],
  ['rows', '|a\n|-\n'],
  ['fences', '```\n'],
  ['headings', '# '],
  ['rules', '-'],
  ['blanks', ' '],
  ['blank lines', '\n'],
  ['addresses', 'http://a.'],
  ['tags', '<a '],
  ['mixed', '\\`~~[<h'],
])('a mebibyte of %s is read at once', (_, part) => {
  const source = part.repeat(1_048_576 / part.length)
  const began = performance.now()
  expect(pieces(source).join('')).toBe(source)
  let deepest = 0
  const look = (made: readonly Block[], depth: number): void => {
    deepest = Math.max(deepest, depth)
    for (const block of made) {
      if (block.kind === 'quote') look(block.blocks, depth + 1)
      else if (block.kind === 'list') for (const item of block.items) look(item, depth + 1)
      else if (block.kind === 'table') for (const row of block.rows) row.forEach(inlines)
      else inlines(block.text)
    }
  }
  for (const piece of pieces(source)) look(blocks(piece), 0)
  inlines(source.slice(0, 20_000))
  expect(deepest).toBeLessThan(12)
  // Usually it takes a tenth of that. Quadratic parsing would take minutes.
  expectWithin(performance.now() - began, 1_000)
})

/** A link's label is parsed too. Parsing it before the address was checked once took a second. */
test.each([
  ['to nowhere', '[', '](x)'],
  ['to no host', '[', '](http://%)'],
  ['to somewhere', '[', '](http://a)'],
  ['to pictures', '![', '](x)'],
])('a mebibyte of links %s within links is read at once', (_, before, behind) => {
  const depth = Math.floor(20_000 / (before.length + behind.length))
  const source = before.repeat(depth) + behind.repeat(depth)
  const began = performance.now()
  for (let bytes = 0; bytes < 1_048_576; bytes += source.length) inlines(source)
  // Usually it takes a twentieth of that. It once took a minute.
  expectWithin(performance.now() - began, 1_000)
})
