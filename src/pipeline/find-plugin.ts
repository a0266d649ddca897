/**
 * Plugins from outside the gateway: a file of one's own, or a package from npm. One that cannot be loaded is an error,
 * never left out: it may be the one that guards something.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type AnyPlugin, definePlugin, isPlugin, type StepMiddleware } from '#contract'
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
const LOAD_LIMIT_MS = 10_000

/** Loads what `use` says. Rejects with a sentence for the one who wrote it. */
export async function findPlugin(
  use: string,
  { saidIn, configFile }: { readonly saidIn: string; readonly configFile: string },
): Promise<FoundPlugin> {
  if (use.startsWith('npm:')) return findPackage(use.slice('npm:'.length), configFile)
  if (/^\.\.?\//.test(use)) return findFile(use, resolve(dirname(saidIn), use))
  throw new Error(`"${use}" is neither a built-in plugin nor ./path/to/plugin.ts nor npm:package`)
}

async function findFile(use: string, file: string): Promise<FoundPlugin> {
  if (!EXTENSIONS.includes(extname(file))) throw new Error(`${use} must end in ${EXTENSIONS.join(', ')}`)
  const text = await readFile(file).catch((error: NodeJS.ErrnoException) => {
    throw new Error(error.code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read: ${error.code}`)
  })
  // Named by its content, so that a reload runs a changed file and an unchanged one keeps its module.
  const url = `${pathToFileURL(file).href}?content=${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
  const plugin = await importDefault(url, use, file)
  if (isPlugin(plugin)) return { plugin, origin: 'file', foreign: false, file }
  throw new Error(`the default export of ${file} was not made by definePlugin`)
}

async function findPackage(name: string, configFile: string): Promise<FoundPlugin> {
  const folder = dirname(resolve(configFile))
  if (!/^(@[a-z0-9._~-]+\/)?[a-z0-9~-][a-z0-9._~-]*(\/[A-Za-z0-9._~/-]+)?$/.test(name)) {
    throw new Error(`"npm:${name}" does not name a package`)
  }
  const parent = pathToFileURL(resolve(configFile)).href
  const found = await importDefault(npmSpecifier(name, parent), `npm:${name}`, folder, name)
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

async function importDefault(specifier: string, use: string, place: string, packageName?: string): Promise<unknown> {
  registerResolveHook()
  try {
    const module = (await withinLimit(import(specifier))) as { default?: unknown }
    if (module.default !== undefined) return module.default
  } catch (error) {
    throw new Error(reason(error, use, place, packageName), { cause: error })
  }
  throw new Error(`${use} (${place}) has no default export`)
}

/** The first line of what went wrong, and where. */
function reason(error: unknown, use: string, place: string, packageName: string | undefined): string {
  const { code, message, stack } = error as { code?: string; message?: string; stack?: string }
  const line = (message ?? String(error)).split('\n', 1)[0]!
  const missing = code === 'ERR_MODULE_NOT_FOUND' && packageName !== undefined && line.includes(`'${packageName}'`)
  if (missing)
    return `the package ${packageName} is not installed beside the configuration; run npm install in ${place}`
  return `${use} (${placeIn(stack, place)}) failed to load: ${line}`
}

/** `file:line` when the error's stack begins with a place in that file (a syntax error does), else the file. */
function placeIn(stack: string | undefined, place: string): string {
  const first = stack?.split('\n').find(line => line.includes(place))
  const number = first === undefined ? undefined : /:(\d+)(?::\d+)?\)?$/.exec(first.trim())?.[1]
  return number === undefined ? place : `${place}:${number}`
}

/** A module that waits for something at its top level must not keep the gateway from starting without a word. */
async function withinLimit<T>(loading: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not finish loading in ${LOAD_LIMIT_MS / 1000} s`)), LOAD_LIMIT_MS)
  })
  return Promise.race([loading, late]).finally(() => clearTimeout(timer))
}
