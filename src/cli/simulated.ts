/** What commands have in common that play exchanges without a gateway: the configuration, and errors that nobody waits for. */
import type { Configuration } from '../config/configuration.ts'
import type { UnhandledErrors } from '../simulate/unhandled.ts'
import { pathOf } from './commands.ts'
import { environmentOf, problemText } from './configuration.ts'
import type { Terminal } from './terminal.ts'

export interface Loaded {
  readonly configuration: Configuration
  /** The text of each YAML file by its absolute path. */
  readonly sources: ReadonlyMap<string, string>
}

/**
 * Loads a configuration with stand-ins for variables that are not set: no provider is asked, so no secret is needed. Prints
 * the problems, and answers null, when it has some.
 * @param cannot what a configuration with problems cannot be
 */
export async function loadSimulated(terminal: Terminal, config: string, cannot: string): Promise<Loaded | null> {
  const [{ loadConfiguration }, { builtinRegistry }, { standIns }] = await Promise.all([
    import('../config/load.ts'),
    import('../loader/builtin.ts'),
    import('../simulate/environment.ts'),
  ])
  const env = standIns(environmentOf(terminal, config))
  const loaded = await loadConfiguration(pathOf(terminal, config), { env, registry: builtinRegistry() })
  if ('configuration' in loaded) return loaded
  terminal.err(`${await problemText(terminal, loaded)}\nA configuration with problems ${cannot}.\n`)
  return null
}

/** Keeps errors that nobody waits for from ending the command, and prints those that `work` has not taken. */
export async function keepUnhandled<Result>(
  terminal: Terminal,
  work: (unhandled: UnhandledErrors) => Promise<Result>,
): Promise<Result> {
  const { UnhandledErrors } = await import('../simulate/unhandled.ts')
  const unhandled = new UnhandledErrors()
  try {
    return await work(unhandled)
  } finally {
    tellAll(terminal, unhandled.take())
    unhandled.end()
  }
}

/** Prints sentences, a line each. */
export function tellAll(terminal: Terminal, sentences: readonly string[]): void {
  for (const sentence of sentences) terminal.err(`${sentence}\n`)
}
