/** The service `catalog`: finds a model by the name in a request. */
import type { Catalog, Model } from '#contract'
import type { Configuration } from './configuration.ts'

/** A model name that ends with a date. */
const DATED = /^(.+)([-@]20\d{2}-?[01]\d-?[0-3]\d)$/

/** Finds a model by id, by alias, or as a wildcard's model with a date after its name. */
export function createCatalog({ models, aliases }: Pick<Configuration, 'models' | 'aliases'>): Catalog {
  const list = [...models.values()]
  return {
    find: id => models.get(id) ?? models.get(aliases.get(id) ?? '') ?? datedModel(models, id),
    list: () => list,
  }
}

/**
 * A price list matches the dated names of some models by prefix. The provider gets the full name. Receipts and metrics use the
 * list's name, because clients could otherwise create any number of names.
 */
function datedModel(models: ReadonlyMap<string, Model>, id: string): Model | undefined {
  const [, name, day] = DATED.exec(id) ?? []
  const model = name === undefined ? undefined : models.get(name)
  if (model?.dated !== true) return undefined
  return { ...model, targets: model.targets.map(target => ({ ...target, model: target.model + day })) }
}
