/** Checks the models that a key is limited to: a misspelt one would make a key that nothing answers. */
import { fitsPattern } from '#contract'
import type { ModelNames } from '../api/control/verbs.ts'
import { readConfiguration } from './configuration.ts'
import { askGateway } from './operate.ts'
import { findStore } from './place.ts'
import { CommandError, type Terminal } from './terminal.ts'

/**
 * Throws when a model is neither in the catalog nor among those of a raw route: of the gateway that runs, or of the files when
 * none does. Files that do not load at the moment say nothing about them: keys can be made all the same, with a word about it.
 */
export async function checkModels(terminal: Terminal, configFile: string, models: readonly string[]): Promise<void> {
  const names =
    (await askGateway(await findStore(terminal, configFile), 'model.list', {})) ?? (await inFiles(terminal, configFile))
  if (names === null) return
  const { nearest } = await import('../config/yaml/problem.ts')
  const known = new Set(names.models)
  for (const name of models) {
    if (known.has(name) || names.models.some(id => fitsPattern(name, id))) continue
    const alias = Object.hasOwn(names.aliases, name) ? names.aliases[name] : undefined
    const meant = alias ?? nearest(name, known)
    const suggestion = meant === undefined ? `there are: ${firstOf([...known])}` : `did you mean "${meant}"?`
    throw new CommandError(`The catalog has no model "${name}"; ${suggestion}`)
  }
}

/** A wildcard has hundreds. */
function firstOf(ids: readonly string[]): string {
  return ids.length <= 20 ? ids.join(', ') : `${ids.slice(0, 20).join(', ')} and ${ids.length - 20} more`
}

async function inFiles(terminal: Terminal, configFile: string): Promise<ModelNames | null> {
  const [{ modelNames }, loaded] = await Promise.all([
    import('../config/models.ts'),
    readConfiguration(terminal, configFile),
  ])
  if ('configuration' in loaded) return modelNames(loaded.configuration)
  terminal.err(`The models were not checked: ${configFile} has problems (${terminal.self} check shows them).\n`)
  return null
}
