/** Errors of conditions, with message and offset, and the check for parts of CEL that are not allowed. */
import { didYouMean, listed } from '../yaml/problem.ts'
import { WHEN_FIELDS, type WhenName } from './facts.ts'

export interface WhenError {
  readonly message: string
  readonly suggestion?: string
  /** Identifies a mistake that appears in several places. */
  readonly same?: string
  /** Characters from the start of the condition. */
  readonly offset: number
}

/** A node of the parsed condition, with the fields that are used here. */
export interface Node {
  readonly op: string
  readonly args: unknown
  readonly pos?: number
  readonly start?: number
}

/** Whether a value is a node of the tree, not a name, a value or a list. */
export const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'op' in value

/** All names in a condition. */
export function namesIn(node: unknown): Set<string> {
  const names = new Set<string>()
  walk(node, each => {
    if (each.op === 'id') names.add(String(each.args))
  })
  return names
}

/** `account.plan`; null if the node is not a field of a fact. */
export function fieldName(node: unknown): string | null {
  if (!isNode(node) || node.op !== '.') return null
  const [object, field] = node.args as unknown[]
  return isNode(object) && object.op === 'id' ? `${String(object.args)}.${String(field)}` : null
}

/** All fields of a fact in a condition. */
export function fieldsIn(node: unknown, fact: WhenName): string[] {
  const fields = new Set<string>()
  walk(node, ({ op, args }) => {
    if (op !== '.' && op !== '[]') return
    const [object, field] = args as unknown[]
    if (isFact(object) && object.args === fact) fields.add(String(isNode(field) ? field.args : field))
  })
  return [...fields]
}

/** Visits every node of a tree, starting at the root. */
export function walk(node: unknown, visit: (node: Node) => void): void {
  if (Array.isArray(node)) for (const part of node) walk(part, visit)
  else if (isNode(node)) {
    visit(node)
    walk(node.args, visit)
  }
}

/**
 * The first part of a condition that would bypass the check at load, or that a client could make slow; null without one.
 * @param tags the names of tags that a condition can use; undefined: any
 */
export function findForbiddenPart(root: Node, tags?: readonly string[]): WhenError | null {
  let found: WhenError | null = null
  walk(root, node => {
    found ??= refusal(node, tags)
  })
  return found
}

function refusal(node: Node, tags: readonly string[] | undefined): WhenError | null {
  const offset = node.pos ?? node.start ?? 0
  const args = node.args as unknown[]
  switch (node.op) {
    case 'call':
      if (args[0] === 'dyn')
        return { message: 'dyn() is not allowed: it hides mistakes until a request arrives', offset }
      return null
    case 'rcall':
      if (args[0] !== 'matches') return null
      return {
        message: 'matches() is not allowed: a client could make a regular expression run for hours',
        suggestion: 'use ==, in, startsWith(), endsWith() or contains()',
        offset,
      }
    case '[]':
      if (!isFact(args[0])) return null
      if (isNode(args[1]) && args[1].op === 'value') return unknownField(args[0], String(args[1].args), offset, tags)
      return {
        message: `a field of ${factOf(args[0])} must be written as a name`,
        suggestion: 'write it with a dot',
        offset,
      }
    case '.':
      return unknownField(args[0], String(args[1]), offset, tags)
  }
  return null
}

const isFact = (node: unknown): node is Node & { args: WhenName } =>
  isNode(node) && node.op === 'id' && Object.hasOwn(WHEN_FIELDS, String(node.args))
const factOf = (node: unknown): string => String((node as Node).args)

/** The type check does not find unknown fields: `has(account.plna)` passes it. */
function unknownField(
  object: unknown,
  field: string,
  offset: number,
  tags: readonly string[] | undefined,
): WhenError | null {
  if (!isFact(object)) return null
  const isTag = object.args === 'tags'
  const fields = isTag ? (tags ?? [field]) : Object.keys(WHEN_FIELDS[object.args])
  if (fields.includes(field)) return null
  if (isTag) {
    const suggestion = didYouMean(field, fields) ?? `it declares ${listed(fields, 'and')}`
    return { message: `the step "tags" declares no tag "${field}"`, suggestion, offset }
  }
  const suggestion = didYouMean(field, fields) ?? `it has ${listed(fields, 'and')}`
  return { message: `${object.args} has no field "${field}"`, suggestion, offset }
}

/** Converts the checker's error to our message; `variable` is set for an unknown name. */
export function explainError(error: unknown, source: string): WhenError & { readonly variable?: string } {
  const { code, summary, range, node, message } = error as {
    code?: string
    summary?: string
    range?: { start: number }
    node?: Node
    message?: string
  }
  const offset = range?.start ?? 0
  if (code === 'unknown_variable' && typeof node?.args === 'string') return { message: '', offset, variable: node.args }
  const text = (summary ?? message ?? String(error)).split('\n', 1)[0]!
  const unfit = unfitTypes(text)
  const words = unfit?.message ?? `the condition has an error here: ${text[0]?.toLowerCase()}${text.slice(1)}`
  const suggestion = unfit?.suggestion ?? parseHint(source, offset, code)
  return { message: words, offset, ...(suggestion === undefined ? {} : { suggestion }) }
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'a text',
  int: 'a whole number',
  double: 'a decimal number',
  bool: 'a boolean',
  list: 'a list',
}

/** Replaces CEL's "No such overload: string == int" by a plain message. */
function unfitTypes(text: string): { readonly message: string; readonly suggestion?: string } | null {
  const [, left, operator, right] = /^no such overload: (\w+)(?:<[^>]*>)? (\S+) (\w+)(?:<[^>]*>)?$/i.exec(text) ?? []
  const [one, other] = [KINDS[left ?? ''], KINDS[right ?? '']]
  if (operator === undefined || one === undefined || other === undefined) return null
  const message = `${operator} cannot be used with ${one} and ${other}`
  if (operator === 'in')
    return { message, suggestion: 'write a list as ["a", "b"], or find a part of a text with contains()' }
  if (left === right) return { message }
  if (right === 'string')
    return { message, suggestion: left === 'bool' ? 'write true or false' : 'write the value without quotes' }
  return left === 'string' ? { message, suggestion: 'write the value in quotes' } : { message }
}

function parseHint(source: string, offset: number, code: string | undefined): string | undefined {
  if (!code?.startsWith('unexpected')) return undefined
  if (source[offset] === '=') return 'write equality as =='
  const word = /\b(and|or|not|AND|OR|NOT)\b/.exec(source)?.[1]?.toLowerCase()
  if (word === undefined) return undefined
  return `write ${{ and: '&&', or: '||', not: '!' }[word]} instead of "${word}"`
}
