/**
 * Tracks the local files that plugins import. Node caches such a module for the life of the process, so a change in one of them would
 * not take effect. It must be detected.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface ImportedFile {
  /** Absolute path; for a symlink the path of the link. */
  readonly file: string
  /** Whether its text differs from the one in use. */
  readonly changed: boolean
  /** The file did not exist when Node wanted it, in the last load of a plugin. */
  readonly wasMissing: boolean
}

/** The relative imports of each module at or below a plugin: by its URL, the wanted URL with the one that Node resolved. */
const imports = new Map<string, Map<string, string | null>>()
/** The digest of the text that Node loaded, by module URL. */
const loaded = new Map<string, string>()
/** The URL under which each plugin was last imported, by its path. */
const plugins = new Map<string, string>()
/** URLs not found since a plugin was last imported. */
const missing = new Set<string>()

/** A plugin's file will be imported under this URL. The URL has its real path, which Node uses as the parent of its imports. */
export function followPlugin(file: string, url: string): void {
  plugins.set(file, url)
  missing.clear()
  for (const module of [url, plainOf(url)]) if (!imports.has(module)) imports.set(module, new Map())
}

/** CommonJS modules are recorded without the query. */
const plainOf = (url: string) => url.replace(/\?content=.*$/, '')

/** A module imports another one, resolved to `url`; null if it was not found. */
export function followImport(parent: string | undefined, specifier: string, url: string | null): void {
  const below = parent === undefined ? undefined : imports.get(parent)
  if (below === undefined || !/^\.{1,2}\//.test(specifier)) return
  const wanted = new URL(specifier, parent).href
  if (!(url ?? wanted).startsWith('file:')) return
  // Node also finds nothing in an existing folder.
  if (url === null && !existsSync(new URL(wanted))) missing.add(wanted)
  below.delete(wanted)
  below.set(url === null || isLinkTo(wanted, url) ? wanted : url, url)
  if (url !== null && !imports.has(url)) imports.set(url, new Map())
}

/** Whether the wanted path is a symlink, which may change its target. Otherwise CommonJS has only completed the name. */
function isLinkTo(wanted: string, url: string): boolean {
  try {
    return realpathSync(fileURLToPath(wanted)) === fileURLToPath(url)
  } catch {
    return false
  }
}

/** Node loads a module: for the first time, or again because it could not be read or parsed before. */
export function noteLoaded(url: string, format: string | null | undefined): void {
  if (!imports.has(url)) return
  // For a CommonJS plugin Node keeps the first text, whatever the query is.
  const isKept = format?.startsWith('commonjs') === true && url.includes('?content=')
  const plain = isKept ? plainOf(url) : url
  if (isKept) imports.get(url)!.set(plain, plain)
  if (!isKept || !loaded.has(plain)) loaded.set(plain, digestOf(plain))
}

/** The modules below a plugin's file, as of its last import. */
export function importsOf(file: string): ImportedFile[] {
  const url = plugins.get(file)
  const modules = new Set(url === undefined ? [] : [url, plainOf(url)])
  const found = new Map<string, ImportedFile>()
  // Modules added during the loop are visited too.
  for (const module of modules) {
    for (const [wanted, child] of imports.get(module) ?? []) {
      if (child !== null) modules.add(child)
      // A module that was never loaded is not running.
      const changed = child !== null && loaded.has(child) && loaded.get(child) !== digestOf(wanted)
      if (changed || !found.has(wanted)) {
        found.set(wanted, { file: fileURLToPath(wanted), changed, wasMissing: missing.has(wanted) })
      }
    }
  }
  return [...found.values()]
}

function digestOf(url: string): string {
  try {
    return createHash('sha256')
      .update(readFileSync(fileURLToPath(url)))
      .digest('hex')
  } catch {
    return 'unreadable'
  }
}
