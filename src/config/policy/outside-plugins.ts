/** The plugins of one's own that policies beside a gateway.yaml name: their settings belong into an editor's schema too. */
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { PluginRegistry } from '../configuration.ts'
import type { NamedPlugin } from '../json-schema.ts'
import { readSource } from '../yaml/source.ts'

export interface OutsidePlugins {
  readonly plugins: readonly NamedPlugin[]
  /** Those that could not be loaded, each with the reason. */
  readonly left: readonly { readonly use: string; readonly reason: string }[]
}

/** Looks through all policies, used or not. A Koa middleware has no settings that anybody knows, so it is left out. */
export async function outsidePlugins(configFile: string, registry: PluginRegistry): Promise<OutsidePlugins> {
  const plugins: NamedPlugin[] = []
  const left: { use: string; reason: string }[] = []
  for (const [use, saidIn] of await outsideUses(join(dirname(configFile), 'policies'))) {
    try {
      const { plugin, foreign } = await registry.load(use, { saidIn, configFile })
      if (!foreign) plugins.push({ use, plugin })
    } catch (error) {
      left.push({ use, reason: (error as Error).message })
    }
  }
  return { plugins, left }
}

/** Every `use` that is a path or a package, with a policy that says it. */
async function outsideUses(folder: string): Promise<Map<string, string>> {
  const uses = new Map<string, string>()
  const names = await readdir(folder).catch(() => [])
  for (const name of names.filter(each => /(?<!\.test)\.yaml$/.test(each)).sort()) {
    const file = join(folder, name)
    const text = await readFile(file, 'utf8').catch(() => '')
    // What is wrong in it, `check` says.
    const { value } = await readSource(file, text, { env: {}, readFile: async () => '' })
    const { steps } = (value ?? {}) as { steps?: unknown }
    for (const step of Array.isArray(steps) ? steps : []) {
      const use: unknown = (step as { use?: unknown } | null)?.use
      if (typeof use === 'string' && /^(\.{1,2}\/|npm:)/.test(use) && !uses.has(use)) uses.set(use, file)
    }
  }
  return uses
}
