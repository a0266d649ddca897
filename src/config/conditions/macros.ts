/** Macros, which bind names (`list.exists(x, …)` and `cel.bind(x, …, …)`), and the names that remain unbound. */
import { isNode, type Node } from './condition-error.ts'

export interface Macro {
  /** Null for `cel.bind`. */
  readonly name: 'all' | 'exists' | 'exists_one' | 'filter' | 'map' | null
  readonly variable: string
  /** The list; for `cel.bind`, the value. */
  readonly range: Node
  /** The expressions that use the variable. */
  readonly bodies: readonly Node[]
}

const OVER_LISTS = ['all', 'exists', 'exists_one', 'filter', 'map'] as const

/** The macro of a node; null if the node is not a macro. */
export function macroOf(node: Node): Macro | null {
  if (node.op !== 'rcall') return null
  const [word, receiver, [variable, ...rest]] = node.args as [string, Node, Node[]]
  if (variable?.op !== 'id') return null
  const bound = String(variable.args)
  if (word === 'bind' && receiver.op === 'id' && receiver.args === 'cel' && rest.length === 2)
    return { name: null, variable: bound, range: rest[0]!, bodies: [rest[1]!] }
  const name = OVER_LISTS.find(each => each === word)
  return name === undefined || rest.length === 0 ? null : { name, variable: bound, range: receiver, bodies: rest }
}

/** The nodes with values from outside: names that no enclosing macro binds, and calls of `header()`. */
export function* unbound(node: unknown, bound: ReadonlySet<string> = new Set()): Generator<Node> {
  if (Array.isArray(node)) for (const part of node) yield* unbound(part, bound)
  if (!isNode(node)) return
  if (node.op === 'id') {
    if (!bound.has(String(node.args))) yield node
    return
  }
  if (node.op === 'call' && (node.args as unknown[])[0] === 'header') yield node
  const macro = macroOf(node)
  if (macro === null) yield* unbound(node.args, bound)
  else {
    yield* unbound(macro.range, bound)
    yield* unbound(macro.bodies, new Set([...bound, macro.variable]))
  }
}

/** Whether a part of a condition has the same value for every request. */
export const isConstant = (node: unknown): boolean => unbound(node).next().done === true
