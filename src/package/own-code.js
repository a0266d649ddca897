// The files of `exports` in package.json are plain JavaScript, because one path serves two places. In a checkout, Node runs the sources;
// below node_modules it strips no types, so the compiled files run.
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'

const sources = new URL('../contract/index.ts', import.meta.url)
const useSources = existsSync(sources) && !sources.pathname.includes('/node_modules/')
const require = createRequire(import.meta.url)

/** The exports of `contract` or `testing`: the gateway's own module, because `require` and `import` share it. */
export function ownCode(folder) {
  return require(useSources ? `../${folder}/index.ts` : `../../dist/src/${folder}/index.js`)
}
