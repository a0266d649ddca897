/**
 * Loads plugins from outside the gateway: a file, or a package from npm. A plugin that cannot be loaded is an error; it is never
 * skipped, because it may protect something.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile, realpath } from 'node:fs/promises'
import { basename, dirname, extname, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  type AnyPlugin,
  definePlugin,
  firstLineOf,
  isPlugin,
  placeOfMistake,
  type StepMiddleware,
  shownPlace,
} from '#contract'
import { nearest } from '../common/nearest.ts'
import { followPlugin } from './imports.ts'
import { npmSpecifier, registerResolveHook } from './resolve-hook.ts'

export interface ResolvedPlugin {
  readonly plugin: AnyPlugin
  readonly origin: 'built-in' | 'file' | 'npm'
  /** A Koa middleware without access to the exchange; its settings are not checked. */
  readonly foreign: boolean
  /** Absolute path of a plugin in a file; null otherwise. */
  readonly file: string | null
}

const EXTENSIONS = ['.ts', '.mts', '.js', '.mjs', '.cjs']
/** Maximum time for loading a plugin. */
export const LOAD_LIMIT_MS = 10_000

/** Loads the plugin of `use`. Rejects with a sentence for the author of the policy. */
export async function findPlugin(
  use: string,
  { policyFile, configFile }: { readonly policyFile: string; readonly configFile: string },
  limitMs = LOAD_LIMIT_MS,
): Promise<ResolvedPlugin> {
  if (use.startsWith('npm:')) return findPackage(use.slice('npm:'.length), configFile, limitMs)
  if (/^\.\.?\//.test(use)) return findFile(use, { policyFile, configFile }, limitMs)
  throw new Error(`"${use}" is neither a built-in plugin nor ./path/to/plugin.ts nor npm:package`)
}

async function findFile(
  use: string,
  { policyFile, configFile }: { readonly policyFile: string; readonly configFile: string },
  limitMs: number,
): Promise<ResolvedPlugin> {
  const file = resolve(dirname(policyFile), use)
  if (!EXTENSIONS.includes(extname(file))) {
    throw new Error(await withMeantFile(`${use} must end in ${EXTENSIONS.join(', ')}`, use, file))
  }
  // Node runs a file behind a symlink by its real path, so its imports are tracked by that path.
  const unreadable = async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw new Error(`${file} cannot be read: ${error.code}`)
    throw new Error(await withMeantFile(`${file} does not exist`, use, file))
  }
  const real = await realpath(file).catch(unreadable)
  const text = await readFile(real).catch(unreadable)
  // The URL contains a digest of the text: a reload runs a changed file, and an unchanged one keeps its module.
  const url = `${pathToFileURL(real).href}?content=${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
  followPlugin(file, url)
  const plugin = await importDefault(url, { use, configFile, where: file, real, npm: null }, limitMs)
  if (isPlugin(plugin)) return { plugin, origin: 'file', foreign: false, file }
  throw new Error(`the default export of ${file} was not made by definePlugin`)
}

/** Adds the probable file to a message: the name with an extension, the index file of a folder, or a similar name. */
async function withMeantFile(message: string, use: string, file: string): Promise<string> {
  const name = basename(file)
  const [beside, inside] = [await filesIn(dirname(file)), await filesIn(file)]
  const meant =
    beside.find(each => EXTENSIONS.some(ending => each === name + ending)) ??
    inside.filter(each => each.startsWith('index.')).map(each => `${name}/${each}`)[0] ??
    nearest(name, beside)
  return meant === undefined ? message : `${message}; did you mean "${use.slice(0, -name.length)}${meant}"?`
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder).catch(() => [])
  return entries.filter(entry => EXTENSIONS.includes(extname(entry)) && !/\.(test|d)\.\w+$/.test(entry))
}

async function findPackage(name: string, configFile: string, limitMs: number): Promise<ResolvedPlugin> {
  const folder = dirname(resolve(configFile))
  if (!/^(@[a-z0-9._~-]+\/)?[a-z0-9~-][a-z0-9._~-]*(\/[A-Za-z0-9._~/-]+)?$/.test(name)) {
    throw new Error(`"npm:${name}" does not name a package`)
  }
  const parent = pathToFileURL(resolve(configFile)).href
  const manifest = await manifestOf(name, folder)
  await checkGateway(name, manifest)
  const npm = { name: packageOf(name), manifest }
  const place: Place = { use: `npm:${name}`, configFile, where: folder, real: folder, npm }
  const found = await importDefault(npmSpecifier(name, parent), place, limitMs)
  if (isPlugin(found)) return { plugin: found, origin: 'npm', foreign: false, file: null }
  // A CommonJS module compiled from an ES module has its default export in `default`.
  const factory = typeof found === 'object' && found !== null && 'default' in found ? found.default : found
  if (isPlugin(factory)) return { plugin: factory, origin: 'npm', foreign: false, file: null }
  if (typeof factory !== 'function') {
    throw new Error(`the default export of npm:${name} is neither a plugin nor a function that makes a Koa middleware`)
  }
  return { plugin: wrapKoa(name, factory as KoaFactory), origin: 'npm', foreign: true, file: null }
}

type KoaFactory = (settings: unknown) => unknown

/** Wraps a Koa middleware factory as a plugin. The factory gets the step's settings as its only argument. */
function wrapKoa(name: string, factory: KoaFactory): AnyPlugin {
  return definePlugin<Record<string, unknown>>({
    name,
    description: `The Koa middleware ${name}; its settings are its own and are not checked.`,
    settings: { type: 'object', additionalProperties: false, properties: {} },
    create: settings => {
      const middleware = factory(settings)
      if (typeof middleware === 'function') return middleware as StepMiddleware
      throw new TypeError(`npm:${name} was called with the settings and did not return a Koa middleware`)
    },
  })
}

/** The members of package.json about compatibility. */
interface Manifest {
  readonly engines?: Readonly<Record<string, unknown>>
  readonly peerDependencies?: Readonly<Record<string, unknown>>
}

/** The package of a specifier: `npm:@acme/tools/limit` is in @acme/tools. */
function packageOf(name: string): string {
  return name.split('/', name.startsWith('@') ? 2 : 1).join('/')
}

/** The package.json that Node will find for the package; null if not found. */
async function manifestOf(name: string, folder: string): Promise<Manifest | null> {
  for (let at = folder; ; at = dirname(at)) {
    const file = join(at, 'node_modules', packageOf(name), 'package.json')
    const text = await readFile(file, 'utf8').catch(() => null)
    if (text === null && at !== dirname(at)) continue
    try {
      return text === null ? null : (JSON.parse(text) as Manifest)
    } catch {
      // Node reports the error better.
      return null
    }
  }
}

/** Refuses a package that declares another version of this gateway. */
async function checkGateway(name: string, manifest: Manifest | null): Promise<void> {
  const range = manifest?.engines?.['tollgate'] ?? manifest?.peerDependencies?.['tollgate']
  if (typeof range !== 'string') return
  const own = await readFile(new URL('../../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(own) as { readonly version: string }
  if (!(await excludes(range, version))) return
  throw new Error(
    `npm:${name} is for tollgate ${range}, but this is ${version}; install a version of it for ${version}`,
  )
}

/** The plugin being imported and its location, for error messages. */
interface Place {
  readonly use: string
  /** gateway.yaml. */
  readonly configFile: string
  /** The plugin's file, or the folder of the configuration for a package. */
  readonly where: string
  /** The same without symlinks, as in Node's messages. */
  readonly real: string
  readonly npm: { readonly name: string; readonly manifest: Manifest | null } | null
}

async function importDefault(specifier: string, place: Place, limitMs: number): Promise<unknown> {
  registerResolveHook()
  // A module that waits at its top level must not block the start silently.
  const late = `it did not finish loading in ${limitMs / 1000} s`
  try {
    const module = (await withinLimit(import(specifier), limitMs, late)) as { default?: unknown }
    if (module.default !== undefined) return module.default
  } catch (error) {
    throw new Error(await reason(error, place), { cause: error })
  }
  throw new Error(`${place.use} (${place.where}) has no default export`)
}

/** Advice for errors whose message from Node has none. */
const HINTS: Readonly<Record<string, string>> = {
  ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX:
    'Node.js only removes the types of TypeScript: replace syntax that must be compiled (an enum by a constant object), or compile the file',
  ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING:
    'Node.js runs no TypeScript from node_modules: a package must contain JavaScript',
  ERR_PACKAGE_PATH_NOT_EXPORTED: 'the "exports" of its package.json must name what a policy uses',
}

/** Node's message for `import` and `export` in a file that a package.json declares to be CommonJS (as `npm init` does). */
const NOT_A_MODULE = /Cannot use import statement outside a module|Unexpected token 'export'/
const MODULE_HINT =
  'the package.json above it must have "type": "module": npm pkg set type=module; then restart the gateway if it is running'

/** The first line of the error, its place, and advice if known. */
async function reason(error: unknown, place: Place): Promise<string> {
  const { code } = Object(error) as { code?: string }
  const line = firstLineOf(error)
  const { use, npm } = place
  if (npm && code === 'ERR_MODULE_NOT_FOUND' && line.includes(`'${npm.name}'`)) {
    return `the package ${npm.name} is not installed beside the configuration; run npm install in ${place.where}`
  }
  const hint =
    HINTS[code ?? ''] ?? (NOT_A_MODULE.test(line) ? MODULE_HINT : null) ?? (await olderNode(npm?.manifest ?? null))
  return `${use} (${placeIn(error, place)}) failed to load: ${line}${hint ? ` (${hint})` : ''}`
}

/** A hint if the package declares another Node.js version. Many packages declare too little, so this alone is not an error. */
async function olderNode(manifest: Manifest | null): Promise<string | null> {
  const range = manifest?.engines?.['node']
  if (typeof range !== 'string' || !(await excludes(range, process.versions.node))) return null
  return `it is for Node.js ${range}, but this is ${process.versions.node}`
}

/** Whether a version range excludes a version. A text that is not a range (a tag, a URL) excludes nothing. */
async function excludes(range: string, version: string): Promise<boolean> {
  // Imported only if a package declares a range: the module takes 8 ms and half a megabyte.
  const { satisfies, validRange } = await import('semver')
  return validRange(range) !== null && !satisfies(version, range, { includePrerelease: true })
}

/** The place in the error's stack; without one, the file. */
function placeIn(error: unknown, { configFile, where, real }: Place): string {
  const place = placeOfMistake(error)
  return place === null ? where : shownPlace({ ...place, file: place.file === real ? where : place.file }, configFile)!
}

/** Waits for a plugin's code; rejects with `late` after the limit. */
export async function withinLimit<T>(work: Promise<T>, limitMs: number, late: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(late)), limitMs)
  })
  return Promise.race([work, over]).finally(() => clearTimeout(timer))
}
