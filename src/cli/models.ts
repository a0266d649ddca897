/** Checks the models that a new key is limited to: a misspelt one would make a key that nothing answers. */
import { readConfiguration } from './configuration.ts'
import { CommandError, type Terminal } from './terminal.ts'

/**
 * Throws when a model is not in the catalog. A configuration that does not load at the moment says nothing about them:
 * keys can be made all the same, with a word about it.
 */
export async function checkModels(terminal: Terminal, configFile: string, models: readonly string[]): Promise<void> {
  const { nearest } = await import('../config/problem.ts')
  const loaded = await readConfiguration(terminal, configFile)
  if ('problems' in loaded) {
    terminal.err(`The models were not checked: ${configFile} has problems (${terminal.self} check shows them).\n`)
    return
  }
  const { models: catalog, aliases } = loaded.configuration
  for (const name of models) {
    if (catalog.has(name)) continue
    const meant = aliases.get(name) ?? nearest(name, catalog.keys())
    const suggestion = meant === undefined ? `there are: ${[...catalog.keys()].join(', ')}` : `did you mean "${meant}"?`
    throw new CommandError(`The catalog has no model "${name}"; ${suggestion}`)
  }
}
