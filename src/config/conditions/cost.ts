/**
 * The maximum cost of a condition, computed at load for headers of maximum length. Clients control how much work a short
 * condition causes. Two nested macros over the letters of a header are a hundred million rounds, which block the gateway.
 */
import { isNode, type Node, type WhenError } from './condition-error.ts'
import { macroOf } from './macros.ts'

/** One step takes about 100 ns, so this is a tenth of a second for one request. */
const MAX_STEPS = 1_000_000
/** The maximum length of a request's path and all of its headers (`maxHeaderSize` in app.ts). */
const MAX_HEAD = 16 * 1024
/** The maximum length of names, plans and ids. */
const MAX_NAME = 200
/** A list with more items is also estimated as one long text. */
const MANY_ITEMS = 64

/** The maximum size of a value: characters in total, and items of a list. */
interface Bulk {
  readonly size: number
  readonly items: number
}

const ONE: Bulk = { size: 1, items: 1 }

class CostLimitExceeded extends Error {
  readonly steps: number
  readonly node: Node
  constructor(steps: number, node: Node) {
    super('too long')
    this.steps = steps
    this.node = node
  }
}

/** The error of a condition that a client could make too slow; null if none can. */
export function findSlowPart(root: Node): WhenError | null {
  try {
    estimate(root, new Map())
    return null
  } catch (error) {
    if (!(error instanceof CostLimitExceeded)) throw error
    const { steps, node } = error
    const [most, allowed] = [steps, MAX_STEPS].map(inMillions)
    return {
      message: `a client could block the gateway here: up to ${most} steps for one request, and ${allowed} are allowed`,
      suggestion:
        (node.args as unknown[])[0] === 'duration'
          ? 'use duration() only with a constant text'
          : 'read a value from the client only once, with ==, in, startsWith() or one macro',
      offset: node.start ?? node.pos ?? 0,
    }
  }
}

function inMillions(steps: number): string {
  return steps > 1e12 ? 'more than a trillion' : `${Math.ceil(steps / 1e6).toLocaleString('en-US')} million`
}

type Scope = ReadonlyMap<string, Bulk>

interface Estimate extends Bulk {
  readonly steps: number
}

function estimate(node: Node, scope: Scope): Estimate {
  const result = estimateOf(node, scope)
  if (result.steps > MAX_STEPS || result.size > MAX_STEPS * 64)
    throw new CostLimitExceeded(Math.max(result.steps, result.size), node)
  return result
}

function estimateOf(node: Node, scope: Scope): Estimate {
  const args = node.args as unknown[]
  if (node.op === 'value') return { ...ONE, size: sizeOf(node.args), steps: 0 }
  if (node.op === 'id') return { ...(scope.get(String(node.args)) ?? ONE), steps: 0 }
  const macro = macroOf(node)
  if (macro !== null) return estimateMacro(macro, scope)
  const parts = nodesIn(args).map(part => estimate(part, scope))
  const before = sum(parts.map(part => part.steps))
  const all: Bulk = { size: sum(parts.map(part => part.size)), items: sum(parts.map(part => part.items)) }
  switch (node.op) {
    case '.':
      return { ...fieldOf(node, all), steps: before + 1 }
    case 'list':
      return { size: all.size, items: parts.length, steps: before + parts.length }
    case 'map':
    case '[]':
    case '+':
      return { ...all, steps: before + 1 + all.size / 64 }
    case '?:':
      return { ...all, steps: before + 1 }
    case 'call':
    case 'rcall':
      return called(String(args[0]), parts, all, before)
    case 'in':
      return { ...ONE, steps: before + 1 + all.size / 64 + all.items / 4 }
    default:
      // A comparison of two texts ends with the shorter one.
      return { ...ONE, steps: before + 1 + Math.min(...parts.map(part => part.size)) / 64 }
  }
}

/** Estimates the list twice, with many short items and with a single long one: the maximum cost is at one of the two. */
function estimateMacro({ name, variable, range, bodies }: NonNullable<ReturnType<typeof macroOf>>, scope: Scope) {
  const list = estimate(range, scope)
  const round = (value: Bulk) => {
    const inner = new Map(scope).set(variable, value)
    const parts = bodies.map(body => estimate(body, inner))
    return { ...parts.at(-1)!, steps: sum(parts.map(part => part.steps)) }
  }
  if (name === null) {
    const body = round(list)
    return { ...body, steps: list.steps + body.steps + 1 }
  }
  const { size, items } = list
  const ways = items > MANY_ITEMS ? [round({ size: size / items, items: size / items }), round(list)] : [round(list)]
  const steps = list.steps + (ways[0]!.steps + 1) * items + (ways[1]?.steps ?? 0)
  if (name === 'map') return { size: ways[0]!.size * items + (ways[1]?.size ?? 0), items, steps }
  return name === 'filter' ? { size, items, steps } : { ...ONE, steps }
}

function called(name: string, parts: readonly Estimate[], all: Bulk, before: number): Estimate {
  const [on = ONE, other = ONE] = parts
  const text = (steps: number, size = all.size): Estimate => ({ size, items: size, steps: before + 1 + steps })
  switch (name) {
    case 'header':
      return text(1 + all.size / 64, MAX_HEAD)
    case 'split':
      return text(on.size / 8, on.size + 1)
    case 'join':
      return text(on.items / 8, on.size + on.items * (parts.length > 1 ? other.size : 0))
    case 'contains':
    case 'indexOf':
    case 'lastIndexOf':
      return { ...ONE, steps: before + 1 + on.size / 64 + (on.size * other.size) / 400 }
    case 'size':
      return { ...ONE, steps: before + 1 + on.size / 2 }
    // Its regular expression backtracks over the digits.
    case 'duration':
      return { ...ONE, steps: before + 1 + on.size ** 3 / 100 }
  }
  // With a time zone.
  if (/^get[A-Z]/.test(name)) return { ...ONE, steps: before + (parts.length > 1 ? 500 : 1) }
  return text(all.size / 16, all.size * (name === 'hex' || name === 'base64' ? 2 : 1))
}

function fieldOf(node: Node, all: Bulk): Bulk {
  const [object, field] = node.args as [Node, string]
  if (object.op !== 'id') return all
  const size = object.args === 'request' && field === 'path' ? MAX_HEAD : MAX_NAME
  return { size, items: size }
}

const sizeOf = (value: unknown): number =>
  typeof value === 'string' ? value.length : value instanceof Uint8Array ? value.length : 1

/** The nodes among the arguments, including those in a map's pairs. */
function nodesIn(args: unknown): Node[] {
  if (Array.isArray(args)) return args.flatMap(nodesIn)
  return isNode(args) ? [args] : []
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0)
