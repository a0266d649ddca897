/**
 * How the page is built: JSX for Preact without a plugin, files with hashes in their names, and nothing inline, because the
 * page is served with a content security policy that allows neither inline scripts nor inline styles.
 */
import { defineConfig } from 'vite'

export default defineConfig({
  root: new URL('.', import.meta.url).pathname,
  base: '/',
  publicDir: false,
  oxc: { jsx: { importSource: 'preact' } },
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    target: 'es2023',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
})
