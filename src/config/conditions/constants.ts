/** Parts of a condition that have one value for all requests: one that cannot be worked out would fail for each of them. */
import { EvaluationError } from '@marcbachmann/cel-js'
import { isNode, type Node, type WhenError, wordsFor } from './condition-error.ts'
import { isConstant } from './macros.ts'

/**
 * The first constant part that fails whenever it is worked out, and the first division by a constant 0; null when there
 * is none. What stands behind a constant that decides already (`true || …`) is not worked out, here as later.
 * @param worth evaluates a part without names; throws as the evaluation would
 */
export function failingPart(node: unknown, worth: (node: Node) => unknown): WhenError | null {
  if (Array.isArray(node)) return first(node, part => failingPart(part, worth))
  if (!isNode(node) || node.op === 'value') return null
  if (!isConstant(node)) return zeroBelow(node, worth) ?? failingPart(node.args, worth)
  try {
    worth(node)
    return null
  } catch (error) {
    if (!(error instanceof EvaluationError)) return null
    const { message } = wordsFor(error, '')
    const inner = failingPart(node.args, worth)
    return inner ?? { message: `${message}, so every request would fail`, offset: node.start ?? node.pos ?? 0 }
  }
}

function zeroBelow({ op, args }: Node, worth: (node: Node) => unknown): WhenError | null {
  if (op !== '/' && op !== '%') return null
  const divisor = (args as Node[])[1]!
  if (!isConstant(divisor) || !isZero(divisor, worth)) return null
  const offset = divisor.start ?? divisor.pos ?? 0
  return { message: 'nothing can be divided by 0, so every request would fail', offset }
}

/** Of whole numbers only: with others the result is infinite. */
function isZero(node: Node, worth: (node: Node) => unknown): boolean {
  try {
    const value = worth(node)
    return typeof value === 'bigint' ? value === 0n : typeof value === 'object' && String(value) === '0'
  } catch {
    return false
  }
}

function first<Part, Found>(parts: readonly Part[], find: (part: Part) => Found | null): Found | null {
  for (const part of parts) {
    const found = find(part)
    if (found !== null) return found
  }
  return null
}
