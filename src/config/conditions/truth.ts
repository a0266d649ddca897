/**
 * Detects conditions that are always true or never true. The answer is never wrong, but incomplete: it is null if it depends
 * on requests or on the store.
 */

import { isContradictory } from './claims.ts'
import { fieldName, isNode, type Node } from './condition-error.ts'
import { parseWhen } from './when.ts'

/** A route to a policy: the part of its requests that is known at load. */
export interface RoutePath {
  readonly method: string
  /** The route's path. With `{id}` in it, only a part is known. */
  readonly path: string
}

/** The sizes of a model that conditions can compare, in tokens. */
export interface ModelSizes {
  readonly context: number
  readonly maxOutput: number
}

/** Facts of a request that are known at load. */
interface StaticFacts {
  readonly routePath: RoutePath | null
  readonly model: ModelSizes | null
}

const NOTHING: StaticFacts = { routePath: null, model: null }

/**
 * Whether a condition is always true or always false for the requests of a route (null: unknown) to a model (null: any). The
 * output cap is assumed to be at most the model's.
 */
export function truthOf(when: string, routePath: RoutePath | null, model: ModelSizes | null = null): boolean | null {
  const root = parseWhen(when)
  return root === null ? null : asTruth(meaningOf(root, { routePath, model }))
}

/** Unknown until a request arrives. */
const UNKNOWN = Symbol('unknown')

const asTruth = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null)

function meaningOf(node: unknown, known: StaticFacts): unknown {
  if (!isNode(node)) return UNKNOWN
  const args = node.args as unknown[]
  switch (node.op) {
    case 'value':
      return node.args
    case '.':
      return fieldOf(node, known)
    case '!_':
      return negated(meaningOf(node.args, known))
    case '&&':
      return every(partsOf(node), known)
    case '||':
      return some(partsOf(node), known)
    case '?:': {
      const condition = meaningOf(args[0], known)
      return typeof condition === 'boolean' ? meaningOf(args[condition ? 1 : 2], known) : UNKNOWN
    }
    case 'in':
      return isIn(args[0], args[1], known)
    case 'rcall':
      return calledOn(args, known)
  }
  const sides = Array.isArray(args) ? args.map(each => meaningOf(each, known)) : []
  const compare = COMPARE[node.op]
  if (compare !== undefined) return byCap(node, sides, known) ?? compared(compare, sides[0], sides[1])
  return CALCULATE[node.op] === undefined ? UNKNOWN : calculated(CALCULATE[node.op]!, sides[0], sides[1])
}

function fieldOf(node: Node, { routePath, model }: StaticFacts): unknown {
  switch (fieldName(node)) {
    case 'request.method':
      return routePath?.method ?? UNKNOWN
    case 'request.path':
      return routePath === null || routePath.path.includes('{') ? UNKNOWN : routePath.path
    case 'model.context':
      return model === null ? UNKNOWN : BigInt(model.context)
    case 'model.max_output':
      return model === null ? UNKNOWN : BigInt(model.maxOutput)
  }
  return UNKNOWN
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
  // Bytes and durations are objects, which CEL compares by value.
  const isKnown = a !== UNKNOWN && typeof a !== 'object' && typeof a === typeof b && b !== UNKNOWN
  return isKnown ? compare(a as never, b as never) : UNKNOWN
}

/** `chat.cap > model.max_output`: the cap is unknown, but its maximum is known. Null if that does not decide. */
function byCap({ op, args }: Node, [left, right]: readonly unknown[], { model }: StaticFacts): boolean | null {
  if (model === null) return null
  const [one, other] = args as unknown[]
  const turned = fieldName(other) === 'chat.cap'
  const bound = turned ? left : right
  if ((!turned && fieldName(one) !== 'chat.cap') || typeof bound !== 'bigint') return null
  const most = BigInt(model.maxOutput)
  switch (turned ? (TURNED[op] ?? op) : op) {
    case '>':
      return bound >= most ? false : null
    case '<=':
      return bound >= most ? true : null
    case '>=':
    case '==':
      return bound > most ? false : null
    case '<':
    case '!=':
      return bound > most ? true : null
  }
  return null
}

const TURNED: Readonly<Record<string, string>> = { '<': '>', '<=': '>=', '>': '<', '>=': '<=' }

const CALCULATE: Readonly<Record<string, (a: bigint, b: bigint) => bigint>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
}

/** Calculates with integers. An overflow of CEL's int, or a division by 0, has no value. */
function calculated(calculate: (a: bigint, b: bigint) => bigint, a: unknown, b: unknown): unknown {
  if (typeof a !== 'bigint' || typeof b !== 'bigint') return UNKNOWN
  try {
    const result = calculate(a, b)
    return BigInt.asIntN(64, result) === result ? result : UNKNOWN
  } catch {
    return UNKNOWN
  }
}

const negated = (value: unknown) => (typeof value === 'boolean' ? !value : UNKNOWN)

/** The parts of `a && b && c`, which the parser nests. */
function partsOf(node: Node): unknown[] {
  return (node.args as unknown[]).flatMap(part => (isNode(part) && part.op === node.op ? partsOf(part) : [part]))
}

function every(parts: readonly unknown[], known: StaticFacts): unknown {
  const values = parts.map(part => meaningOf(part, known))
  if (values.includes(false) || isContradictory(parts, true, constantOf)) return false
  return values.every(value => value === true) ? true : UNKNOWN
}

function some(parts: readonly unknown[], known: StaticFacts): unknown {
  const values = parts.map(part => meaningOf(part, known))
  if (values.includes(true) || isContradictory(parts, false, constantOf)) return true
  return values.every(value => value === false) ? false : UNKNOWN
}

/** The value of a part for all requests; undefined if it varies or cannot be compared. */
function constantOf(node: unknown): unknown {
  const value = meaningOf(node, NOTHING)
  return value === UNKNOWN || typeof value === 'object' ? undefined : value
}

function constantsOf(list: unknown): unknown[] | null {
  if (!isNode(list) || list.op !== 'list') return null
  return (list.args as unknown[]).map(item => meaningOf(item, NOTHING))
}

function isIn(item: unknown, list: unknown, known: StaticFacts): unknown {
  const values = constantsOf(list)
  if (values === null || values.includes(UNKNOWN)) return UNKNOWN
  if (values.length === 0) return false
  const value = meaningOf(item, known)
  return value === UNKNOWN ? UNKNOWN : values.includes(value)
}

const TEXT_CALLS: Readonly<Record<string, (text: string, part: string) => boolean>> = {
  startsWith: (text, part) => text.startsWith(part),
  endsWith: (text, part) => text.endsWith(part),
  contains: (text, part) => text.includes(part),
}

function calledOn([name, on, args]: readonly unknown[], known: StaticFacts): unknown {
  const call = TEXT_CALLS[String(name)]
  const [text, part] = [meaningOf(on, known), meaningOf((args as unknown[])[0], known)]
  return call === undefined || typeof text !== 'string' || typeof part !== 'string' ? UNKNOWN : call(text, part)
}
