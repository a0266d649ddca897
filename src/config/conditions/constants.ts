/** Finds constant parts of a condition whose evaluation fails: they would fail for every request. */
import { EvaluationError } from '@marcbachmann/cel-js'
import { explainError, isNode, type Node, type WhenError } from './condition-error.ts'
import { isConstant } from './macros.ts'

/**
 * The first constant part whose evaluation fails, or the first division by a constant 0; null without one. As at run time,
 * parts after a deciding constant (`true || …`) are not evaluated.
 * @param evaluate evaluates a part without names; throws like the real evaluation
 */
export function failingPart(node: unknown, evaluate: (node: Node) => unknown): WhenError | null {
  if (Array.isArray(node)) return first(node, part => failingPart(part, evaluate))
  if (!isNode(node) || node.op === 'value') return null
  if (!isConstant(node)) return zeroBelow(node, evaluate) ?? failingPart(node.args, evaluate)
  try {
    evaluate(node)
    return null
  } catch (error) {
    if (!(error instanceof EvaluationError)) return null
    const { message } = explainError(error, '')
    const inner = failingPart(node.args, evaluate)
    return inner ?? { message: `${message}, so every request would fail`, offset: node.start ?? node.pos ?? 0 }
  }
}

function zeroBelow({ op, args }: Node, evaluate: (node: Node) => unknown): WhenError | null {
  if (op !== '/' && op !== '%') return null
  const divisor = (args as Node[])[1]!
  if (!isConstant(divisor) || !isZero(divisor, evaluate)) return null
  const offset = divisor.start ?? divisor.pos ?? 0
  return { message: 'this divides by 0, so every request would fail', offset }
}

/** For integers only: with floating-point numbers the result is infinite. */
function isZero(node: Node, evaluate: (node: Node) => unknown): boolean {
  try {
    const value = evaluate(node)
    return typeof value === 'bigint' ? value === 0n : typeof value === 'object' && String(value) === '0'
  } catch {
    return false
  }
}

function first<Part, Result>(parts: readonly Part[], find: (part: Part) => Result | null): Result | null {
  for (const part of parts) {
    const found = find(part)
    if (found !== null) return found
  }
  return null
}
