/** The service `catalog`: finds a model by what a client calls it. */
import type { Catalog, Model } from '#contract'
import type { Configuration } from './configuration.ts'

/** The day behind the name of a model. */
const DATED = /^(.+)([-@]20\d{2}-?[01]\d-?[0-3]\d)$/

/** The models of a configuration, found by id, alias, or a wildcard's model with a day behind its name. */
export function createCatalog({ models, aliases }: Pick<Configuration, 'models' | 'aliases'>): Catalog {
  const list = [...models.values()]
  return {
    find: id => models.get(id) ?? models.get(aliases.get(id) ?? '') ?? datedModel(models, id),
    list: () => list,
  }
}

/**
 * A price list knows the dated names of some models by how they begin. The provider gets the whole name; receipts and metrics have
 * that of the list, so that clients cannot make as many as they like.
 */
function datedModel(models: ReadonlyMap<string, Model>, id: string): Model | undefined {
  const [, name, day] = DATED.exec(id) ?? []
  const model = name === undefined ? undefined : models.get(name)
  if (model?.dated !== true) return undefined
  return { ...model, targets: model.targets.map(target => ({ ...target, model: target.model + day })) }
}
