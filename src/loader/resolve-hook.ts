/**
 * Resolves imports of plugins outside this repository. `tollgate/plugin` always means the contract of the running gateway, wherever the
 * plugin is and whatever is installed beside it. npm packages in a policy are searched beside the configuration, never in the gateway's
 * own node_modules.
 */
import { registerHooks } from 'node:module'
import { followImport, noteLoaded } from './imports.ts'

/** A private URL scheme: `tollgate-npm:PARENT!SPECIFIER` resolves SPECIFIER like PARENT would. */
const NPM = 'tollgate-npm:'

// `.ts` in a checkout, `.js` in the published package, like this file.
const EXTENSION = /\.[a-z]+$/.exec(new URL(import.meta.url).pathname)![0]
const OWN: Readonly<Record<string, string>> = {
  'tollgate/plugin': new URL(`../contract/index${EXTENSION}`, import.meta.url).href,
  'tollgate/testing': new URL(`../testing/index${EXTENSION}`, import.meta.url).href,
}

let registered = false

/** Installs the hook once per process. */
export function registerResolveHook(): void {
  if (registered) return
  registered = true
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const own = OWN[specifier]
      if (own !== undefined) return { url: own, format: formatOf(own), shortCircuit: true }
      if (isOurs(specifier)) {
        throw new Error(`plugins cannot import "${specifier}": they can import ${Object.keys(OWN).join(' and ')}`)
      }
      if (!specifier.startsWith(NPM)) {
        try {
          const resolved = nextResolve(specifier, context)
          followImport(context.parentURL, specifier, resolved.url)
          return resolved
        } catch (error) {
          // A missing file may be created later.
          followImport(context.parentURL, specifier, null)
          throw error
        }
      }
      const [parentURL, wanted] = specifier.slice(NPM.length).split('!', 2).map(decodeURIComponent) as [string, string]
      return nextResolve(wanted, { ...context, parentURL })
    },
    load(url, context, nextLoad) {
      const module = nextLoad(url, context)
      noteLoaded(url, module.format)
      return module
    },
  })
}

/** Other modules of this package are another copy, or internal. */
function isOurs(specifier: string): boolean {
  return specifier === 'tollgate' || (specifier.startsWith('tollgate/') && specifier !== 'tollgate/package.json')
}

const formatOf = (url: string) => (url.endsWith('.ts') ? 'module-typescript' : 'module')

/** The specifier to import a package as the module at `parentUrl` would find it. */
export function npmSpecifier(name: string, parentUrl: string): string {
  return `${NPM}${encodeURIComponent(parentUrl)}!${encodeURIComponent(name)}`
}
