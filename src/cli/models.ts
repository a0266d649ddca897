/** Checks the models that a new key is limited to: a misspelt one would make a key that nothing answers. */
import { readConfiguration } from './configuration.ts'
import { CommandError, type Terminal } from './terminal.ts'

/**
 * Throws when a model is neither in the catalog nor among those of a raw route. A configuration that does not load at the moment says nothing about them:
 * keys can be made all the same, with a word about it.
 */
export async function checkModels(terminal: Terminal, configFile: string, models: readonly string[]): Promise<void> {
  const { nearest } = await import('../config/problem.ts')
  const loaded = await readConfiguration(terminal, configFile)
  if ('problems' in loaded) {
    terminal.err(`The models were not checked: ${configFile} has problems (${terminal.self} check shows them).\n`)
    return
  }
  const { models: catalog, aliases, routes } = loaded.configuration
  const known = new Set([...catalog.keys(), ...routes.flatMap(route => route.raw?.models ?? [])])
  for (const name of models) {
    if (known.has(name)) continue
    const meant = aliases.get(name) ?? nearest(name, known)
    const suggestion = meant === undefined ? `there are: ${[...known].join(', ')}` : `did you mean "${meant}"?`
    throw new CommandError(`The catalog has no model "${name}"; ${suggestion}`)
  }
}
