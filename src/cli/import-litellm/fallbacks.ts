/** Fallbacks and aliases: what LiteLLM keeps beside the list of models, and the gateway in the models themselves. */
import type { ModelYaml } from './models.ts'
import { type Fields, isTrue, type ListValue, type Value } from './read.ts'
import type { Remarks } from './remarks.ts'

/** `fallbacks: [{chat: [other]}]` and `default_fallbacks: [other]`: targets of a later priority. */
export function addFallbacks(
  models: ReadonlyMap<string, ModelYaml>,
  sources: readonly (Fields | null)[],
  remarks: Remarks,
): void {
  const added = new Map<string, string[]>()
  const before = new Map([...models].map(([id, { targets }]) => [id, [...targets]]))
  const later = (id: string, to: Value): void => {
    if (to.kind !== 'text') {
      remarks.add('lost', to, 'a fallback that changes the request cannot be said', 'name a model only')
      return
    }
    const [model, others] = [models.get(id)!, before.get(to.text)]
    if (others === undefined) {
      remarks.add('lost', to, `there is no model "${to.text}" to fall back on`, 'add it, and its targets as later ones')
      return
    }
    if (id === to.text || added.get(id)?.includes(to.text)) return
    added.set(id, [...(added.get(id) ?? []), to.text])
    const last = Math.max(...model.targets.map(({ priority = 1 }) => priority))
    for (const target of others) {
      if (model.targets.some(each => each.provider === target.provider && each.model === target.model)) continue
      model.targets.push({
        ...costOf(models.get(to.text)!),
        ...target,
        priority: Math.min(100, last + (target.priority ?? 1)),
      })
    }
    sayDifference(id, to, models, remarks)
  }
  const chains = sources.flatMap(source => chainsOf(source?.list('fallbacks') ?? null, remarks))
  const named = chains.filter(({ from }) => from !== ANY)
  for (const { from, at, to } of named) {
    if (models.has(from)) for (const each of to) later(from, each)
    else remarks.add('lost', at, `there is no model "${from}"`)
  }
  // LiteLLM's router looks there only for a model without a chain of its own, and takes the last that there is.
  const defaults = [
    ...chains.filter(({ from }) => from === ANY),
    ...sources.flatMap(source => {
      const at = source?.list('default_fallbacks')
      return at && at.items.length > 0 ? [{ at, to: at.items }] : []
    }),
  ]
  for (const { at } of defaults.slice(0, -1)) remarks.add('lost', at, 'later fallbacks for all models take its place')
  const own = new Set(named.map(({ from }) => from))
  for (const to of defaults.at(-1)?.to ?? []) for (const id of models.keys()) if (!own.has(id)) later(id, to)
}

const ANY = '*'

/** What the other model's customers pay is what it costs, where its targets do not say it themselves. */
function costOf({ price }: ModelYaml): Record<string, unknown> {
  return typeof price === 'object' ? { cost: price } : {}
}

function sayDifference(
  id: string,
  to: Value & { text: string },
  models: ReadonlyMap<string, ModelYaml>,
  remarks: Remarks,
): void {
  const [model, other] = [models.get(id)!, models.get(to.text)!]
  remarks.add(
    'changed',
    to,
    `${to.text} is a later target of ${id}: customers pay the price of ${id} for it`,
    'see that the price covers the dearest of its targets',
  )
  for (const key of ['context', 'max_output'] as const) {
    if (Number(other[key]) < Number(model[key])) {
      remarks.add(
        'changed',
        to,
        `${to.text} has a smaller ${key} (${other[key]}) than ${id} (${model[key]})`,
        `lower the ${key} of ${id}, or it refuses what is longer`,
      )
    }
  }
}

interface Chain {
  readonly from: string
  readonly at: ListValue
  readonly to: readonly Value[]
}

function chainsOf(list: ListValue | null, remarks: Remarks): Chain[] {
  return (list?.items ?? []).flatMap(item => {
    if (item.kind !== 'map') {
      remarks.add('lost', item, 'a fallback is a map from a model to a list')
      return []
    }
    return item.keys().flatMap(from => {
      const at = item.peek(from)!
      if (at.kind === 'list') return { from, at, to: at.items }
      remarks.add('lost', at, 'what a model falls back on is a list of models', `${from}: [MODEL], and import again`)
      return []
    })
  })
}

/** `model_group_alias`: another id for a model. */
export function addAliases(models: ReadonlyMap<string, ModelYaml>, alias: Fields | null, remarks: Remarks): void {
  for (const name of alias?.keys() ?? []) {
    const value = alias!.take(name)!
    const target = value.kind === 'map' ? value.text('model') : value.kind === 'text' ? value : null
    const model = target ? models.get(target.text) : undefined
    if (value.kind === 'map' && isTrue(value.text('hidden'))) {
      remarks.add('changed', value, 'aliases are never listed at /v1/models: hidden says nothing')
    }
    if (value.kind === 'map') remarks.rest(value.rest(), {})
    if (!/^[!-~]{1,200}$/.test(name))
      remarks.add('lost', value, 'an alias is 1 to 200 printable characters without blanks', 'rename it')
    else if (!target || !model) remarks.add('lost', value, `"${name}" is an alias of no model`)
    else if (models.has(name))
      remarks.add('lost', value, `"${name}" is the id of a model too`, 'clients that ask for it get that model')
    else model['aliases'] = [...((model['aliases'] as string[] | undefined) ?? []), name]
  }
}
