/** Opens the state that the configuration names; a server that cannot be used is a problem of the configuration. */
import type { Clock } from '#contract'
import type { Problem } from '../config/yaml/problem.ts'
import type { Logger } from '../observe/log.ts'
import { createLocalState, type State } from '../state/state.ts'
import { passwordsIn } from '../store/store-address.ts'
import { type Loaded, placeOf } from './reload.ts'

/** The configuration has problems, so the gateway was not started. */
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

export async function openOwnState(loaded: Loaded, clock: Clock, log: Logger): Promise<State> {
  const { state: url } = loaded.configuration
  if (url === null) return createLocalState(clock)
  log.learn(passwordsIn(url))
  // Its client is loaded where it is needed only.
  const { openRedisState } = await import('../state/redis-state.ts')
  try {
    return await openRedisState({ url, clock, log: log.log })
  } catch (error) {
    if ((error as Error).name !== 'StateError') throw error
    const { message, suggestion } = error as Error & { suggestion: string }
    const told = { message: `state: ${message}`, suggestion, rule: 'lost-server' as const, concealed: true }
    throw new ConfigurationProblems([{ ...placeOf('state', loaded), ...told }], loaded.sources)
  }
}
