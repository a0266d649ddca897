/** Parses YAML text. Each error and warning of the parser becomes a problem with a suggestion. */
import { type Document, Lexer, parseDocument, visit, type YAMLError } from 'yaml'
import type { Rule } from './rules.ts'
import { MAX_FILE_BYTES } from './text-file.ts'

type Report = (offset: number, rule: Rule, message: string, suggestion?: string) => void

/** Returns the parsed document, or null if it is too broken for further checks. */
export function parseYaml(text: string, report: Report): Document | null {
  if (Buffer.byteLength(text) > MAX_FILE_BYTES) {
    report(0, 'yaml', 'the file is larger than 1 MiB')
    return null
  }
  // A `${` that YAML cannot parse causes a series of misleading errors. It is reported and replaced by text of the same
  // length, and the rest is parsed again.
  let rest = text
  let blanked = false
  for (;;) {
    const document = parse(rest)
    const errors = document === null ? [] : [...document.errors, ...document.warnings]
    const reference = errors.map(error => referenceAt(rest, error)).find(found => found !== null)
    if (document === null || errors.some(error => /call stack/.test(error.message))) {
      report(0, 'yaml', 'the file is nested too deeply')
      return null
    }
    if (reference) {
      blanked = true
      report(reference.start, 'yaml', `YAML cannot read \${…} inside { } or [ ] unless it is in quotes`, QUOTE_IT)
      rest =
        rest.slice(0, reference.start) + '_'.repeat(reference.length) + rest.slice(reference.start + reference.length)
      continue
    }
    const plain = withBlanks(rest, document)
    if (plain !== null) {
      blanked = true
      for (const offset of plain.offsets) {
        const code = rest.charCodeAt(offset).toString(16).toUpperCase().padStart(4, '0')
        report(
          offset,
          'yaml',
          `${code === '00A0' ? 'a no-break space' : 'a special space'} (U+${code}) is not a blank in YAML`,
          'replace it by a normal space',
        )
      }
      rest = plain.text
      continue
    }
    let fatal = blanked
    const open = errors.some(error => error.code === 'BAD_INDENT') ? findUnclosed(rest) : null
    for (const error of withoutTail(rest, errors)) {
      fatal ||= error.code !== 'DUPLICATE_KEY' && error.code !== 'TAG_RESOLVE_FAILED'
      const { message, suggestion, at = error.pos[0] } = inWords(rest, error, open?.get(error.pos[0]))
      report(at, error.code === 'DUPLICATE_KEY' ? 'duplicate-key' : 'yaml', message, suggestion)
    }
    return fatal ? null : document
  }
}

const QUOTE_IT = 'quote it: "${NAME}", or use a block map (one key a line, without braces)'

