/**
 * The build of the page: JSX for Preact without a plugin, and hashed file names. Nothing is inline: the content security policy
 * forbids inline scripts and styles.
 */
import { defineConfig, type Plugin } from 'vite'

const ROOT = new URL('.', import.meta.url).pathname

export default defineConfig({
  root: ROOT,
  base: '/',
  publicDir: false,
  oxc: { jsx: { importSource: 'preact' } },
  plugins: [firstScript(`${ROOT}first.ts`)],
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0,
    // index.html preloads the first files. For the few later ones, a preload helper would be too large.
    modulePreload: {
      polyfill: false,
      resolveDependencies: (_, names, { hostType }) => (hostType === 'html' ? names : []),
    },
    cssCodeSplit: false,
    reportCompressedSize: true,
    rolldownOptions: {
      output: {
        codeSplitting: {
          includeDependenciesRecursively: false,
          // Small files compress badly, so files that are opened together are one chunk. The first matching group wins. The
          // library for charts has its own chunk. The sign-in pages are in `core`: alone they would be a small file.
          groups: [
            { name: 'operator', test: /\/pages\/operator\// },
            {
              name: 'playground',
              test: /\/pages\/playground|\/ui\/markdown\.tsx$|\/lib\/(markdown|markdown-inline|sse|talk|use-talk)\.ts$/,
            },
            { name: 'chart', test: /\/node_modules\/uplot\/|\/ui\/chart\.tsx/ },
            {
              name: 'account',
              test: /\/pages\/(?!sign-in|register|join|reset|credentials|link-trouble)|\/ui\/lazy-chart\.tsx$|\/lib\/(budget-draft|keys|model-list|price-lines|request|snippets|spending|sum|trail|usage)\.ts$/,
            },
            {
              name: 'core',
              test: /\/node_modules\/preact\/|\/dashboard\/(lib|ui)\/|\/pages\/(sign-in|register|join|reset|credentials|link-trouble)\.tsx$/,
            },
          ],
        },
      },
    },
  },
})

/** Adds a script that runs before the first paint: a classic script in the head, because a module would wait. */
function firstScript(file: string): Plugin {
  return {
    name: 'first-script',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'chunk', id: file, name: 'first' })
    },
    transformIndexHtml: {
      order: 'post',
      handler(_, { bundle = {} }) {
        const made = Object.values(bundle).find(each => each.type === 'chunk' && each.facadeModuleId === file)
        if (!made) throw new Error(`${file} is not in the build. Check the plugin's entry file.`)
        return [{ tag: 'script', attrs: { src: `/${made.fileName}` }, injectTo: 'head-prepend' }]
      },
    },
  }
}
