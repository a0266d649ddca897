/**
 * What the files of plugins import from beside them. Node keeps such a module as it was first loaded for the life of the
 * process, so a change in one of them would be half there: it has to be noticed.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export interface ImportedFile {
  /** Absolute path; of a file behind a symlink that of the link. */
  readonly file: string
  /** Whether its text is another one than that which runs. */
  readonly changed: boolean
  /** There was no such file when Node wanted it, in the last load of a plugin. */
  readonly wasMissing: boolean
}

/** By the URL of a module at or below a plugin: what it imports by a relative path, by URL, with the URL that Node gave it. */
const imports = new Map<string, Map<string, string | null>>()
/** By the URL of such a module: the digest of the text that Node loaded. */
const loaded = new Map<string, string>()
/** By the path of a plugin: the URL under which it was last imported. */
const plugins = new Map<string, string>()
/** The URLs where Node found nothing since a plugin was last imported. */
const missing = new Set<string>()

/** A plugin's file is about to be imported under this URL, which has its real path: so Node calls it to what it imports. */
export function followPlugin(file: string, url: string): void {
  plugins.set(file, url)
  missing.clear()
  for (const module of [url, plainOf(url)]) if (!imports.has(module)) imports.set(module, new Map())
}

/** CommonJS modules are known without the query. */
const plainOf = (url: string) => url.replace(/\?content=.*$/, '')

/** A module imports another, which is at `url`; null where there is none. */
export function followImport(parent: string | undefined, specifier: string, url: string | null): void {
  const below = parent === undefined ? undefined : imports.get(parent)
  if (below === undefined || !/^\.{1,2}\//.test(specifier)) return
  const wanted = new URL(specifier, parent).href
  if (!(url ?? wanted).startsWith('file:')) return
  // A folder is there, and still nothing that could be imported.
  if (url === null && !existsSync(new URL(wanted))) missing.add(wanted)
  below.delete(wanted)
  below.set(url === null || isLinkTo(wanted, url) ? wanted : url, url)
  if (url !== null && !imports.has(url)) imports.set(url, new Map())
}

/** Whether what was wanted is a symlink, which may lead elsewhere later; CommonJS may have completed a name only. */
function isLinkTo(wanted: string, url: string): boolean {
  try {
    return realpathSync(fileURLToPath(wanted)) === fileURLToPath(url)
  } catch {
    return false
  }
}

/** Node loads a module: the first time, or again because it could not be read or parsed before. */
export function noteLoaded(url: string, format: string | null | undefined): void {
  if (!imports.has(url)) return
  // Of a CommonJS plugin Node keeps the first text, whatever the query says.
  const isKept = format?.startsWith('commonjs') === true && url.includes('?content=')
  const plain = isKept ? plainOf(url) : url
  if (isKept) imports.get(url)!.set(plain, plain)
  if (!isKept || !loaded.has(plain)) loaded.set(plain, digestOf(plain))
}

/** The modules below a plugin's file as it was last imported. */
export function importsOf(file: string): ImportedFile[] {
  const url = plugins.get(file)
  const modules = new Set(url === undefined ? [] : [url, plainOf(url)])
  const found = new Map<string, ImportedFile>()
  // What is added on the way is visited too.
  for (const module of modules) {
    for (const [wanted, child] of imports.get(module) ?? []) {
      if (child !== null) modules.add(child)
      // A module that was never loaded runs nowhere.
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
