/** Checks the models of a key: a key with only misspelt models could not be used. */
import { fitsPattern } from '#contract'
import type { ModelNames } from '../api/control/verbs.ts'
import { readConfiguration } from './configuration.ts'
import { askGateway } from './operate.ts'
import { findStore } from './place.ts'
import { CommandError, type Terminal } from './terminal.ts'

/**
 * Throws a `CommandError` if a model is neither in the catalog nor in a raw route. Asks the running gateway for the models;
 * without one, reads the configuration. If that does not load, prints that the models were not checked.
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
    const suggestion = meant === undefined ? `the models are ${firstOf([...known])}` : `did you mean "${meant}"?`
    throw new CommandError(`The catalog has no model "${name}"; ${suggestion}`)
  }
}

/** At most 20: a wildcard has hundreds. */
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
