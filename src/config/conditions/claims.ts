/** What the parts of a condition say about the same thing, and whether all of it can be so at once. */
import { isNode, type Node } from './condition-error.ts'

/** What is left for one thing: a field, a size, or a part as a whole. */
interface Left {
  /** Null: any value. */
  allowed: readonly unknown[] | null
  excluded: readonly unknown[]
  low: Bound | null
  high: Bound | null
}

interface Bound {
  readonly at: bigint
  /** Whether the value itself is still within. */
  readonly within: boolean
}

interface Claim extends Partial<Left> {
  readonly about: string
}

/**
 * Whether parts of which each may be true (or with `said` false: each may be false) can never be so together:
 * `account.plan == "free" && account.plan == "pro"`.
 * @param constantOf the value of a part that has the same for all requests; undefined for others
 */
export function contradictory(
  parts: readonly unknown[],
  said: boolean,
  constantOf: (node: unknown) => unknown,
): boolean {
  const left = new Map<string, Left>()
  for (const { about, ...claim } of parts.flatMap(part => claimsOf(part, said, constantOf))) {
    const before = left.get(about) ?? { allowed: null, excluded: [], low: null, high: null }
    left.set(about, both(before, claim))
  }
  return [...left.values()].some(isNothing)
}

function both(one: Left, other: Partial<Left>): Left {
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

function isNothing({ allowed, excluded, low, high }: Left): boolean {
  if (low !== null && high !== null) {
    if (low.at > high.at || (low.at === high.at && !(low.within && high.within))) return true
  }
  const fits = (value: unknown) => typeof value !== 'bigint' || (isAbove(value, low) && isBelow(value, high))
  return allowed?.every(value => excluded.includes(value) || !fits(value)) ?? false
}

const isAbove = (value: bigint, low: Bound | null) => low === null || value > low.at || (low.within && value === low.at)
const isBelow = (value: bigint, high: Bound | null) =>
  high === null || value < high.at || (high.within && value === high.at)

function claimsOf(part: unknown, said: boolean, constantOf: (node: unknown) => unknown): Claim[] {
  if (!isNode(part)) return []
  const { op, args } = part
  if (op === '!_') return claimsOf(args, !said, constantOf)
  if (op === (said ? '&&' : '||')) return (args as unknown[]).flatMap(each => claimsOf(each, said, constantOf))
  if (op === '!=') return claimsOf({ ...part, op: '==', args }, !said, constantOf)
  const whole: Claim = { about: keyOf(part), allowed: [said] }
  if (!Array.isArray(args)) return [whole]
  const [one, other] = args as unknown[]
  if (op === 'in') {
    const values = isNode(other) && other.op === 'list' ? (other.args as unknown[]).map(known) : [undefined]
    return values.includes(undefined) ? [whole] : [whole, among(one, values, said)]
  }
  const [subject, constant, turned] = known(one) === undefined ? [one, known(other), false] : [other, known(one), true]
  if (constant === undefined) return [whole]
  if (op === '==') return [whole, among(subject, [constant], said)]
  // What is not less need not be as much: there are numbers that are none.
  if (!said || typeof constant !== 'bigint' || !/^[<>]=?$/.test(op)) return [whole]
  const bound = { at: constant, within: op.endsWith('=') }
  const isLow = op.startsWith('>') !== turned
  return [whole, { about: keyOf(subject), ...(isLow ? { low: bound } : { high: bound }) }]

  function known(node: unknown): unknown {
    const value = constantOf(node)
    // CEL takes 1 and 1.0 for the same.
    return typeof value === 'number' && Number.isInteger(value) ? BigInt(value) : value
  }
}

const among = (subject: unknown, values: readonly unknown[], said: boolean): Claim =>
  said ? { about: keyOf(subject), allowed: values } : { about: keyOf(subject), excluded: values }

/** The same text for parts that say the same, wherever they stand. */
function keyOf(part: unknown): string {
  if (Array.isArray(part)) return `[${part.map(keyOf).join()}]`
  if (isNode(part)) return `${part.op}(${part.op === '==' ? sides(part) : keyOf(part.args)})`
  if (typeof part === 'string') return JSON.stringify(part)
  // Bytes, and whole numbers without a sign.
  if (typeof part === 'object' && part !== null) return `${part.constructor.name}:${String(part)}`
  return `${typeof part}:${String(part)}`
}

const sides = ({ args }: Node) => (args as unknown[]).map(keyOf).sort().join()
