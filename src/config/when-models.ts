/** The models that a condition names: one that the catalog does not have would let a step silently do nothing. */
import type { LoadedStep } from './policy.ts'
import { didYouMean, listed } from './problem.ts'
import type { Source } from './source.ts'
import { parseWhen } from './when.ts'
import { isNode, type Node, walk } from './when-errors.ts'

/** What there is, sound or not: by the names under `models:`, and by what clients may call them besides. */
export interface ModelNames {
  readonly ids: readonly string[]
  /** An alias and the id behind it. */
  readonly aliases: ReadonlyMap<string, string>
}

/** Reports texts that are compared with `model.id` or `chat.model` and can be neither. */
export function checkModels(source: Source, steps: readonly LoadedStep[], names: ModelNames): void {
  for (const { address, when, mode } of steps) {
    const at = `${address}/when`
    if (when === null || mode === 'off' || !source.sound(at)) continue
    const root = parseWhen(when)
    if (root !== null) for (const named of comparedIn(root)) checkModel(source, at, named, names)
  }
}

interface Named {
  readonly field: 'model.id' | 'chat.model'
  readonly text: string
  readonly offset: number
}

function checkModel(source: Source, at: string, { field, text, offset }: Named, { ids, aliases }: ModelNames): void {
  if (ids.includes(text) || (field === 'chat.model' && aliases.has(text))) return
  if (source.substituted(at)) {
    const message = 'the condition names a model that there is not, with its ${…} filled in'
    source.report(at, message, { rule: 'unknown-model' })
    return
  }
  const id = aliases.get(text)
  const message =
    id === undefined
      ? `there is no model ${JSON.stringify(text)}`
      : `${JSON.stringify(text)} is an alias, and ${field} is the id of a model`
  const near = id === undefined ? didYouMean(text, ids) : `write ${JSON.stringify(id)}, or chat.model`
  const suggestion = near ?? (ids.length === 0 ? undefined : `there are ${listed(ids, 'and')}`)
  source.report(at, message, { rule: 'unknown-model', offset, suggestion })
}

/** The texts of `model.id == "a"`, `"a" != model.id` and `model.id in ["a", "b"]`. */
function comparedIn(root: Node): Named[] {
  const found: Named[] = []
  walk(root, node => {
    if (node.op !== '==' && node.op !== '!=' && node.op !== 'in') return
    const [left, right] = node.args as unknown[]
    const field = fieldOf(left) ?? (node.op === 'in' ? null : fieldOf(right))
    if (field === null) return
    const other = fieldOf(left) === null ? left : right
    const items = isNode(other) && other.op === 'list' ? (other.args as unknown[]) : [other]
    for (const item of items) {
      if (!isNode(item) || item.op !== 'value' || typeof item.args !== 'string') continue
      found.push({ field, text: item.args, offset: item.start ?? item.pos ?? 0 })
    }
  })
  return found
}

function fieldOf(node: unknown): Named['field'] | null {
  if (!isNode(node) || node.op !== '.') return null
  const [object, field] = node.args as unknown[]
  if (!isNode(object) || object.op !== 'id') return null
  const name = `${String(object.args)}.${String(field)}`
  return name === 'model.id' || name === 'chat.model' ? name : null
}
