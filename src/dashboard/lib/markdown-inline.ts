/** Emphasis, code and links within a text of Markdown. Unclosed or forbidden markup stays text. */

export type Inline =
  | string
  | { readonly kind: 'strong' | 'em' | 'del'; readonly inside: readonly Inline[] }
  | { readonly kind: 'code'; readonly text: string }
  | { readonly kind: 'link'; readonly href: string; readonly inside: readonly Inline[] }

/** Longer texts are shown unparsed: real paragraphs are shorter. */
const LONGEST = 20_000
const MAX_HREF = 2000
const DEEPEST = 8

const KINDS = { '**': 'strong', __: 'strong', '*': 'em', _: 'em', '~~': 'del' } as const
type Mark = keyof typeof KINDS

interface Open {
  readonly mark: Mark
  readonly inside: Inline[]
}

export function inlines(text: string): readonly Inline[] {
  return text.length > LONGEST ? [text] : readInlines(text, true)
}

function readInlines(text: string, links: boolean): readonly Inline[] {
  const closings = links ? bracketsOf(text) : NONE
  const unclosed = new Set<number>()
  const opened: Open[] = []
  const root: Inline[] = []
  let plain = ''
  const here = () => opened.at(-1)?.inside ?? root
  const put = (inline: Inline): void => {
    if (plain !== '') here().push(plain)
    plain = ''
    if (inline !== '') here().push(inline)
  }
  for (let at = 0; at < text.length; ) {
    const character = text[at]!
    if (character === '\\' && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? '')) {
      plain += text[at + 1]
      at += 2
      continue
    }
    const found =
      character === '`'
        ? readCode(text, at, unclosed)
        : links && (character === '[' || character === '!' || character === '<' || character === 'h')
          ? readLink(text, at, closings)
          : null
    if (found) {
      put(found.inline)
      at = found.next
      continue
    }
    if (character === '`') {
      const run = runOf(text, at)
      plain += text.slice(at, at + run)
      at += run
      continue
    }
    const mark = markAt(text, at)
    if (mark === null) {
      plain += character
      at++
      continue
    }
    const place = closes(text, at, mark) ? opened.findLastIndex(open => open.mark === mark) : -1
    if (place >= 0) {
      put('')
      flatten(opened, place + 1, root)
      const { inside } = opened.pop()!
      here().push({ kind: KINDS[mark], inside })
    } else if (opens(text, at, mark) && opened.length < DEEPEST) {
      put('')
      opened.push({ mark, inside: [] })
    } else plain += mark
    at += mark.length
  }
  put('')
  flatten(opened, 0, root)
  return root
}

/** Markup that is opened and never closed is text. */
function flatten(opened: Open[], from: number, root: Inline[]): void {
  while (opened.length > from) {
    const { mark, inside } = opened.pop()!
    ;(opened.at(-1)?.inside ?? root).push(mark, ...inside)
  }
}

function markAt(text: string, at: number): Mark | null {
  const two = text.slice(at, at + 2)
  if (two === '**' || two === '__' || two === '~~') return two
  return text[at] === '*' || text[at] === '_' ? (text[at] as Mark) : null
}

const isSpace = (character: string | undefined): boolean => character === undefined || /\s/.test(character)
const isWord = (character: string | undefined): boolean => character !== undefined && /[\p{L}\p{N}]/u.test(character)

function opens(text: string, at: number, mark: Mark): boolean {
  if (isSpace(text[at + mark.length])) return false
  return mark[0] !== '_' || !isWord(text[at - 1])
}

function closes(text: string, at: number, mark: Mark): boolean {
  if (isSpace(text[at - 1])) return false
  return mark[0] !== '_' || !isWord(text[at + mark.length])
}

interface InlineRead {
  readonly inline: Inline
  readonly next: number
}

/** @param unclosed lengths of marks without a closing one: each is searched for once */
function readCode(text: string, at: number, unclosed: Set<number>): InlineRead | null {
  const length = runOf(text, at)
  if (unclosed.has(length)) return null
  for (let end = text.indexOf('`', at + length); end >= 0; ) {
    const run = runOf(text, end)
    if (run === length) return { inline: { kind: 'code', text: text.slice(at + length, end).trim() }, next: end + run }
    end = text.indexOf('`', end + run)
  }
  unclosed.add(length)
  return null
}

function runOf(text: string, at: number): number {
  let end = at
  while (text[end] === '`') end++
  return end - at
}

const BARE = /https?:\/\/[^\s<>"'`|*]{1,2000}/y
const BETWEEN = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y

function readLink(text: string, at: number, closings: ReadonlyMap<number, number>): InlineRead | null {
  if (text[at] === 'h') {
    if (isWord(text[at - 1])) return null
    BARE.lastIndex = at
    const bare = BARE.exec(text)?.[0].replace(/[.,;:!?)\]]{1,9}$/, '')
    return bare === undefined ? null : linkTo(bare, at + bare.length)
  }
  if (text[at] === '<') {
    BETWEEN.lastIndex = at
    const href = BETWEEN.exec(text)?.[1]
    return href === undefined ? null : linkTo(href, at + href.length + 2)
  }
  // An image becomes a link to it, so that nothing is loaded from elsewhere.
  const begin = text[at] === '!' ? at + 1 : at
  const end = closings.get(begin)
  if (end === undefined || text[end + 1] !== '(') return null
  const close = closingOf(text, end + 1)
  if (close === null) return null
  const target = text.slice(end + 2, close).trim()
  const written = (/^<([^<>]*)>/.exec(target)?.[1] ?? target.split(/\s/, 1)[0]!).trim()
  const href = addressOf(written)
  // Checked before the label is parsed: rejected text is parsed again from the next character on.
  if (href === null) return null
  const label = text.slice(begin + 1, end)
  const inside = label.trim() === '' ? [written] : readInlines(label, false)
  return { inline: { kind: 'link', href, inside }, next: close + 1 }
}

/** The index of the closing parenthesis; null: none within the length of an address. */
function closingOf(text: string, at: number): number | null {
  let depth = 0
  for (let end = at; end < text.length && end < at + MAX_HREF; end++) {
    if (text[end] === '(') depth++
    else if (text[end] === ')' && --depth === 0) return end
    else if (text[end] === '\n') return null
  }
  return null
}

/** A link whose label is its address. */
function linkTo(written: string, next: number): InlineRead | null {
  const href = addressOf(written)
  return href === null ? null : { inline: { kind: 'link', href, inside: [written] }, next }
}

/** An address of the web or of mail; null for all others, such as `javascript:`. */
function addressOf(written: string): string | null {
  const url = /^(https?:\/\/|mailto:)/i.test(written) ? URL.parse(written) : null
  return url !== null && /^(https?|mailto):$/.test(url.protocol) ? url.href : null
}

const NONE: ReadonlyMap<number, number> = new Map()

/** The closing bracket of each opening one, found in one pass. */
function bracketsOf(text: string): ReadonlyMap<number, number> {
  if (!text.includes('](')) return NONE
  const closings = new Map<number, number>()
  const open: number[] = []
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === '[') open.push(at)
    else if (text[at] === ']' && open.length > 0) closings.set(open.pop()!, at)
  }
  return closings
}
