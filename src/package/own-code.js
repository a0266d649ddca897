// What `exports` of package.json leads to is plain JavaScript, because one path has to serve two places: a checkout, where Node
// runs the sources, and node_modules, where it strips no types and what was compiled runs.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'

const sources = new URL('../contract/index.ts', import.meta.url)
const useSources = existsSync(sources) && !sources.pathname.includes('/node_modules/')
const require = createRequire(import.meta.url)

/** The exports of `contract` or `testing`: the same module as the gateway's own, for `require` and `import` share it. */
export function ownCode(folder) {
  return require(useSources ? `../${folder}/index.ts` : `../../dist/src/${folder}/index.js`)
}
