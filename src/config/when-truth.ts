/**
 * Whether a condition can be true at all. Such a question has no complete answer; this one is never wrong about "always"
 * and "never", and says nothing (null) where it does not know: about what clients send and what the store holds.
 */

import { parseWhen } from './when.ts'
import { isNode, type Node } from './when-errors.ts'

/** A way by which requests come to a policy: what is known of them before any step has run. */
export interface Door {
  readonly method: string
  /** As the route says it: with `{id}` in it, it is known in part only. */
  readonly path: string
}

/** Whether a condition is always true or always false for requests at a door (null: nothing is known of them). */
export function truthOf(when: string, door: Door | null): boolean | null {
  const root = parseWhen(when)
  return root === null ? null : asTruth(meaningOf(root, door))
}

/** Not known before the request comes. */
const UNKNOWN = Symbol('unknown')

const asTruth = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null)

function meaningOf(node: unknown, door: Door | null): unknown {
  if (!isNode(node)) return UNKNOWN
  const args = node.args as unknown[]
  switch (node.op) {
    case 'value':
      return node.args
    case '.':
      return fieldOf(node, door)
    case '!_':
      return negated(meaningOf(node.args, door))
    case '&&':
      return every(partsOf(node), door)
    case '||':
      return some(partsOf(node), door)
    case '?:': {
      const asked = meaningOf(args[0], door)
      return typeof asked === 'boolean' ? meaningOf(args[asked ? 1 : 2], door) : UNKNOWN
    }
    case 'in':
      return isIn(args[0], args[1], door)
    case 'rcall':
      return calledOn(args, door)
  }
  const compare = COMPARE[node.op]
  return compare === undefined ? UNKNOWN : compared(compare, meaningOf(args[0], door), meaningOf(args[1], door))
}

/** What is known of `request.method` and `request.path`. */
function fieldOf(node: Node, door: Door | null): unknown {
  const name = fieldName(node)
  if (door === null) return UNKNOWN
  if (name === 'request.method') return door.method
  return name === 'request.path' && !door.path.includes('{') ? door.path : UNKNOWN
}

/** `account.plan`; null for what is no field of a fact. */
function fieldName(node: unknown): string | null {
  if (!isNode(node) || node.op !== '.') return null
  const [object, field] = node.args as unknown[]
  return isNode(object) && object.op === 'id' ? `${String(object.args)}.${String(field)}` : null
}

const COMPARE: Readonly<Record<string, (a: never, b: never) => boolean>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
}

function compared(compare: (a: never, b: never) => boolean, a: unknown, b: unknown): unknown {
  // Bytes and durations are objects, which CEL compares by what is in them.
  const isKnown = a !== UNKNOWN && typeof a !== 'object' && typeof a === typeof b && b !== UNKNOWN
  return isKnown ? compare(a as never, b as never) : UNKNOWN
}

const negated = (value: unknown) => (typeof value === 'boolean' ? !value : UNKNOWN)

/** The parts of `a && b && c`, which the parser nests. */
function partsOf(node: Node): unknown[] {
  return (node.args as unknown[]).flatMap(part => (isNode(part) && part.op === node.op ? partsOf(part) : [part]))
}

function every(parts: readonly unknown[], door: Door | null): unknown {
  const values = parts.map(part => meaningOf(part, door))
  if (values.includes(false) || contradictory(parts)) return false
  return values.every(value => value === true) ? true : UNKNOWN
}

function some(parts: readonly unknown[], door: Door | null): unknown {
  const values = parts.map(part => meaningOf(part, door))
  if (values.includes(true)) return true
  return values.every(value => value === false) ? false : UNKNOWN
}

/** `account.plan == "free" && account.plan == "pro"`: each part may be true, and both never are. */
function contradictory(parts: readonly unknown[]): boolean {
  const left = new Map<string, readonly unknown[]>()
  for (const part of parts) {
    const said = wantedValues(part)
    if (said === null) continue
    const before = left.get(said.field)
    left.set(said.field, before === undefined ? said.values : before.filter(value => said.values.includes(value)))
  }
  return [...left.values()].some(values => values.length === 0)
}

/** The values that a part such as `account.plan == "free"` or `key.name in ["a", "b"]` leaves to a field. */
function wantedValues(part: unknown): { field: string; values: readonly unknown[] } | null {
  if (!isNode(part) || (part.op !== '==' && part.op !== 'in')) return null
  const [one, other] = part.args as unknown[]
  const field = fieldName(one) ?? (part.op === '==' ? fieldName(other) : null)
  if (field === null) return null
  const constant = fieldName(one) === null ? one : other
  const values = part.op === 'in' ? constantsOf(constant) : [meaningOf(constant, null)]
  return values === null || values.includes(UNKNOWN) ? null : { field, values }
}

function constantsOf(list: unknown): unknown[] | null {
  if (!isNode(list) || list.op !== 'list') return null
  return (list.args as unknown[]).map(item => meaningOf(item, null))
}

function isIn(item: unknown, list: unknown, door: Door | null): unknown {
  const values = constantsOf(list)
  if (values === null || values.includes(UNKNOWN)) return UNKNOWN
  if (values.length === 0) return false
  const value = meaningOf(item, door)
  return value === UNKNOWN ? UNKNOWN : values.includes(value)
}

const TEXT_CALLS: Readonly<Record<string, (text: string, part: string) => boolean>> = {
  startsWith: (text, part) => text.startsWith(part),
  endsWith: (text, part) => text.endsWith(part),
  contains: (text, part) => text.includes(part),
}

function calledOn([name, on, args]: readonly unknown[], door: Door | null): unknown {
  const call = TEXT_CALLS[String(name)]
  const [text, part] = [meaningOf(on, door), meaningOf((args as unknown[])[0], door)]
  return call === undefined || typeof text !== 'string' || typeof part !== 'string' ? UNKNOWN : call(text, part)
}
