/** Converts fallbacks and aliases, which LiteLLM keeps beside the list of models and Tollgate in the models. */
import { isWildcard } from '../../config/wildcards.ts'
import type { ModelYaml } from './models.ts'
import { type Fields, isTrue, type ListValue, type Value } from './read.ts'
import type { Remarks } from './remarks.ts'

/**
 * Reads `fallbacks: [{chat: [other]}]` and `default_fallbacks: [other]`. Returns the fallback models by id.
 * @param groups the names of models, including wildcards
 */
export function fallbacksOf(
  groups: readonly string[],
  sources: readonly (Fields | null)[],
  remarks: Remarks,
): Map<string, string[]> {
  const ids = new Set(groups.filter(id => idOf(id) !== null && !isWildcard(id)))
  const wildcards = groups.filter(isWildcard)
  const found = new Map<string, string[]>([...ids].map(id => [id, []]))
  const addFallback = (id: string, to: Value): void => {
    const own = found.get(id)!
    if (to.kind !== 'text') remarks.add('lost', to, 'a fallback is the name of a model', 'name the model only')
    else if (wildcards.includes(to.text))
      remarks.add(
        'lost',
        to,
        'a fallback is one model, but a wildcard means several',
        'name one of its models',
        to.text,
      )
    else if (!ids.has(to.text)) remarks.add('lost', to, 'a fallback has no model', 'add it as a later target', to.text)
    else if (id !== to.text && !own.includes(to.text)) own.push(to.text)
  }
  const chains = sources.flatMap(source => chainsOf(source?.list('fallbacks') ?? null, remarks))
  const named = chains.filter(({ from }) => from !== ANY)
  for (const { from, at, to } of named) {
    if (ids.has(from)) for (const each of to) addFallback(from, each)
    else if (wildcards.includes(from)) remarks.add('lost', at, NO_FALLBACKS, 'name one of its models', from)
    else remarks.add('lost', at, 'these fallbacks are for a model that was not converted', null, from)
  }
  // LiteLLM's router uses these only for a model without its own chain, and only the last of them.
  const defaults = [
    ...chains.filter(({ from }) => from === ANY),
    ...sources.flatMap(source => {
      const at = source?.list('default_fallbacks')
      return at && at.items.length > 0 ? [{ at, to: at.items }] : []
    }),
  ]
  for (const { at } of defaults.slice(0, -1)) remarks.add('lost', at, 'later fallbacks for all models replace these')
  const last = defaults.at(-1)
  for (const id of last ? wildcards : []) remarks.add('lost', last!.at, NO_FALLBACKS, 'name one of its models', id)
  const own = new Set(named.map(({ from }) => from))
  for (const to of last?.to ?? []) for (const id of ids) if (!own.has(id)) addFallback(id, to)
  const [first] = [...named, ...defaults.slice(-1)]
  if (first && [...found.values()].some(each => each.length > 0))
    remarks.add('changed', first.at, 'fallbacks are later targets: customers pay the price of the model for them')
  return found
}

const ANY = '*'
const NO_FALLBACKS = 'a wildcard has no fallbacks'

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
      remarks.add('lost', at, 'the fallbacks of a model are a list of models', 'write [MODEL], and import again')
      return []
    })
  })
}

/** The id for a model's name; null if no valid id is possible. */
export function idOf(name: string): string | null {
  const id = name.trim().replaceAll(/\s+/g, '-')
  return /^[!-~]{1,200}$/.test(id) ? id : null
}

/** Converts `model_group_alias`: other ids for models. */
export function addAliases(models: ReadonlyMap<string, ModelYaml>, alias: Fields | null, remarks: Remarks): void {
  for (const name of alias?.keys() ?? []) {
    const value = alias!.take(name)!
    const target = value.kind === 'map' ? value.text('model') : value.kind === 'text' ? value : null
    const model = target ? models.get(idOf(target.text) ?? '') : undefined
    if (value.kind === 'map' && isTrue(value.text('hidden'))) {
      remarks.add('changed', value, 'aliases are never listed at /v1/models')
    }
    if (value.kind === 'map') remarks.rest(value, 'top')
    if (!/^[!-~]{1,200}$/.test(name))
      remarks.add('lost', value, 'an alias is 1 to 200 printable characters without blanks', 'rename it')
    else if (!target || !model) remarks.add('lost', value, 'an alias has no model', null, name)
    else if (models.has(name))
      remarks.add('lost', value, 'an alias is also the id of a model, which has precedence', null, name)
    else model['aliases'] = [...((model['aliases'] as string[] | undefined) ?? []), name]
  }
}
