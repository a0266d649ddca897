/**
 * Plugins from outside the gateway: a file of one's own, or a package from npm. One that cannot be loaded is an error,
 * never left out: it may be the one that guards something.
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

export interface FoundPlugin {
  readonly plugin: AnyPlugin
  readonly origin: 'built-in' | 'file' | 'npm'
  /** A Koa middleware that knows nothing of the exchange; its settings are unchecked. */
  readonly foreign: boolean
  /** Absolute path of a plugin that is a file of its own; null otherwise. */
  readonly file: string | null
}

const EXTENSIONS = ['.ts', '.mts', '.js', '.mjs', '.cjs']
/** Longer than that no plugin takes to load. */
export const LOAD_LIMIT_MS = 10_000

/** Loads what `use` says. Rejects with a sentence for the one who wrote it. */
export async function findPlugin(
  use: string,
  { saidIn, configFile }: { readonly saidIn: string; readonly configFile: string },
  limitMs = LOAD_LIMIT_MS,
): Promise<FoundPlugin> {
  if (use.startsWith('npm:')) return findPackage(use.slice('npm:'.length), configFile, limitMs)
  if (/^\.\.?\//.test(use)) return findFile(use, { saidIn, configFile }, limitMs)
  throw new Error(`"${use}" is neither a built-in plugin nor ./path/to/plugin.ts nor npm:package`)
}

async function findFile(
  use: string,
  { saidIn, configFile }: { readonly saidIn: string; readonly configFile: string },
  limitMs: number,
): Promise<FoundPlugin> {
  const file = resolve(dirname(saidIn), use)
  if (!EXTENSIONS.includes(extname(file))) {
    throw new Error(await withMeantFile(`${use} must end in ${EXTENSIONS.join(', ')}`, use, file))
  }
  // Behind a symlink Node runs the file by its real path, and so what it imports has to be known by that.
  const unreadable = async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw new Error(`${file} cannot be read: ${error.code}`)
    throw new Error(await withMeantFile(`there is no file ${file}`, use, file))
  }
  const real = await realpath(file).catch(unreadable)
  const text = await readFile(real).catch(unreadable)
  // Named by its content, so that a reload runs a changed file and an unchanged one keeps its module.
  const url = `${pathToFileURL(real).href}?content=${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
  followPlugin(file, url)
  const plugin = await importDefault(url, { use, configFile, where: file, real, npm: null }, limitMs)
  if (isPlugin(plugin)) return { plugin, origin: 'file', foreign: false, file }
  throw new Error(`the default export of ${file} was not made by definePlugin`)
}

/** A sentence with the file that was probably meant: the same with an ending, the one of a folder, or one with a like name. */
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

async function findPackage(name: string, configFile: string, limitMs: number): Promise<FoundPlugin> {
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
  // A CommonJS module compiled from an ES module has its default export one level further down.
  const factory = typeof found === 'object' && found !== null && 'default' in found ? found.default : found
  if (isPlugin(factory)) return { plugin: factory, origin: 'npm', foreign: false, file: null }
  if (typeof factory !== 'function') {
    throw new Error(`the default export of npm:${name} is neither a plugin nor a function that makes a Koa middleware`)
  }
  return { plugin: wrapKoa(name, factory as KoaFactory), origin: 'npm', foreign: true, file: null }
}

type KoaFactory = (settings: unknown) => unknown

/** A Koa middleware factory as a plugin: called with the step's settings as its only argument. */
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

/** What of a package.json says where the package can run. */
interface Manifest {
  readonly engines?: Readonly<Record<string, unknown>>
  readonly peerDependencies?: Readonly<Record<string, unknown>>
}

/** `npm:@acme/tools/limit` is in the package @acme/tools. */
function packageOf(name: string): string {
  return name.split('/', name.startsWith('@') ? 2 : 1).join('/')
}

/** The package.json of the package where Node will find it; null without one. */
async function manifestOf(name: string, folder: string): Promise<Manifest | null> {
  for (let at = folder; ; at = dirname(at)) {
    const file = join(at, 'node_modules', packageOf(name), 'package.json')
    const text = await readFile(file, 'utf8').catch(() => null)
    if (text === null && at !== dirname(at)) continue
    try {
      return text === null ? null : (JSON.parse(text) as Manifest)
    } catch {
      // Node says it better.
      return null
    }
  }
}

/** Refuses a package that says by itself that it is for another version of this gateway. */
async function checkGateway(name: string, manifest: Manifest | null): Promise<void> {
  const range = manifest?.engines?.['tollgate'] ?? manifest?.peerDependencies?.['tollgate']
  if (typeof range !== 'string') return
  const own = await readFile(new URL('../../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(own) as { readonly version: string }
  if (!(await excludes(range, version))) return
  throw new Error(`npm:${name} says that it is for tollgate ${range}, and this is ${version}; install a version for it`)
}

/** Who is imported, from where, for the sentence when it fails. */
interface Place {
  readonly use: string
  /** gateway.yaml. */
  readonly configFile: string
  /** The file; of a package the folder of the configuration. */
  readonly where: string
  /** Where that is without symlinks, as Node says it. */
  readonly real: string
  readonly npm: { readonly name: string; readonly manifest: Manifest | null } | null
}

async function importDefault(specifier: string, place: Place, limitMs: number): Promise<unknown> {
  registerResolveHook()
  // One that waits for something at its top level must not keep the gateway from starting without a word.
  const late = `it did not finish loading in ${limitMs / 1000} s`
  try {
    const module = (await withinLimit(import(specifier), limitMs, late)) as { default?: unknown }
    if (module.default !== undefined) return module.default
  } catch (error) {
    throw new Error(await reason(error, place), { cause: error })
  }
  throw new Error(`${place.use} (${place.where}) has no default export`)
}

/** What to do about what Node's own sentence leaves to be found out. */
const HINTS: Readonly<Record<string, string>> = {
  ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX:
    'Node.js runs TypeScript by leaving the types out: write it without what has to be compiled (an enum as a constant object), or compile it',
  ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING:
    'Node.js runs no TypeScript from node_modules: a package has to bring JavaScript',
  ERR_PACKAGE_PATH_NOT_EXPORTED: 'the "exports" of its package.json must name what a policy uses',
}

/** What Node says of `import` and `export` in a file that a package.json declares to be CommonJS (as `npm init` does). */
const NOT_A_MODULE = /Cannot use import statement outside a module|Unexpected token 'export'/
const SAY_MODULE =
  'the package.json above it must say "type": "module": npm pkg set type=module; a gateway that runs has to be started again then'

/** The first line of what went wrong, where, and what to do where that is known. */
async function reason(error: unknown, place: Place): Promise<string> {
  const { code } = Object(error) as { code?: string }
  const line = firstLineOf(error)
  const { use, npm } = place
  if (npm && code === 'ERR_MODULE_NOT_FOUND' && line.includes(`'${npm.name}'`)) {
    return `the package ${npm.name} is not installed beside the configuration; run npm install in ${place.where}`
  }
  const hint =
    HINTS[code ?? ''] ?? (NOT_A_MODULE.test(line) ? SAY_MODULE : null) ?? (await olderNode(npm?.manifest ?? null))
  return `${use} (${placeIn(error, place)}) failed to load: ${line}${hint ? ` (${hint})` : ''}`
}

/** That may be why. Many packages say less than they can, so by itself it is no reason to refuse one. */
async function olderNode(manifest: Manifest | null): Promise<string | null> {
  const range = manifest?.engines?.['node']
  if (typeof range !== 'string' || !(await excludes(range, process.versions.node))) return null
  return `it says that it is for Node.js ${range}, and this is ${process.versions.node}`
}

/** Whether a range of versions leaves a version out. A text that is no range (a tag, an address) excludes nothing. */
async function excludes(range: string, version: string): Promise<boolean> {
  // Imported when a package names a range: the module takes 8 ms and half a megabyte of each start otherwise.
  const { satisfies, validRange } = await import('semver')
  return validRange(range) !== null && !satisfies(version, range, { includePrerelease: true })
}

/** Where the error's stack says that it is; without that, the file. */
function placeIn(error: unknown, { configFile, where, real }: Place): string {
  const place = placeOfMistake(error)
  return place === null ? where : shownPlace({ ...place, file: place.file === real ? where : place.file }, configFile)!
}

/** Waits for what other people's code has begun; rejects with `late` when it takes longer. */
export async function withinLimit<T>(work: Promise<T>, limitMs: number, late: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(late)), limitMs)
  })
  return Promise.race([work, over]).finally(() => clearTimeout(timer))
}
