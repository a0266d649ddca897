/**
 * Joins the arguments of a call that arrive in pieces (Vertex, `partialArgs`). Each piece is a value and its path. A text arrives in
 * several pieces with one path.
 */

type Branch = Record<string, unknown> | unknown[]

/** A step of a path: `.name`, `['name']`, `["name"]` or `[3]`. */
const STEP = /\.([^.[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]|\["([^"]*)"\]/y
const DEEPEST = 32

export class PartialArguments {
  // Without a prototype, so that a name like `__proto__` is an ordinary member.
  readonly #root: Record<string, unknown> = Object.create(null)

  /** Adds members that arrived whole. */
  merge(values: object): void {
    for (const [name, value] of Object.entries(values)) this.#root[name] = value
  }

  /** @returns false if the piece is invalid */
  add(piece: unknown): boolean {
    if (typeof piece !== 'object' || piece === null) return false
    const { jsonPath } = piece as { jsonPath?: unknown }
    const value = readValue(piece)
    const steps = typeof jsonPath === 'string' ? stepsOf(jsonPath) : null
    if (steps === null || value === undefined) return false
    let branch: Branch = this.#root
    for (const [index, step] of steps.entries()) {
      if (!fits(branch, step)) return false
      const before = (branch as Record<string, unknown>)[step]
      if (index === steps.length - 1) {
        ;(branch as Record<string, unknown>)[step] =
          typeof before === 'string' && typeof value === 'string' ? before + value : value
        return true
      }
      if (before === undefined) {
        ;(branch as Record<string, unknown>)[step] = typeof steps[index + 1] === 'number' ? [] : Object.create(null)
      } else if (typeof before !== 'object' || before === null) return false
      branch = (branch as Record<string, unknown>)[step] as Branch
    }
    return false
  }

  toString(): string {
    return JSON.stringify(this.#root)
  }
}

/** Lists grow only at their end: a large index would make a sparse list. */
function fits(branch: Branch, step: string | number): step is string {
  if (!Array.isArray(branch)) return typeof step === 'string'
  return typeof step === 'number' && step <= branch.length
}

function stepsOf(path: string): (string | number)[] | null {
  if (path[0] !== '$' || path.length > 1000) return null
  const steps: (string | number)[] = []
  STEP.lastIndex = 1
  while (STEP.lastIndex < path.length) {
    const found = STEP.exec(path)
    if (found === null || steps.length === DEEPEST) return null
    steps.push(found[2] === undefined ? (found[1] ?? found[3] ?? found[4]!) : Number(found[2]))
  }
  return steps.length > 0 ? steps : null
}

function readValue(piece: object): unknown {
  const { stringValue, numberValue, boolValue, nullValue } = piece as Record<string, unknown>
  if (nullValue !== undefined) return null
  const value = stringValue ?? numberValue ?? boolValue
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : undefined
}
