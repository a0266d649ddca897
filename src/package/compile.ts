/**
 * Builds `dist` for the npm package, as its `prepack`: Node strips no types below node_modules. `dist` is a copy of the checkout with
 * compiled modules. So files that a module reads (migrations, policies, the page, the version) have the same relative path in both.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildPage } from '../cli/page.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const DIST = join(ROOT, 'dist')
const TSC = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')

rmSync(DIST, { recursive: true, force: true })
const page = await buildPage()
// Types of the modules that plugins and their tests import, and of those that they refer to. No others are needed.
for (const project of ['tsconfig.json', 'tsconfig.types.json']) {
  execFileSync(process.execPath, [TSC, '-p', join(import.meta.dirname, project)], { stdio: 'inherit' })
}
// Only the served files of the page.
for (const name of globSync('**/*', { cwd: page })) copy(join(page, name))
for (const name of globSync(['src/**/*.sql', 'policies/*.yaml', 'gateway.yaml'], { cwd: ROOT })) copy(join(ROOT, name))
// The nearest package.json defines `.js` and `#contract` for Node and for TypeScript.
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { readonly version: string }
const manifest = { version, private: true, type: 'module', imports: { '#contract': './src/contract/index.js' } }
writeFileSync(join(DIST, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)

function copy(file: string): void {
  cpSync(file, join(DIST, relative(ROOT, file)), { recursive: true })
}
