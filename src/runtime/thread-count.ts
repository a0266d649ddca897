import type { Configuration } from '../config/configuration.ts'
import { LANES } from '../store/ids.ts'

/** The number of serving threads. @param cores processors that the process may use */
export function threadsOf({ threads }: Pick<Configuration, 'threads'>, cores: number): number {
  if (threads !== 'auto') return threads
  return Math.min(LANES - 1, cores >= 4 ? cores - 1 : cores)
}
