/** The plugins that policies can use: built-in ones by name, others by path or package. */
import { type AnyPlugin, FACT_NAMES, type FactName, isPlugin, SERVICE_NAMES } from '#contract'
import { didYouMean } from '../common/nearest.ts'
import { findPlugin, LOAD_LIMIT_MS, type ResolvedPlugin } from './find-plugin.ts'
import { type ImportedFile, importsOf } from './imports.ts'

export interface Registry {
  /** Names of the built-in plugins, in alphabetical order. */
  readonly names: readonly string[]
  find(name: string): AnyPlugin | undefined
  /** Names of the built-in plugins that give a fact. */
  givers(fact: FactName): readonly string[]
  /** The plugin for `use: NAME`, `./path.ts` or `npm:package`. Rejects with an Error whose message is for the author of the policy. */
  load(use: string, place: { readonly policyFile: string; readonly configFile: string }): Promise<ResolvedPlugin>
  /** The local files that a plugin's file imports, at any depth. Available after it was loaded. */
  imports(file: string): readonly ImportedFile[]
}

/** Creates a registry of these built-in plugins. Throws if one is invalid, which is a bug of the gateway. */
export function createRegistry(builtIn: readonly AnyPlugin[], loadLimitMs = LOAD_LIMIT_MS): Registry {
  const plugins = new Map<string, AnyPlugin>()
  for (const plugin of builtIn) {
    const complaints = isPlugin(plugin) ? complaintsAbout(plugin) : ['it was not made by definePlugin']
    if (plugins.has(plugin.name)) complaints.push('there are two of that name')
    if (complaints.length > 0) throw new TypeError(`built-in plugin "${plugin.name}": ${complaints.join('; ')}`)
    plugins.set(plugin.name, plugin)
  }
  return {
    names: [...plugins.keys()].sort(),
    find: name => plugins.get(name),
    givers: fact => [...plugins.values()].filter(plugin => plugin.gives?.includes(fact)).map(plugin => plugin.name),
    load: async (use, place) => {
      const plugin = plugins.get(use)
      if (plugin !== undefined) return { plugin, origin: 'built-in', foreign: false, file: null }
      const found = await findPlugin(use, place, loadLimitMs)
      const complaint = found.foreign ? undefined : complaintsAbout(found.plugin)[0]
      if (complaint !== undefined) throw new Error(`the plugin of ${use} is invalid: ${complaint}`)
      const { name } = found.plugin
      if (!found.foreign && plugins.has(name)) {
        throw new Error(`the plugin of ${use} is called "${name}", like a built-in plugin: give it another name`)
      }
      return found
    },
    imports: importsOf,
  }
}

/** The checks that TypeScript makes, for plugins that were not type-checked. */
export function complaintsAbout(plugin: AnyPlugin): string[] {
  const complaints: string[] = []
  const { name, settings, needs, before, precedes, gives = [], uses = [], check, create } = plugin as Partial<AnyPlugin>
  const known = (words: readonly string[]) => (word: unknown) => words.includes(String(word))
  if (typeof name !== 'string' || !/^[a-z][a-z0-9-]{0,39}$/.test(name)) {
    complaints.push('its name must be lower-case words with dashes')
  }
  if (typeof create !== 'function') complaints.push('it has no function "create"')
  if (check !== undefined && typeof check !== 'function') complaints.push('"check" must be a function')
  for (const [word, facts] of Object.entries({ needs, before, precedes })) {
    if (facts === undefined || typeof facts === 'function' || Array.isArray(facts)) continue
    complaints.push(`"${word}" must be a list or a function`)
  }
  for (const fact of [needs, before, gives].flatMap(facts => (Array.isArray(facts) ? facts : []))) {
    if (!known(FACT_NAMES)(fact)) complaints.push(withMeant(`the fact "${fact}" does not exist`, fact, FACT_NAMES))
  }
  for (const service of uses) {
    if (known(SERVICE_NAMES)(service)) continue
    complaints.push(withMeant(`the service "${service}" does not exist`, service, SERVICE_NAMES))
  }
  for (const member of Object.keys(plugin)) {
    // A plugin may have other members. One that is similar to a known name is a typing error, and would have no effect.
    const meant = MEMBERS.includes(member) ? undefined : didYouMean(member, MEMBERS)
    if (meant !== undefined) complaints.push(`it has "${member}", which has no effect; ${meant}`)
  }
  return [...complaints, ...complaintsAboutSettings(settings)]
}

/** The members that `definePlugin` takes. */
const MEMBERS: readonly string[] = Object.keys({
  name: true,
  description: true,
  critical: true,
  ends: true,
  records: true,
  dryRun: true,
  needsBody: true,
  needs: true,
  before: true,
  precedes: true,
  gives: true,
  uses: true,
  settings: true,
  check: true,
  create: true,
} satisfies Record<keyof AnyPlugin, true>)

function withMeant(message: string, word: unknown, known: readonly string[]): string {
  const meant = didYouMean(String(word), known)
  return meant === undefined ? message : `${message}; ${meant}`
}

function complaintsAboutSettings(settings: Partial<AnyPlugin['settings']> | undefined): string[] {
  if (settings?.type !== 'object' || typeof settings.properties !== 'object') {
    return ['"settings" must be a JSON Schema of type object with properties']
  }
  const complaints: string[] = []
  if (settings.additionalProperties !== false) complaints.push('"settings" must have additionalProperties: false')
  for (const [property, schema] of Object.entries(settings.properties)) {
    const { description } = schema as { description?: unknown }
    if (typeof description !== 'string' || description === '') {
      complaints.push(`the setting "${property}" has no description`)
    }
  }
  return complaints
}
