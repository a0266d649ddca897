/**
 * How plugins outside this repository resolve their imports: `tollgate/plugin` always means the contract of the gateway
 * that runs, wherever the plugin lies and whatever is installed beside it; and npm packages named in a policy are looked
 * for beside the configuration, never in the gateway's own node_modules.
 */
import { registerHooks } from 'node:module'

/** A private URL scheme: `tollgate-npm:PARENT!SPECIFIER` is SPECIFIER as PARENT would resolve it. */
const NPM = 'tollgate-npm:'

// `.ts` in a checkout, `.js` in the published package: as this file itself.
const CONTRACT = new URL(`../contract/index${/\.[a-z]+$/.exec(new URL(import.meta.url).pathname)![0]}`, import.meta.url)
  .href

let registered = false

/** Installs the hook, once for the life of the process. */
export function registerResolveHook(): void {
  if (registered) return
  registered = true
  registerHooks({
    resolve(specifier, context, nextResolve) {
      if (specifier === 'tollgate/plugin') return { url: CONTRACT, format: formatOf(CONTRACT), shortCircuit: true }
      if (!specifier.startsWith(NPM)) return nextResolve(specifier, context)
      const [parentURL, wanted] = specifier.slice(NPM.length).split('!', 2).map(decodeURIComponent) as [string, string]
      return nextResolve(wanted, { ...context, parentURL })
    },
  })
}

const formatOf = (url: string) => (url.endsWith('.ts') ? 'module-typescript' : 'module')

/** What to import so that a package is found as the module at `parentUrl` would find it. */
export function npmSpecifier(name: string, parentUrl: string): string {
  return `${NPM}${encodeURIComponent(parentUrl)}!${encodeURIComponent(name)}`
}
