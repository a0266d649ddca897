/**
 * What a configuration was read from: every file that was read or wanted, with what stood in it. So a reload sees that
 * something has changed wherever that stands, and knows where a mistake may be mended.
 */
import { createHash } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { PluginRegistry } from '../configuration.ts'
import type { Reading } from './source.ts'

/** What was found at a path. */
export interface Read {
  /** Of the text; '' for what could not be read, and for modules, which Node reads. */
  readonly digest: string
  /** The file as it was before it was read, so that whatever is written while others are read is seen afterwards. */
  readonly stamp: string
}

/** By absolute path. */
export type Reads = ReadonlyMap<string, Read>

/** The stamp of a file that is not there. */
const NO_FILE = ''

/** Another one when another file is at a path, or something was written to it. */
export async function stampOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mode, mtimeNs, ctimeNs } = await stat(path, { bigint: true })
    return [dev, ino, size, mode, mtimeNs, ctimeNs].join()
  } catch {
    return NO_FILE
  }
}

/** Whether two loads found the same; stamps may differ where a file was only touched. */
export function sameReads(one: Reads, other: Reads): boolean {
  return one.size === other.size && [...one].every(([path, { digest }]) => other.get(path)?.digest === digest)
}

/** A plugin's imports have changed, and Node keeps the old ones. */
export class NeedsRestart extends Error {
  override readonly name = 'NeedsRestart'
}

interface Recorded {
  readonly reads: Reads
  readonly readFile: Reading['readFile']
  readonly registry: PluginRegistry
}

/** What a plugin imports; one that was missing when the plugin was loaded may be there by now. */
interface Import {
  readonly file: string
  readonly changed: boolean
  readonly wasMissing?: boolean
}

/** The same two, but that what they are asked for is kept in `reads`. */
export function recordReads(readFile: Reading['readFile'], registry: PluginRegistry): Recorded {
  const reads = new Map<string, Read>()
  /** Of a file that is read more than once the first look counts. */
  const stamps = new Map<string, Promise<string>>()

  /** Before a file is read: from now on its path counts, whatever becomes of the reading. */
  async function begin(path: string): Promise<string> {
    reads.set(path, { digest: '', stamp: NO_FILE })
    if (!stamps.has(path)) stamps.set(path, stampOf(path))
    const stamp = await stamps.get(path)!
    reads.set(path, { digest: '', stamp })
    return stamp
  }

  /** What a plugin's file imports, each with its stamp from before it was compared with what runs. */
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
      // A digest, because secrets are among them.
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
        const file = resolve(dirname(place.saidIn), use)
        await begin(file)
        const loading = await registry.load(use, place).then(
          found => ({ found }),
          (error: unknown) => ({ error }),
        )
        const changed = (await noteImports(file)).find(each => each.changed)
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
