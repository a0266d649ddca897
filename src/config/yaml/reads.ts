/**
 * Records all files that a configuration was read from, or tried to read, with their digests. A reload uses it to detect
 * changes in any of them, and to know which files to watch after a mistake.
 */
import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { PluginRegistry } from '../configuration.ts'
import type { Reading } from './source.ts'

/** The state of a file when it was read. */
export interface Read {
  /** SHA-256 of the text; '' for unreadable files, and for modules, which Node reads. */
  readonly digest: string
  /** Taken before the file was read, so that a later write is detected. */
  readonly stamp: string
}

export type Reads = ReadonlyMap<string, Read>

/** The stamp of a missing file. */
const NO_FILE = ''

/** A stamp that changes when the file is replaced or written. */
export async function stampOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mode, mtimeNs, ctimeNs } = await stat(path, { bigint: true })
    return [dev, ino, size, mode, mtimeNs, ctimeNs].join()
  } catch {
    return NO_FILE
  }
}

/** Whether two loads read the same content. Stamps may differ if a file was only touched. */
export function sameReads(one: Reads, other: Reads): boolean {
  return one.size === other.size && [...one].every(([path, { digest }]) => other.get(path)?.digest === digest)
}

/** A plugin's imports have changed, but Node keeps the old modules. */
export class NeedsRestart extends Error {
  override readonly name = 'NeedsRestart'
}

interface RecordedLoader {
  readonly reads: Reads
  readonly readFile: Reading['readFile']
  readonly registry: PluginRegistry
}

/** An import of a plugin. A file that was missing when the plugin was loaded may exist by now. */
interface Import {
  readonly file: string
  readonly changed: boolean
  readonly wasMissing?: boolean
}

/** Wraps both, so that `reads` contains every requested file. */
export function recordReads(readFile: Reading['readFile'], registry: PluginRegistry): RecordedLoader {
  const reads = new Map<string, Read>()
  /** For a file that is read several times, the first stamp counts. */
  const stamps = new Map<string, Promise<string>>()

  /** Called before a file is read, so that its path is recorded even if reading fails. */
  async function begin(path: string): Promise<string> {
    reads.set(path, { digest: '', stamp: NO_FILE })
    if (!stamps.has(path)) stamps.set(path, stampOf(path))
    const stamp = await stamps.get(path)!
    reads.set(path, { digest: '', stamp })
    return stamp
  }

  /** Records a plugin's imports, with stamps from before the comparison with the running modules. */
  async function noteImports(file: string): Promise<readonly Import[]> {
    const before = new Map<string, string>()
    for (const each of registry.imports(file)) before.set(each.file, await stampOf(each.file))
    const imports: readonly Import[] = registry.imports(file)
    for (const each of imports) {
      if (reads.has(each.file)) continue
      const stamp = each.wasMissing ? NO_FILE : (before.get(each.file) ?? NO_FILE)
      reads.set(each.file, { digest: '', stamp })
    }
    return imports
  }

  return {
    reads,
    async readFile(path, most) {
      const stamp = await begin(resolve(path))
      const text = await readFile(path, most)
      // Only a digest, because some files are secrets.
      reads.set(resolve(path), { digest: createHash('sha256').update(text).digest('hex'), stamp })
      return text
    },
    registry: {
      names: registry.names,
      find: registry.find,
      givers: registry.givers,
      imports: registry.imports,
      async load(use, place) {
        if (!/^\.\.?\//.test(use)) return registry.load(use, place)
        const file = resolve(dirname(place.policyFile), use)
        await begin(file)
        const loading = await registry.load(use, place).then(
          found => ({ found }),
          (error: unknown) => ({ error }),
        )
        const changed = (await noteImports(file)).find(each => each.changed)
        if (changed) {
          throw new NeedsRestart(
            `${changed.file} has changed since ${use} imported it; restart the gateway to use the new text`,
          )
        }
        if ('error' in loading) throw loading.error
        return loading.found
      },
    },
  }
}