function parse(text: string): Document | null {
  try {
    return parseDocument(text, {
      prettyErrors: false,
      schema: 'core',
      merge: false,
      stringKeys: true,
      uniqueKeys: true,
    })
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/** Characters that look like a blank and come with text copied from web pages, in places where YAML expects a blank. */
const LOOKALIKE = '\\u00a0\\u1680\\u2000-\\u200b\\u202f\\u205f\\u3000'
const IN_PLACE = new RegExp(`^[ \\t${LOOKALIKE}]*[${LOOKALIKE}]|(?<=[:-])[ \\t]*[${LOOKALIKE}]+`, 'gm')
const EACH = new RegExp(`[${LOOKALIKE}]`, 'g')
/** The maximum number of lines that are tried separately. */
const MAX_TRIED = 20

const IN_PLAIN = new RegExp(`^[${LOOKALIKE}]|:[${LOOKALIKE}]`)

/**
 * Replaces lookalike blanks if the text then has fewer faults. Returns the text and the offset of the first one in each line
 * that caused faults; null if none did.
 */
function withBlanks(text: string, document: Document): { text: string; offsets: readonly number[] } | null {
  const places = [...text.matchAll(IN_PLACE)]
  const faults = places.length === 0 ? 0 : faultsIn(document)
  if (faults === 0) return null
  const replaced = (left: RegExpExecArray | null) =>
    text.replace(IN_PLACE, (found, offset) => (offset === left?.index ? found : found.replace(EACH, ' ')))
  const countIn = (each: string) => {
    const parsed = parse(each)
    return parsed === null ? faults : faultsIn(parsed)
  }
  const plain = replaced(null)
  const least = countIn(plain)
  if (least >= faults) return null
  const guilty = places.slice(0, MAX_TRIED).filter(place => countIn(replaced(place)) > least)
  const reported = guilty.length > 0 ? guilty : places
  return { text: plain, offsets: reported.map(({ 0: found, index }) => index + found.search(EACH)) }
}

/** The number of errors, and of words with a lookalike blank: they may be valid YAML, but never valid keys. */
function faultsIn(document: Document): number {
  let faults = document.errors.length + document.warnings.length
  visit(document, {
    Scalar: (_, { type, value }) => {
      if (type === 'PLAIN' && typeof value === 'string' && IN_PLAIN.test(value)) faults++
    },
  })
  return faults
}

/** The `${…}` that caused an error, at whose brace the parser stops; null if none did. */
function referenceAt(text: string, error: YAMLError): { start: number; length: number } | null {
  const brace = error.pos[0]
  if (text[brace] !== '{' || text[brace - 1] !== '$') return null
  const length = /^\$\{[^}\n]*\}?/.exec(text.slice(brace - 1))![0].length
  return { start: brace - 1, length }
}

/** After an error, the parser recovers at the next key without indentation. Removes the errors in between, which only follow. */
function withoutTail(text: string, errors: readonly YAMLError[]): YAMLError[] {
  let lost: number | null = null
  return errors.filter(({ code, pos: [at] }) => {
    if (code === 'DUPLICATE_KEY' || code === 'TAG_RESOLVE_FAILED') return true
    if (lost !== null && (code === 'UNEXPECTED_TOKEN' || !/\n[\w"']/.test(text.slice(lost, at)))) return false
    lost = at
    return true
  })
}

interface Words {
  readonly message: string
  readonly suggestion?: string
  /** Replaces the parser's offset. */
  readonly at?: number
}

/** @param open the offset of the brace or bracket that is not closed */
function inWords(text: string, error: YAMLError, open: number | undefined): Words {
  const [from, to] = error.pos
  switch (error.code) {
    case 'DUPLICATE_KEY':
      return twice(text, from)
    case 'TAG_RESOLVE_FAILED':
      return {
        message: `${text.slice(from, to)} is read as a YAML tag, not as a value`,
        suggestion: 'put it in quotes',
      }
    case 'TAB_AS_INDENT':
      return { message: 'YAML must be indented with spaces, not with tabs' }
    case 'MULTIPLE_DOCS':
      return { message: 'the file contains more than one YAML document', suggestion: 'remove the line ---' }
    case 'BLOCK_AS_IMPLICIT_KEY':
    case 'BLOCK_IN_FLOW':
      if (holdsColon(text, from)) {
        return {
          message: 'YAML reads the ": " in this value as another key',
          suggestion: 'put single quotes around the whole value',
        }
      }
      return deeper(text, from) ?? (text.slice(from).trimStart().startsWith('- ') ? BAD_INDENT : plainWords(error))
    case 'BAD_INDENT':
      if (/same column|without - /.test(error.message)) return BAD_INDENT
      return open === undefined ? plainWords(error) : unclosed(text, from, open)
    case 'MULTILINE_IMPLICIT_KEY':
      return withoutColon(text, from) ?? plainWords(error)
    default:
      if (/^Missing closing .quote/.test(error.message)) return openQuote(text, from) ?? plainWords(error)
      if (text[from - 1] === ']' && text[from] === ':') {
        return { message: 'YAML reads [ as the start of a list', suggestion: 'quote the address: "[::1]:8080"' }
      }
      return plainWords(error)
  }
}

const BAD_INDENT = {
  message: 'the indentation of this line matches none of the lines above it',
  suggestion: 'indent it like its neighbours',
}

function plainWords({ message }: YAMLError): { message: string } {
  return { message: `YAML: ${message[0]!.toLowerCase()}${message.slice(1)}` }
}

/** A duplicate key is usually an entry of a list without its dash, if the first of the two keys has one. */
function twice(text: string, from: number): Words {
  const key = keyAt(text, from)
  const indent = from - text.lastIndexOf('\n', from - 1) - 1
  const first = `${' '.repeat(Math.max(0, indent - 2))}- ${key}:`
  const isEntry = text
    .slice(0, from)
    .split('\n')
    .some(line => line.startsWith(first))
  return {
    message: `the key "${key}" is listed twice`,
    suggestion: isEntry
      ? 'write "- " before it if a new entry begins here, or remove one of the two'
      : 'remove one of the two',
  }
}

function openQuote(text: string, from: number): Words | null {
  let open: number | undefined
  for (const [token, at] of tokensOf(text)) {
    if (at >= from) break
    if (token[0] === '"' || token[0] === "'") open = at
  }
  return open === undefined
    ? null
    : {
        message: `this ${text[open]} is not closed`,
        suggestion: `write ${text[open]} at the end of the text`,
        at: open,
      }
}

/** The lexer's tokens with their offsets. The lexer's own marks are not in the text. */
function* tokensOf(text: string): Generator<readonly [token: string, at: number]> {
  let at = 0
  for (const token of new Lexer().lex(text)) {
    yield [token, at]
    if (!/^[\x02\x18\x1f]$/.test(token)) at += token.length
  }
}

/** The offsets where the parser misses the end of a brace or bracket, with the offset of its opening. One pass. */
function findUnclosed(text: string): Map<number, number> {
  const found = new Map<number, number>()
  let open: number[] = []
  for (const [token, at] of tokensOf(text)) {
    const last = open.at(-1)
    if (token === GIVEN_UP) {
      if (last !== undefined) found.set(at, last)
      open = []
    } else if (token === '{' || token === '[') open.push(at)
    else if (token === '}' || token === ']') {
      if (last !== undefined && token !== endOf(text[last])) found.set(at, last)
      open.pop()
    }
  }
  const last = open.at(-1)
  return last === undefined ? found : found.set(text.length, last)
}

/** The lexer's mark before a line that is indented less than the open brace requires. */
const GIVEN_UP = '\x18'
/** The number of characters that are searched for the closing brace. */
const MAX_INSIDE = 4000

/** The message for a line that is indented less than an open brace requires: the brace or the indentation is wrong. */
function unclosed(text: string, from: number, open: number): Words {
  const brace = text[open]
  if (from < text.length && isClosed(text.slice(open, open + MAX_INSIDE))) {
    const line = text.slice(0, open).split('\n').length
    return {
      message: `this line is inside the ${brace} of line ${line}, but is not indented far enough`,
      suggestion: 'indent it further, with spaces',
      at: from,
    }
  }
  return {
    message: `this ${brace} is not closed`,
    suggestion: `write ${endOf(brace)} after its last entry`,
    at: open,
  }
}

/** Whether the brace at the start of a text is closed in it, regardless of indentation. */
function isClosed(text: string): boolean {
  const ends: string[] = []
  for (const token of new Lexer().lex(text)) {
    if (token === '{' || token === '[') ends.push(endOf(token))
    else if (token === '}' || token === ']') {
      if (ends.pop() !== token) return false
      if (ends.length === 0) return true
    }
  }
  return false
}

const endOf = (brace: string | undefined) => (brace === '{' ? '}' : ']')

/** The message for a line that is indented below a key that has a value. */
function deeper(text: string, from: number): Words | null {
  const [line = '', below = ''] = text.slice(text.lastIndexOf('\n', from - 1) + 1).split(/\n(?:[ \t]*(?:#.*)?\n)*/, 2)
  const [indent, indentBelow] = [/^[ -]*/.exec(line)![0].length, /^ */.exec(below)![0].length]
  if (indentBelow <= indent || !/^ *[^\s:]+:( |$)/.test(below)) return null
  const key = line.slice(indent, line.indexOf(':'))
  return {
    message: `this line is indented deeper than "${key}" above it, which already has a value`,
    suggestion: 'indent it like its neighbours',
    at: text.indexOf(below, from) + indentBelow,
  }
}

/** The message for a word alone on its line, with lines below it. */
function withoutColon(text: string, from: number): Words | null {
  const word = /^[\w-]+(?=[ \t]*\r?\n)/.exec(text.slice(from))?.[0]
  return word === undefined ? null : { message: `"${word}" has no colon`, suggestion: `write "${word}:"` }
}

/** Whether the value that begins here contains a colon with a blank on the same line. */
function holdsColon(text: string, from: number): boolean {
  const start = text.lastIndexOf('\n', from - 1) + 1
  const end = text.indexOf('\n', from)
  return /:[ \t]+$/.test(text.slice(start, from)) && /:([ \t]|$)/.test(text.slice(from, end < 0 ? undefined : end))
}

function keyAt(text: string, from: number): string {
  return /^("[^"\n]*"|'[^'\n]*'|[^:\n]*)/
    .exec(text.slice(from))![0]
    .trim()
    .replace(/^["']|["']$/g, '')
}
