/**
 * `${NAME}` and `${file:PATH}` in a value: the environment variable, or the file's text without its last line break.
 * `$${` is a literal `${`. Parsed values are replaced, never the file's text, so a value cannot add structure.
 */
import { dirname, resolve } from 'node:path'
import { type Document, visit } from 'yaml'
import { nearest } from './problem.ts'
import type { Rule } from './rules.ts'

/** The values of references, collected before the values of the file are built. */
export interface ReferenceValues {
  readonly env: Readonly<Record<string, string | undefined>>
  /** By the path as written; an Error if the file could not be read. */
  readonly files: ReadonlyMap<string, string | Error>
}

export interface Substitution {
  readonly text: string
  /** The inserted values, for redaction. */
  readonly values: readonly string[]
  /** If there are any, `text` must not be used. */
  readonly problems: readonly { readonly rule: Rule; readonly message: string; readonly suggestion?: string }[]
}

const REFERENCE = /\$\$\{|\$\{([^}]*)(\}?)/g
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/
const FILE = 'file:'

/** The paths in a value's `${file:PATH}`. */
function wantedFiles(text: string): string[] {
  return [...text.matchAll(REFERENCE)]
    .map(match => match[1]?.trim() ?? '')
    .filter(inside => inside.startsWith(FILE))
    .map(inside => inside.slice(FILE.length).trim())
}

/** Replaces the references in a text. */
export function substitute(text: string, { env, files }: ReferenceValues): Substitution {
  const values: string[] = []
  const problems: { rule: Rule; message: string; suggestion?: string }[] = []
  const take = (value: string) => {
    values.push(value)
    return value
  }
  const result = text.replace(REFERENCE, (whole: string, inside: string | undefined, closed: string | undefined) => {
    if (inside === undefined) return '${'
    const name = inside.trim()
    if (closed === '') {
      problems.push({
        rule: 'wrong-reference',
        message: `"${whole}" has no closing brace`,
        suggestion: 'to write a plain "${", write "$${"',
      })
    } else if (name.startsWith(FILE)) {
      const path = name.slice(FILE.length).trim()
      const content = files.get(path)
      if (typeof content === 'string') return take(content.replace(/\r?\n$/, ''))
      problems.push({
        rule: 'missing-file',
        message: `the file ${path || '(no path)'} cannot be read: ${content?.message ?? 'no path given'}`,
      })
    } else if (!NAME.test(name)) {
      const suggestion = 'write ${NAME} or ${file:PATH}; to write a plain "${", write "$${"'
      problems.push({
        rule: 'wrong-reference',
        message: `"${whole}" does not name an environment variable`,
        suggestion,
      })
    } else {
      const value = env[name]
      if (value !== undefined) return take(value)
      const near = nearest(name, Object.keys(env))
      problems.push({
        rule: 'missing-variable',
        message: `the environment variable ${name} is not set`,
        ...(near === undefined ? {} : { suggestion: `did you mean ${near}?` }),
      })
    }
    return whole
  })
  return { text: result, values, problems }
}

/** The text of each file that a document refers to, or an Error with the reason why it cannot be read. */
export async function readReferencedFiles(
  document: Document,
  file: string,
  readFile: (path: string) => Promise<string>,
) {
  const wanted = new Set<string>()
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === 'string') for (const path of wantedFiles(node.value)) wanted.add(path)
    },
  })
  const files = new Map<string, string | Error>()
  for (const path of wanted) {
    if (path === '') continue
    const read = readFile(resolve(dirname(file), path))
    files.set(path, await read.catch((error: NodeJS.ErrnoException) => new Error(reasonOf(error))))
  }
  return files
}

/** The reason why a file could not be read, without its path. */
export function reasonOf(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return 'the file does not exist'
  if (error.code === 'EACCES') return 'no permission'
  return error.message.split('\n', 1)[0]!
}
