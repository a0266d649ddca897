/**
 * What the files of plugins import from beside them. Node keeps such a module as it was first loaded for the life of the
 * process, so a change in one of them would be half there: it has to be noticed.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'

export interface ImportedFile {
  /** Absolute path. */
  readonly file: string
  /** Whether its text is another one than that which runs. */
  readonly changed: boolean
}

/** By the URL of a module at or below a plugin: the URLs of the modules that it imports by a relative path. */
const imports = new Map<string, Set<string>>()
/** By the URL of such a module: the digest of the text that Node loaded. */
const loaded = new Map<string, string>()
/** By the path of a plugin: the URL under which it was last imported. */
const plugins = new Map<string, string>()

/** A plugin's file is about to be imported under this URL. */
export function followPlugin(file: string, url: string): void {
  plugins.set(file, url)
  // CommonJS modules are known without the query.
  for (const module of [url, pathToFileURL(file).href]) if (!imports.has(module)) imports.set(module, new Set())
}

/** A module imports another, which is at `url`; null where there is none. */
export function followImport(parent: string | undefined, specifier: string, url: string | null): void {
  const below = parent === undefined ? undefined : imports.get(parent)
  if (below === undefined || !/^\.{1,2}\//.test(specifier)) return
  const child = url ?? new URL(specifier, parent).href
  if (!child.startsWith('file:')) return
  below.add(child)
  if (!imports.has(child)) imports.set(child, new Set())
}

/** Node loads a module: the first time, or again because it could not be read or parsed before. */
export function noteLoaded(url: string, format: string | null | undefined): void {
  if (!imports.has(url)) return
  // Of a CommonJS plugin Node keeps the first text, whatever the query says.
  const isKept = format?.startsWith('commonjs') === true && url.includes('?content=')
  const plain = isKept ? url.replace(/\?content=.*$/, '') : url
  if (isKept) imports.get(url)!.add(plain)
  if (!isKept || !loaded.has(plain)) loaded.set(plain, digestOf(plain))
}

/** The modules below a plugin's file as it was last imported. */
export function importsOf(file: string): ImportedFile[] {
  const found = new Set<string>()
  const queue = [plugins.get(file), pathToFileURL(file).href]
  for (const module of queue) {
    for (const child of imports.get(module ?? '') ?? []) {
      if (found.has(child)) continue
      found.add(child)
      queue.push(child)
    }
  }
  // A module that was never loaded runs nowhere.
  return [...found].map(url => ({
    file: fileURLToPath(url),
    changed: loaded.has(url) && loaded.get(url) !== digestOf(url),
  }))
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
