/** YAML text to the parser's nodes. Every error and every warning of the parser is a problem, in words that say what to do. */
import { type Document, parseDocument, visit, type YAMLError } from 'yaml'
import type { Rule } from './rules.ts'
import { MAX_FILE_BYTES } from './text-file.ts'

type Report = (offset: number, rule: Rule, message: string, suggestion?: string) => void

/** The parsed document, or null when what was reported leaves nothing that could be checked further. */
export function parseYaml(text: string, report: Report): Document | null {
  if (Buffer.byteLength(text) > MAX_FILE_BYTES) {
    report(0, 'yaml', 'the file is larger than 1 MiB')
    return null
  }
  // A `${` that YAML cannot parse brings a tail of errors that say nothing. So it is reported, blanked out at the same
  // length, and the text is parsed again for what else there is.
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
          `${code === '00A0' ? 'a no-break space' : 'a blank'} (U+${code}) stands here, which YAML does not take for a blank`,
          'replace it by a blank',
        )
      }
      rest = plain.text
      continue
    }
    let fatal = blanked
    for (const error of withoutTail(errors)) {
      fatal ||= error.code !== 'DUPLICATE_KEY' && error.code !== 'TAG_RESOLVE_FAILED'
      const { message, suggestion } = inWords(rest, error)
      report(error.pos[0], error.code === 'DUPLICATE_KEY' ? 'duplicate-key' : 'yaml', message, suggestion)
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

/** Blanks that look like one, where YAML wants one: they come with text that is copied from a page. */
const LOOKALIKE = '\\u00a0\\u1680\\u2000-\\u200b\\u202f\\u205f\\u3000'
const IN_PLACE = new RegExp(`^[ \\t${LOOKALIKE}]*[${LOOKALIKE}]|(?<=[:-])[ \\t]*[${LOOKALIKE}]+`, 'gm')
const EACH = new RegExp(`[${LOOKALIKE}]`, 'g')
/** So many lines are tried one by one. */
const MAX_TRIED = 20

const IN_PLAIN = new RegExp(`^[${LOOKALIKE}]|:[${LOOKALIKE}]`)

/**
 * The text with such blanks replaced, when it then has fewer faults, and where the first one stands of each line that was
 * the reason; null when they are not the reason.
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
  const told = guilty.length > 0 ? guilty : places
  return { text: plain, offsets: told.map(({ 0: found, index }) => index + found.search(EACH)) }
}

/** Errors, and words that such a blank is a part of: they may be YAML, and are no keys of ours. */
function faultsIn(document: Document): number {
  let faults = document.errors.length + document.warnings.length
  visit(document, {
    Scalar: (_, { type, value }) => {
      if (type === 'PLAIN' && typeof value === 'string' && IN_PLAIN.test(value)) faults++
    },
  })
  return faults
}

/** The `${…}` that an error is about, when it is: the parser stops at its brace. */
function referenceAt(text: string, error: YAMLError): { start: number; length: number } | null {
  const brace = error.pos[0]
  if (text[brace] !== '{' || text[brace - 1] !== '$') return null
  const length = /^\$\{[^}\n]*\}?/.exec(text.slice(brace - 1))![0].length
  return { start: brace - 1, length }
}

/** One unexpected token makes everything after it unexpected too: the first says enough. */
function withoutTail(errors: readonly YAMLError[]): YAMLError[] {
  const first = errors.findIndex(error => error.code === 'UNEXPECTED_TOKEN')
  return errors.filter((error, i) => i <= first || first < 0 || error.code !== 'UNEXPECTED_TOKEN')
}

function inWords(text: string, error: YAMLError): { message: string; suggestion?: string } {
  const [from, to] = error.pos
  switch (error.code) {
    case 'DUPLICATE_KEY':
      return { message: `the key "${keyAt(text, from)}" is here twice`, suggestion: 'remove one of the two' }
    case 'TAG_RESOLVE_FAILED':
      return {
        message: `${text.slice(from, to)} is read as a YAML tag, not as a value`,
        suggestion: 'put it in quotes',
      }
    case 'TAB_AS_INDENT':
      return { message: 'YAML is indented with blanks, not with tabs' }
    case 'MULTIPLE_DOCS':
      return { message: 'the file holds more than one YAML document', suggestion: 'remove the line ---' }
    case 'BLOCK_AS_IMPLICIT_KEY':
    case 'BLOCK_IN_FLOW':
      if (holdsColon(text, from)) {
        return {
          message: 'YAML reads the ": " in this value as another key',
          suggestion: 'put single quotes around the whole value',
        }
      }
      return plainWords(error)
    default:
      if (text[from - 1] === ']' && text[from] === ':') {
        return { message: 'YAML reads [ as the start of a list', suggestion: 'quote the address: "[::1]:8080"' }
      }
      return plainWords(error)
  }
}

function plainWords({ message }: YAMLError): { message: string } {
  return { message: `YAML: ${message[0]!.toLowerCase()}${message.slice(1)}` }
}

/** Whether a value begins here, and goes on behind a colon with a blank on the same line. */
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
