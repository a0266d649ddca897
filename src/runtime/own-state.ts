/** Opens the configured state; an unusable server is a problem of the configuration. */
import type { Clock } from '#contract'
import type { Problem } from '../config/yaml/problem.ts'
import type { Logger } from '../observe/log.ts'
import { createLocalState, type State } from '../state/state.ts'
import { passwordsIn } from '../store/store-address.ts'
import { type LoadedFiles, placeOf } from './reload.ts'

/** The configuration has problems; nothing was started. */
export class ConfigurationProblems extends Error {
  override readonly name = 'ConfigurationProblems'
  readonly problems: readonly Problem[]
  readonly sources: ReadonlyMap<string, string>

  constructor(problems: readonly Problem[], sources: ReadonlyMap<string, string>) {
    super(`the configuration has ${problems.length} problem${problems.length === 1 ? '' : 's'}`)
    this.problems = problems
    this.sources = sources
  }
}

export async function openOwnState(loaded: LoadedFiles, clock: Clock, log: Logger): Promise<State> {
  const { state: url } = loaded.configuration
  if (url === null) return createLocalState(clock)
  log.learn(passwordsIn(url))
  // The client is loaded on demand.
  const { openRedisState } = await import('../state/redis-state.ts')
  try {
    return await openRedisState({ url, clock, log: log.log })
  } catch (error) {
    if ((error as Error).name !== 'StateError') throw error
    const { message, suggestion } = error as Error & { suggestion: string }
    const problem = { message: `state: ${message}`, suggestion, rule: 'lost-server' as const, concealed: true }
    throw new ConfigurationProblems([{ ...placeOf('state', loaded), ...problem }], loaded.sources)
  }
}
