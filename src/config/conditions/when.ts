/**
 * `when`: a step's condition, in CEL. It is checked at load against the facts that earlier steps always give, so no fact can
 * be missing at run time. A missing text is "", a missing number 0.
 */
import { Environment } from '@marcbachmann/cel-js'
import type { FactName } from '#contract'
import type { CompiledWhen } from '../configuration.ts'
import { didYouMean, listed } from '../yaml/problem.ts'
import { explainError, fieldsIn, findForbiddenPart, type Node, namesIn, type WhenError } from './condition-error.ts'
import { failingPart } from './constants.ts'
import { findSlowPart } from './cost.ts'
import { WHEN_FIELDS, WHEN_NAMES, WHEN_TYPES, type WhenFacts, type WhenName } from './facts.ts'
import { unbound } from './macros.ts'

export { factsOf, WHEN_FIELDS, type WhenContext, whenFacts } from './facts.ts'

// The facts of the current evaluation, for `header()`: CEL passes no context to functions. Evaluation is synchronous, so one variable is enough.
let current: WhenFacts | null = null

let shared: Environment | undefined

/** The environment with all types and no variables. Each condition gets a copy with the variables of its place. */
function environment(): Environment {
  if (shared !== undefined) return shared
  shared = new Environment({ limits: { maxAstNodes: 1000, maxDepth: 50 } })
  for (const name of WHEN_NAMES) {
    if (name === 'tags') continue
    shared.registerType(typeName(name), { ctor: WHEN_TYPES[name], fields: WHEN_FIELDS[name] })
  }
  shared.registerFunction('header(string): string', (name: string) => current!.readHeader(name))
  return shared
}

const typeName = (name: WhenName) => `${name[0]!.toUpperCase()}${name.slice(1)}Facts`

/** The facts and tags that a condition can use at its place in the policy. */
export interface WhenPlace {
  /** Facts that earlier steps always give. */
  readonly given: ReadonlySet<FactName>
  /** Explains why a fact is missing: the end of a sentence, and a suggestion. */
  readonly missing: (fact: FactName) => Omit<WhenError, 'offset'>
  /** The names of tags that an earlier step declares; undefined: unknown. */
  readonly tags?: readonly string[] | undefined
}

export type WhenResult = { readonly when: CompiledWhen } | { readonly error: WhenError }

/** Checks and compiles a condition for its place. */
export function compileWhen(source: string, place: WhenPlace): WhenResult {
  const names = WHEN_NAMES.filter(name => name === 'request' || place.given.has(name))
  const scope = environment().clone()
  if (names.includes('tags')) {
    const fields = (place.tags ?? fieldsIn(parseWhen(source), 'tags')).map(tag => [tag, 'string'])
    scope.registerType(typeName('tags'), { ctor: WHEN_TYPES.tags, fields: Object.fromEntries(fields) })
  }
  for (const name of names) scope.registerVariable(name, typeName(name))
  try {
    const program = scope.parse(source)
    const wrong = findForbiddenPart(program.ast as unknown as Node, place.tags)
    if (wrong !== null) return { error: wrong }
    const { valid, type, error } = program.check()
    if (!valid) return { error: explain(error, source, names, place) }
    if (type !== 'bool')
      return { error: { message: `the condition must be a boolean, not of type ${type}`, offset: 0 } }
    const late = failsLater(source, names)
    if (late !== null) return { error: late }
    return { when: { source, evaluate: facts => evaluate(program, facts) } }
  } catch (error) {
    return { error: explain(error, source, names, place) }
  }
}

/** Finds errors beyond the type check: parts that would fail or take too long at run time. Parses the condition again. */
function failsLater(source: string, names: readonly WhenName[]): WhenError | null {
  const scope = environment().clone()
  const root = scope.parse(source).ast as unknown as Node
  // CEL treats the names of its types and of disabled features as values.
  for (const node of unbound(root))
    if (node.op === 'id' && !names.includes(node.args as WhenName))
      return unknownName(String(node.args), names, node.start ?? 0)
  const evaluatePart = (part: Node) => {
    const holder = scope.parse('[0]')
    ;(holder.ast.args as unknown[])[0] = part
    return (holder({}) as unknown[])[0]
  }
  return findSlowPart(root) ?? failingPart(root, evaluatePart)
}

function evaluate(program: (facts: Record<string, unknown>) => unknown, facts: Record<string, unknown>): boolean {
  const before = current
  current = facts as unknown as WhenFacts
  try {
    return program(facts) === true
  } finally {
    current = before
  }
}

function explain(error: unknown, source: string, names: readonly WhenName[], place: WhenPlace): WhenError {
  const words = explainError(error, source)
  const { variable } = words
  if (variable === undefined) return words
  const { offset } = words
  if (variable !== 'request' && Object.hasOwn(WHEN_FIELDS, variable)) {
    return { ...place.missing(variable as FactName), offset }
  }
  return unknownName(variable, names, offset)
}

function unknownName(name: string, names: readonly WhenName[], offset: number): WhenError {
  const suggestion = didYouMean(name, names) ?? `use ${listed([...names, 'header("name")'], 'or')}`
  return { message: `the name "${name}" is unknown here`, offset, suggestion }
}

/** The facts that a condition names; none if it cannot be parsed. */
export function factsIn(source: string): FactName[] {
  const names = namesIn(parseWhen(source))
  return WHEN_NAMES.filter(name => name !== 'request' && names.has(name)) as FactName[]
}

/** The tree of a condition; null if it cannot be parsed. */
export function parseWhen(source: string): Node | null {
  try {
    return environment().clone().parse(source).ast as unknown as Node
  } catch {
    return null
  }
}
