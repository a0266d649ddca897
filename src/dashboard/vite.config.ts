/**
 * How the page is built: JSX for Preact without a plugin, files with hashes in their names, and nothing inline, because the
 * page is served with a content security policy that allows neither inline scripts nor inline styles.
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
    // The page names what it begins with; the few files that come later are not worth a loader of their own.
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
          // Many small files compress badly: what the same people open is one file. The charts' library stays apart.
          // The first group that fits has a file. Signing in is in that of everybody: alone it would be a small one.
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

/** A script that the browser runs before it draws: an ordinary one in the head, not a module, which would wait. */
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
        if (!made) throw new Error(`${file} is not among what was built`)
        return [{ tag: 'script', attrs: { src: `/${made.fileName}` }, injectTo: 'head-prepend' }]
      },
    },
  }
}
