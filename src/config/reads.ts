/**
 * What a configuration was read from: every file that was read or wanted, with what stood in it. So a reload sees that
 * something has changed wherever that stands, and knows where a mistake may be mended.
 */
import { createHash } from 'node:crypto'
import { dirname, resolve } from 'node:path'
import type { PluginRegistry } from './configuration.ts'
import type { Reading } from './source.ts'

/** By absolute path the digest of the text; '' for what could not be read, and for modules, which Node reads. */
export type Reads = ReadonlyMap<string, string>

/** A plugin's imports have changed, and Node keeps the old ones. */
export class NeedsRestart extends Error {
  override readonly name = 'NeedsRestart'
}

interface Recorded {
  readonly reads: Reads
  readonly readFile: Reading['readFile']
  readonly registry: PluginRegistry
}

/** The same two, but that what they are asked for is kept in `reads`. */
export function recordReads(readFile: Reading['readFile'], registry: PluginRegistry): Recorded {
  const reads = new Map<string, string>()
  return {
    reads,
    async readFile(path) {
      reads.set(resolve(path), '')
      const text = await readFile(path)
      // A digest, because secrets are among them.
      reads.set(resolve(path), createHash('sha256').update(text).digest('hex'))
      return text
    },
    registry: {
      names: registry.names,
      find: registry.find,
      givers: registry.givers,
      imports: registry.imports,
      async load(use, place) {
        if (!/^\.\.?\//.test(use)) return registry.load(use, place)
        const file = resolve(dirname(place.saidIn), use)
        reads.set(file, '')
        const loading = await registry.load(use, place).then(
          found => ({ found }),
          (error: unknown) => ({ error }),
        )
        const imports = registry.imports(file)
        for (const each of imports) if (!reads.has(each.file)) reads.set(each.file, '')
        const changed = imports.find(each => each.changed)
        if (changed) {
          throw new NeedsRestart(
            `${changed.file} has changed since ${use} was loaded with it, and the old text stays in use: that needs a restart`,
          )
        }
        if ('error' in loading) throw loading.error
        return loading.found
      },
    },
  }
}
