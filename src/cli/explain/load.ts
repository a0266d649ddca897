/** The configuration that is explained: without the secrets of the gateway that serves it, because nothing is sent. */
import type { Configuration } from '../../config/configuration.ts'
import { pathOf } from '../commands.ts'
import { environmentOf, problemText } from '../configuration.ts'
import type { Terminal } from '../terminal.ts'

export interface Loaded {
  readonly configuration: Configuration
  /** The text of each YAML file by its absolute path. */
  readonly sources: ReadonlyMap<string, string>
}

/** Loads it, with stand-ins for variables that are not set. Prints the problems, and answers null, when it has some. */
export async function loadForExplain(terminal: Terminal, config: string): Promise<Loaded | null> {
  const [{ loadConfiguration }, { builtinRegistry }, { standIns }] = await Promise.all([
    import('../../config/load.ts'),
    import('../../loader/builtin.ts'),
    import('../../testing/policy/stand-ins.ts'),
  ])
  const env = standIns(environmentOf(terminal, config))
  const loaded = await loadConfiguration(pathOf(terminal, config), { env, registry: builtinRegistry() })
  if ('configuration' in loaded) return loaded
  terminal.err(`${await problemText(terminal, loaded)}\nA configuration with problems cannot be explained.\n`)
  return null
}
