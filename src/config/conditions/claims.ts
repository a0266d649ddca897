/** Finds contradictions: parts of a condition that make claims about the same value and cannot all hold. */
import { isNode, type Node } from './condition-error.ts'

/** The values that remain possible for a field, a size, or a whole part. */
interface Domain {
  /** Null: any value. */
  allowed: readonly unknown[] | null
  excluded: readonly unknown[]
  low: Bound | null
  high: Bound | null
}

interface Bound {
  readonly at: bigint
  /** Whether the bound itself is included. */
  readonly within: boolean
}

interface Claim extends Partial<Domain> {
  readonly about: string
}

/**
 * Whether the parts can never all be true (with `wanted` false: all be false), although each one can:
 * `account.plan == "free" && account.plan == "pro"`.
 * @param constantOf the value of a part if it is the same for all requests; else undefined
 */
export function isContradictory(
  parts: readonly unknown[],
  wanted: boolean,
  constantOf: (node: unknown) => unknown,
): boolean {
  const domains = new Map<string, Domain>()
  for (const { about, ...claim } of parts.flatMap(part => claimsOf(part, wanted, constantOf))) {
    const before = domains.get(about) ?? { allowed: null, excluded: [], low: null, high: null }
    domains.set(about, intersect(before, claim))
  }
  return [...domains.values()].some(isEmpty)
}

function intersect(one: Domain, other: Partial<Domain>): Domain {
  const { allowed = null, excluded = [], low = null, high = null } = other
  return {
    allowed: one.allowed === null ? allowed : one.allowed.filter(value => allowed?.includes(value) ?? true),
    excluded: [...one.excluded, ...excluded],
    low: tighter(one.low, low, (a, b) => a > b),
    high: tighter(one.high, high, (a, b) => a < b),
  }
}

function tighter(one: Bound | null, other: Bound | null, isTighter: (a: bigint, b: bigint) => boolean): Bound | null {
  if (one === null || other === null) return one ?? other
  if (one.at === other.at) return one.within ? other : one
  return isTighter(one.at, other.at) ? one : other
}

function isEmpty({ allowed, excluded, low, high }: Domain): boolean {
  if (low !== null && high !== null) {
    if (low.at > high.at || (low.at === high.at && !(low.within && high.within))) return true
  }
  const fits = (value: unknown) => typeof value !== 'bigint' || (isAbove(value, low) && isBelow(value, high))
  return allowed?.every(value => excluded.includes(value) || !fits(value)) ?? false
}

const isAbove = (value: bigint, low: Bound | null) => low === null || value > low.at || (low.within && value === low.at)
const isBelow = (value: bigint, high: Bound | null) =>
  high === null || value < high.at || (high.within && value === high.at)

function claimsOf(part: unknown, wanted: boolean, constantOf: (node: unknown) => unknown): Claim[] {
  if (!isNode(part)) return []
  const { op, args } = part
  if (op === '!_') return claimsOf(args, !wanted, constantOf)
  if (op === (wanted ? '&&' : '||')) return (args as unknown[]).flatMap(each => claimsOf(each, wanted, constantOf))
  if (op === '!=') return claimsOf({ ...part, op: '==', args }, !wanted, constantOf)
  const whole: Claim = { about: keyOf(part), allowed: [wanted] }
  if (!Array.isArray(args)) return [whole]
  const [one, other] = args as unknown[]
  if (op === 'in') {
    const values = isNode(other) && other.op === 'list' ? (other.args as unknown[]).map(known) : [undefined]
    return values.includes(undefined) ? [whole] : [whole, among(one, values, wanted)]
  }
  const [subject, constant, turned] = known(one) === undefined ? [one, known(other), false] : [other, known(one), true]
  if (constant === undefined) return [whole]
  if (op === '==') return [whole, among(subject, [constant], wanted)]
  // "Not less" does not mean "greater or equal": NaN is neither.
  if (!wanted || typeof constant !== 'bigint' || !/^[<>]=?$/.test(op)) return [whole]
  const bound = { at: constant, within: op.endsWith('=') }
  const isLow = op.startsWith('>') !== turned
  return [whole, { about: keyOf(subject), ...(isLow ? { low: bound } : { high: bound }) }]

  function known(node: unknown): unknown {
    const value = constantOf(node)
    // In CEL, 1 equals 1.0.
    return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value
  }
}

const among = (subject: unknown, values: readonly unknown[], wanted: boolean): Claim =>
  wanted ? { about: keyOf(subject), allowed: values } : { about: keyOf(subject), excluded: values }

/** An equal text for equal parts, regardless of their position. */
function keyOf(part: unknown): string {
  if (Array.isArray(part)) return `[${part.map(keyOf).join()}]`
  if (isNode(part)) return `${part.op}(${part.op === '==' ? sides(part) : keyOf(part.args)})`
  if (typeof part === 'string') return JSON.stringify(part)
  // Bytes and unsigned integers.
  if (typeof part === 'object' && part !== null) return `${part.constructor.name}:${String(part)}`
  return `${typeof part}:${String(part)}`
}

const sides = ({ args }: Node) => (args as unknown[]).map(keyOf).sort().join()
