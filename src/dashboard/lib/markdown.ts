/**
 * Parses the Markdown that models write, as far as answers need it: paragraphs, headings, lists, quotes, code, tables,
 * emphasis and links. The text is not trusted. HTML stays text, links lead to web and mail addresses only, and nothing is
 * loaded. Nesting is bounded, and the time is linear in the length.
 */

/** A block of a text. `inlines` reads the texts in it. */
export type Block =
  | { readonly kind: 'text' | 'rule'; readonly text: string }
  | { readonly kind: 'heading'; readonly level: number; readonly text: string }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'quote'; readonly blocks: readonly Block[] }
  | { readonly kind: 'list'; readonly start: number | null; readonly items: readonly (readonly Block[])[] }
  | { readonly kind: 'table'; readonly rows: readonly (readonly string[])[] }

/** Deeper quotes and lists are shown as text. */
const DEEPEST = 8

const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/
const HEADING = /^ {0,3}(#{1,6})[ \t]+(?=\S)/
const QUOTE = /^ {0,3}> ?/
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])(?: +|$)/

/** Splits a text into pieces that can be parsed alone: while an answer grows, only its last piece is parsed again. */
export function pieces(text: string): string[] {
  const found: string[] = []
  let begun = 0
  let at = 0
  let fence: string | null = null
  let isBlank = false
  for (const line of text.split('\n')) {
    const mark = fenceOf(line)
    if (fence === null && isBlank && at > begun && !/^[ \t]|^\s*$/.test(line) && !ITEM.test(line)) {
      found.push(text.slice(begun, at))
      begun = at
    }
    if (fence === null) fence = mark
    else if (endsFence(line, fence)) fence = null
    isBlank = line.trim() === ''
    at += line.length + 1
  }
  if (begun < text.length) found.push(text.slice(begun))
  return found
}

const PARCEL = 4000

/** Splits the text from an index on, at ends of lines where possible: while it grows, only the last parcel changes. */
export function parcels(text: string, from: number): string[] {
  const found: string[] = []
  for (let at = from; at < text.length; ) {
    const line = text.indexOf('\n', at + PARCEL)
    const end = line < 0 || line > at + 2 * PARCEL ? at + 2 * PARCEL : line + 1
    found.push(text.slice(at, end))
    at = end
  }
  return found
}

/** The blocks of a piece. */
export function blocks(text: string): Block[] {
  return read(text.split('\n'), 0)
}

function read(lines: readonly string[], depth: number): Block[] {
  if (depth > DEEPEST) return [{ kind: 'text', text: lines.join('\n') }]
  const found: Block[] = []
  for (let at = 0; at < lines.length; ) {
    const [block, next] = readOne(lines, at, depth)
    if (block) found.push(block)
    at = next
  }
  return found
}

type Read = readonly [block: Block | null, next: number]

function readOne(lines: readonly string[], at: number, depth: number): Read {
  const line = lines[at]!
  if (line.trim() === '') return [null, at + 1]
  const fence = fenceOf(line)
  if (fence !== null) return readCode(lines, at, fence)
  const level = HEADING.exec(line)
  if (level) return [{ kind: 'heading', level: level[1]!.length, text: line.slice(level[0].length).trim() }, at + 1]
  if (isRule(line)) return [{ kind: 'rule', text: line }, at + 1]
  if (QUOTE.test(line)) {
    const end = endOf(lines, at, each => QUOTE.test(each))
    const inner = lines.slice(at, end).map(each => each.replace(QUOTE, ''))
    return [{ kind: 'quote', blocks: read(inner, depth + 1) }, end]
  }
  if (ITEM.test(line)) return readList(lines, at, depth)
  if (isTable(lines, at)) {
    const end = endOf(lines, at + 2, each => each.includes('|'))
    const rows = [line, ...lines.slice(at + 2, end)].map(cellsOf)
    return [{ kind: 'table', rows }, end]
  }
  const end = endOf(lines, at + 1, (each, index) => !begins(lines, index, each))
  return [{ kind: 'text', text: lines.slice(at, end).join('\n') }, end]
}

/** Whether another block begins here. */
function begins(lines: readonly string[], at: number, line: string): boolean {
  if (line.trim() === '' || fenceOf(line) !== null || HEADING.test(line) || QUOTE.test(line)) return true
  return ITEM.test(line) || isRule(line) || isTable(lines, at)
}

function readCode(lines: readonly string[], at: number, fence: string): Read {
  const end = endOf(lines, at + 1, line => !endsFence(line, fence))
  return [{ kind: 'code', text: lines.slice(at + 1, end).join('\n') }, end + 1]
}

function readList(lines: readonly string[], begin: number, depth: number): Read {
  const [, indent = '', marker = ''] = ITEM.exec(lines[begin]!)!
  const isOrdered = /\d/.test(marker)
  const items: string[][] = []
  let width = 0
  let at = begin
  for (; at < lines.length; at++) {
    const line = lines[at]!
    const item = ITEM.exec(line)
    const isBlank = line.trim() === ''
    const inside = line.length - line.trimStart().length >= Math.max(width, indent.length + 2)
    if (item && !(inside && items.length > 0)) {
      const isOther = /\d/.test(item[2]!) !== isOrdered || item[1]!.length < indent.length
      if (isOther || isRule(line)) break
      width = Math.min(item[0].length, item[1]!.length + item[2]!.length + 1)
      items.push([line.slice(item[0].length)])
    } else if (isBlank || inside) items.at(-1)!.push(line.slice(Math.min(width, line.length)))
    else if (lines[at - 1]!.trim() === '' || begins(lines, at, line)) break
    else items.at(-1)!.push(line)
  }
  const start = isOrdered ? Number.parseInt(marker, 10) : null
  return [{ kind: 'list', start, items: items.map(item => read(item, depth + 1)) }, at]
}

function fenceOf(line: string): string | null {
  return FENCE.exec(line)?.[1] ?? null
}

function endsFence(line: string, fence: string): boolean {
  const text = line.trim()
  return text.length >= fence.length && text === fence[0]!.repeat(text.length)
}

function isRule(line: string): boolean {
  const text = line.replaceAll(/[ \t]/g, '')
  return text.length > 2 && /[-*_]/.test(text[0]!) && text === text[0]!.repeat(text.length)
}

function isTable(lines: readonly string[], at: number): boolean {
  const [head, below] = [lines[at]!, lines[at + 1]]
  if (below === undefined || !head.includes('|') || !/^[ \t|:-]+$/.test(below) || !below.includes('-')) return false
  const marks = cellsOf(below)
  return marks.length === cellsOf(head).length && marks.every(mark => /^:?-+:?$/.test(mark))
}

function cellsOf(line: string): string[] {
  const text = line.trim()
  const inner = text.slice(text.startsWith('|') ? 1 : 0, text.length > 1 && text.endsWith('|') ? -1 : undefined)
  return inner.split('|').map(cell => cell.trim())
}

/** The index after the last line that belongs to the block. */
function endOf(lines: readonly string[], from: number, goesOn: (line: string, at: number) => boolean): number {
  let at = from
  while (at < lines.length && goesOn(lines[at]!, at)) at++
  return at
}
