/** Checks the models and sizes in conditions against the catalog: a step with an unknown model would never run. */

import { fitsPattern } from '#contract'
import { fieldName, isNode, type Node, walk } from '../conditions/condition-error.ts'
import { type ModelSizes, truthOf } from '../conditions/truth.ts'
import { parseWhen } from '../conditions/when.ts'
import { didYouMean, listed } from '../yaml/problem.ts'
import type { Source } from '../yaml/source.ts'
import type { LoadedStep } from './loaded-policy.ts'

/** All models of the file, including those with problems, with their aliases. */
export interface ModelNames {
  readonly ids: readonly string[]
  /** Alias to id. */
  readonly aliases: ReadonlyMap<string, string>
  /** The sizes of all enabled models; undefined: sizes are not checked. */
  readonly sizes?: readonly ModelSizes[]
}

/** Reports texts that `model.id` or `chat.model` can never equal, and sizes that no model has. */
export function checkModels(source: Source, steps: readonly LoadedStep[], names: ModelNames): void {
  for (const { address, when, mode } of steps) {
    const at = `${address}/when`
    if (when === null || mode === 'off' || !source.sound(at)) continue
    const root = parseWhen(when)
    // Missing models are reported elsewhere.
    if (root !== null && names.ids.length > 0)
      for (const named of comparedIn(root, MODEL_FIELDS)) checkModel(source, at, named, names)
  }
  // An external plugin may give models and caps outside the catalog.
  if (steps.some(step => !step.builtIn && (step.gives.includes('chat') || step.gives.includes('model')))) return
  for (const step of steps) checkSizes(source, step, names.sizes ?? [])
}

function checkSizes(source: Source, { address, id, when, mode }: LoadedStep, sizes: readonly ModelSizes[]): void {
  const at = `${address}/when`
  if (when === null || mode === 'off' || sizes.length === 0 || !source.sound(at)) return
  // Conditions that are constant for all models are reported by `checkReach`.
  if (truthOf(when, null) !== null || !sizes.every(size => truthOf(when, null, size) === false)) return
  const [context, output] = [sizes.map(size => size.context), sizes.map(size => size.maxOutput)].map(all =>
    Math.max(...all),
  )
  source.report(at, `the condition is false for every model of the catalog, so "${id}" never runs`, {
    rule: 'unreachable-step',
    suggestion: `the largest context is ${context}, the largest max_output ${output}`,
  })
}

const MODEL_FIELDS = ['model.id', 'chat.model'] as const

/** A text that a condition compares with a field. */
export interface ComparedText<Field extends string> {
  readonly field: Field
  readonly text: string
  readonly offset: number
}

function checkModel(
  source: Source,
  at: string,
  { field, text, offset }: ComparedText<(typeof MODEL_FIELDS)[number]>,
  { ids, aliases }: ModelNames,
): void {
  if (ids.includes(text) || (field === 'chat.model' && aliases.has(text))) return
  // The models of a wildcard are unknown if its provider has a problem.
  if (ids.some(id => fitsPattern(id, text))) return
  if (source.substituted(at)) {
    const message = 'the condition names an unknown model after its ${…} are replaced'
    source.report(at, message, { rule: 'unknown-model' })
    return
  }
  const id = aliases.get(text)
  const message =
    id === undefined
      ? `unknown model ${JSON.stringify(text)}`
      : `${JSON.stringify(text)} is an alias, but ${field} is the id of a model`
  const near = text.endsWith('*')
    ? `write ${field}.startsWith(${JSON.stringify(text.slice(0, -1))})`
    : id === undefined
      ? didYouMean(text, ids)
      : `write ${JSON.stringify(id)}, or chat.model`
  const suggestion =
    near ??
    (ids.length === 0
      ? undefined
      : `the models are ${listed(ids.length > 20 ? [...ids.slice(0, 20), '…'] : ids, 'and')}`)
  source.report(at, message, { rule: 'unknown-model', offset, suggestion })
}

/** The texts of `model.id == "a"`, `"a" != model.id` and `model.id in ["a", "b"]`, for some fields. */
export function comparedIn<Field extends string>(root: Node, fields: readonly Field[]): ComparedText<Field>[] {
  const fieldOf = (node: unknown) => fields.find(field => field === fieldName(node)) ?? null
  const found: ComparedText<Field>[] = []
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
