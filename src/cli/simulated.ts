/** What commands have in common that play exchanges without a gateway: the configuration, and errors that nobody waits for. */
import type { Configuration } from '../config/configuration.ts'
import type { LoadOptions, LoadResult } from '../config/load.ts'
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
  const loaded = await loadWithStandIns(terminal, config)
  if ('configuration' in loaded) return loaded
  terminal.err(`${await problemText(terminal, loaded)}\nA configuration with problems ${cannot}.\n`)
  return null
}

/** The same without a word about problems. */
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
