/** Loads the configuration, and keeps the texts of its files for the serving threads. */
import { hash } from 'node:crypto'
import { dirname, relative, resolve } from 'node:path'
import { systemClock } from '../common/clock.ts'
import type { PluginRegistry } from '../config/configuration.ts'
import { type LoadResult, loadConfiguration } from '../config/load.ts'
import type { Reads } from '../config/yaml/reads.ts'
import { readTextFile } from '../config/yaml/text-file.ts'

/** Texts of files, by absolute path. */
export type Texts = ReadonlyMap<string, string>

export interface Loader {
  load(): Promise<LoadResult>
  /** The texts that a load has read. */
  textsOf(loaded: { readonly reads: Reads }): Texts
}

/** The key, besides paths, of the day whose prices apply: all threads load with the same day. */
export const TODAY = ''

/** A hash of the files, independent of their folder: replicas with one hash have one configuration. */
export function hashOf(texts: Texts, configFile: string): string {
  const folder = dirname(resolve(configFile))
  const read = [...texts].filter(([path]) => path !== TODAY)
  const files = read.map(([path, text]) => [relative(folder, path), text]).sort(([a], [b]) => (a! < b! ? -1 : 1))
  return hash('sha256', JSON.stringify(files), 'hex').slice(0, 12)
}

export function createLoader(
  configFile: string,
  env: Readonly<Record<string, string | undefined>>,
  registry: PluginRegistry,
): Loader {
  const texts = new WeakMap<Reads, Texts>()
  return {
    async load() {
      const today = new Date(systemClock.now())
      const read = new Map<string, string>([[TODAY, today.toISOString()]])
      const loaded = await loadConfiguration(configFile, {
        today,
        env,
        registry,
        async readFile(path, most) {
          const text = await readTextFile(path, most)
          read.set(path, text)
          return text
        },
      })
      texts.set(loaded.reads, read)
      return loaded
    },
    textsOf: ({ reads }) => texts.get(reads)!,
  }
}
