/** YAML text to the parser's nodes. Every error and every warning of the parser is a problem, in words that say what to do. */
import { type Document, parseDocument, type YAMLError } from 'yaml'
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
    default:
      if (text[from - 1] === ']' && text[from] === ':') {
        return { message: 'YAML reads [ as the start of a list', suggestion: 'quote the address: "[::1]:8080"' }
      }
      return { message: `YAML: ${error.message[0]!.toLowerCase()}${error.message.slice(1)}` }
  }
}

function keyAt(text: string, from: number): string {
  return /^("[^"\n]*"|'[^'\n]*'|[^:\n]*)/
    .exec(text.slice(from))![0]
    .trim()
    .replace(/^["']|["']$/g, '')
}
