/** Helpers of commands that run exchanges without a gateway: the configuration, and unhandled errors. */
import type { Configuration } from '../config/configuration.ts'
import type { LoadOptions, LoadResult } from '../config/load.ts'
import type { UnhandledErrors } from '../simulate/unhandled.ts'
import { pathOf } from './commands.ts'
import { environmentOf, problemText } from './configuration.ts'
import type { Terminal } from './terminal.ts'

export interface SimulatedConfiguration {
  readonly configuration: Configuration
  /** The text of each YAML file by its absolute path. */
  readonly sources: ReadonlyMap<string, string>
}

/**
 * Loads a configuration with sample values for missing variables: no provider is called, so no secret is needed. Prints the
 * problems, if any, and returns null.
 * @param cannot the end of the message about a configuration with problems
 */
export async function loadSimulated(
  terminal: Terminal,
  config: string,
  cannot: string,
): Promise<SimulatedConfiguration | null> {
  const loaded = await loadWithStandIns(terminal, config)
  if ('configuration' in loaded) return loaded
  terminal.err(`${await problemText(terminal, loaded)}\nA configuration with problems ${cannot}.\n`)
  return null
}

/** The same, without printing problems. */
export async function loadWithStandIns(
  terminal: Terminal,
  config: string,
  options: Pick<LoadOptions, 'today' | 'priceList'> = {},
): Promise<LoadResult> {
  const [{ loadConfiguration }, { builtinRegistry }, { standIns }] = await Promise.all([
    import('../config/load.ts'),
    import('../loader/builtin.ts'),
    import('../simulate/environment.ts'),
  ])
  const env = standIns(environmentOf(terminal, config))
  return loadConfiguration(pathOf(terminal, config), { env, registry: builtinRegistry(), ...options })
}

/** Prevents unhandled errors from ending the command, and prints those that `work` did not take. */
export async function keepUnhandled<Result>(
  terminal: Terminal,
  work: (unhandled: UnhandledErrors) => Promise<Result>,
): Promise<Result> {
  const { UnhandledErrors } = await import('../simulate/unhandled.ts')
  const unhandled = new UnhandledErrors()
  try {
    return await work(unhandled)
  } finally {
    printAll(terminal, unhandled.take())
    unhandled.end()
  }
}

/** Prints each sentence on its own line. */
export function printAll(terminal: Terminal, sentences: readonly string[]): void {
  for (const sentence of sentences) terminal.err(`${sentence}\n`)
}
