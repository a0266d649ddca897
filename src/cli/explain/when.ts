/** The names in a condition with their values: `account.plan` is "default". */

import { isNode } from '../../config/conditions/condition-error.ts'
import { parseWhen } from '../../config/conditions/when.ts'

/** A field of a fact, or a header, as written in the condition. */
export interface NamedValue {
  readonly name: string
  readonly value: string | number | boolean
}

/** @param facts the argument of the condition's evaluation; unreadable facts are omitted */
export function namedValues(source: string, facts: Record<string, unknown>): readonly NamedValue[] {
  const found = new Map<string, NamedValue>()
  walk(parseWhen(source), node => {
    const named = fieldOf(node, facts) ?? headerOf(node, facts)
    if (named) found.set(named.name, named)
  })
  return [...found.values()]
}

/** Formats values as `account.plan is "free", chat.stream is false`. */
export function valuesText(values: readonly NamedValue[]): string {
  return values.map(({ name, value }) => `${name} is ${JSON.stringify(value)}`).join(', ')
}

interface Parts {
  readonly op: string
  readonly args: readonly unknown[]
}

function walk(node: unknown, visit: (node: Parts) => void): void {
  if (Array.isArray(node)) for (const part of node) walk(part, visit)
  else if (isNode(node)) {
    if (Array.isArray(node.args)) visit({ op: node.op, args: node.args })
    walk(node.args, visit)
  }
}

/** `account.plan`, or `account["plan"]`. */
function fieldOf({ op, args: [object, field] }: Parts, facts: Record<string, unknown>): NamedValue | null {
  if (!isNode(object) || object.op !== 'id') return null
  const name =
    op === '.' ? String(field) : op === '[]' && isNode(field) && field.op === 'value' ? String(field.args) : null
  if (name === null) return null
  const fact = valueFrom(() => facts[String(object.args)]) as Record<string, unknown> | null
  const value = fact && plain(valueFrom(() => (fact instanceof Map ? fact.get(name) : fact[name])))
  return value === null ? null : { name: `${String(object.args)}.${name}`, value }
}

/** `header("x-team")`. */
function headerOf({ op, args: [name, args] }: Parts, facts: Record<string, unknown>): NamedValue | null {
  if (op !== 'call' || name !== 'header' || !Array.isArray(args)) return null
  const [header] = args as unknown[]
  if (!isNode(header) || header.op !== 'value') return null
  const { readHeader } = facts as { readHeader?: (name: string) => string }
  const value = plain(valueFrom(() => readHeader?.call(facts, String(header.args))))
  return value === null ? null : { name: `header(${JSON.stringify(header.args)})`, value }
}

/** The getter of a missing fact throws, as the condition does; the runner reports it. */
function valueFrom(get: () => unknown): unknown {
  try {
    return get() ?? null
  } catch {
    return null
  }
}

function plain(value: unknown): NamedValue['value'] | null {
  if (typeof value === 'bigint') return Number(value)
  return typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number' ? value : null
}
