/** Problems of configuration files: a position, a message and a suggestion. */
import { inColumns, visible } from '#contract'
import type { Position } from '../configuration.ts'
import type { Rule } from './rules.ts'

export { didYouMean, nearest } from '../../common/nearest.ts'

/** The suggestion of `hints` for a word in any spelling (`LM Studio`, `lm-studio`). */
export function hintFor(word: string, hints: Readonly<Record<string, string>> = {}): string | undefined {
  const known = Object.keys(hints).find(each => lettersOf(each) === lettersOf(word))
  return known && hints[known]
}

const lettersOf = (word: string) => word.toLowerCase().replace(/[-_. ]/g, '')

export interface Problem extends Position {
  /** The kind of problem. Stable, for CI systems and searches. */
  readonly rule: Rule
  /** One sentence without a full stop. It never contains a secret: values from `${…}` are shown as the reference. */
  readonly message: string
  /** The fix, which continues the sentence after a semicolon. */
  readonly suggestion?: string
  /** Undefined: an error. Warnings and notes do not reject the configuration; `--strict` fails on warnings only. */
  readonly level?: 'warning' | 'note'
  /** The source line contains a secret and must not be printed. */
  readonly concealed?: boolean
}

export interface FormatOptions {
  /** ANSI colours, for terminals. */
  readonly colours?: boolean
}

const WIDTH = 120

/**
 * Formats a problem as `file:line:column: sentence`, which editors and CI turn into links. With the file's text, it adds the
 * source line with a caret.
 */
export function formatProblem(problem: Problem, sourceText?: string, { colours = false }: FormatOptions = {}): string {
  const paint = (code: string, text: string) => (colours ? `\x1b[${code}m${text}\x1b[0m` : text)
  const { file, line, column } = problem
  const mark = problem.level === undefined ? '' : `${paint('33', `${problem.level}:`)} `
  const head = `${paint('1', visible(`${file}:${line}:${column}:`))} ${mark}${sentence(problem)}`
  const source = problem.concealed ? undefined : sourceText?.split(/\r?\n/)[line - 1]
  if (source === undefined || source.trim() === '') return head
  const { text, caret } = excerpt(source, column - 1)
  const number = String(line).padStart(4)
  return `${head}\n${paint('2', `${number} |`)} ${text}\n${paint('2', '     |')} ${caret}${paint('31', '^')}`
}

/** The message with its suggestion. */
export function sentence({ message, suggestion }: Problem): string {
  return visible(suggestion === undefined ? message : `${message}; ${suggestion}`)
}

/** The part of a line around an index, and the indentation for a caret under it. Tabs stay tabs. */
function excerpt(line: string, index: number): { text: string; caret: string } {
  const from = line.length <= WIDTH ? 0 : Math.max(0, Math.min(index - WIDTH / 2, line.length - WIDTH))
  const text = inColumns(line.slice(from, from + WIDTH))
  const caret = text.slice(0, index - from).replace(/[^\t]/g, ' ')
  return { text, caret: caret.padEnd(index - from, ' ') }
}

/** `a, b or c`, for sentences. */
export function listed(words: readonly string[], conjunction = 'or'): string {
  if (words.length < 2) return words.join('')
  return `${words.slice(0, -1).join(', ')} ${conjunction} ${words.at(-1)}`
}

/** The other lines with the same mistake, to append to a message. */
export function elsewhere(lines: readonly number[]): string {
  if (lines.length === 0) return ''
  const sorted = lines.toSorted((a, b) => a - b).map(String)
  return ` (also in line${lines.length === 1 ? '' : 's'} ${listed(sorted, 'and')})`
}

/** A value for a message: text in quotes, truncated to 60 characters. */
export function show(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object' && value !== null) return 'a map'
  const text = typeof value === 'string' ? `"${value.length > 60 ? `${value.slice(0, 57)}...` : value}"` : String(value)
  return visible(text)
}

/** Sorts problems in reading order and removes duplicates, which come from aliases. */
export function ordered(problems: readonly Problem[], files: readonly string[]): Problem[] {
  const seen = new Set<string>()
  const rank = (file: string) => (files.includes(file) ? files.indexOf(file) : files.length)
  return problems
    .filter(problem => {
      const mark = `${problem.file}:${problem.line}:${problem.column}:${problem.message}`
      return seen.has(mark) ? false : seen.add(mark)
    })
    .sort((a, b) => rank(a.file) - rank(b.file) || a.line - b.line || a.column - b.column)
}
