/**
 * The models that a condition names, and the sizes that it asks for: what the catalog does not have would let a step
 * silently do nothing.
 */

import { fitsPattern } from '#contract'
import { fieldName, isNode, type Node, walk } from '../conditions/condition-error.ts'
import { type ModelSizes, truthOf } from '../conditions/truth.ts'
import { parseWhen } from '../conditions/when.ts'
import { didYouMean, listed } from '../yaml/problem.ts'
import type { Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'

/** What there is, sound or not: by the names under `models:`, and by what clients may call them besides. */
export interface ModelNames {
  readonly ids: readonly string[]
  /** An alias and the id behind it. */
  readonly aliases: ReadonlyMap<string, string>
  /** Of all models that clients can ask for; without it nothing is said of sizes. */
  readonly sizes?: readonly ModelSizes[]
}

/** Reports texts that are compared with `model.id` or `chat.model` and can be neither, and sizes that no model has. */
export function checkModels(source: Source, steps: readonly LoadedStep[], names: ModelNames): void {
  for (const { address, when, mode } of steps) {
    const at = `${address}/when`
    if (when === null || mode === 'off' || !source.sound(at)) continue
    const root = parseWhen(when)
    // That there are none at all is told by itself.
    if (root !== null && names.ids.length > 0)
      for (const named of comparedIn(root, MODEL_FIELDS)) checkModel(source, at, named, names)
  }
  // A giver of one's own may give models and caps that are not those of the catalog.
  if (steps.some(step => !step.builtIn && (step.gives.includes('chat') || step.gives.includes('model')))) return
  for (const step of steps) checkSizes(source, step, names.sizes ?? [])
}

function checkSizes(source: Source, { address, id, when, mode }: LoadedStep, sizes: readonly ModelSizes[]): void {
  const at = `${address}/when`
  if (when === null || mode === 'off' || sizes.length === 0 || !source.sound(at)) return
  // Whatever the models, it is said with what nothing can reach.
  if (truthOf(when, null) !== null || !sizes.every(size => truthOf(when, null, size) === false)) return
  const [context, output] = [sizes.map(size => size.context), sizes.map(size => size.maxOutput)].map(all =>
    Math.max(...all),
  )
  source.report(at, `the condition is not true of any model of the catalog, so "${id}" never runs`, {
    rule: 'unreachable-step',
    suggestion: `the largest context is ${context}, the largest max_output ${output}`,
  })
}

const MODEL_FIELDS = ['model.id', 'chat.model'] as const

/** A text that a condition compares with a field. */
export interface Named<Field extends string> {
  readonly field: Field
  readonly text: string
  readonly offset: number
}

function checkModel(
  source: Source,
  at: string,
  { field, text, offset }: Named<(typeof MODEL_FIELDS)[number]>,
  { ids, aliases }: ModelNames,
): void {
  if (ids.includes(text) || (field === 'chat.model' && aliases.has(text))) return
  // The models of a wildcard whose provider is not sound are not known.
  if (ids.some(id => fitsPattern(id, text))) return
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
  const near = text.endsWith('*')
    ? `write ${field}.startsWith(${JSON.stringify(text.slice(0, -1))})`
    : id === undefined
      ? didYouMean(text, ids)
      : `write ${JSON.stringify(id)}, or chat.model`
  const suggestion =
    near ??
    (ids.length === 0 ? undefined : `there are ${listed(ids.length > 20 ? [...ids.slice(0, 20), '…'] : ids, 'and')}`)
  source.report(at, message, { rule: 'unknown-model', offset, suggestion })
}

/** The texts of `model.id == "a"`, `"a" != model.id` and `model.id in ["a", "b"]`, for some fields. */
export function comparedIn<Field extends string>(root: Node, fields: readonly Field[]): Named<Field>[] {
  const fieldOf = (node: unknown) => fields.find(field => field === fieldName(node)) ?? null
  const found: Named<Field>[] = []
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
