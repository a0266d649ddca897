/** The external plugins in the policies beside a gateway.yaml, whose settings the editor schema includes. */
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { PluginRegistry } from '../configuration.ts'
import type { NamedPlugin } from '../json-schema.ts'
import { readSource } from '../yaml/source.ts'

export interface ExternalPlugins {
  readonly plugins: readonly NamedPlugin[]
  /** The plugins that could not be loaded, each with the reason. */
  readonly left: readonly { readonly use: string; readonly reason: string }[]
}

/** Reads all policies, used or not. Omits Koa middleware, whose settings are unknown. */
export async function externalPlugins(configFile: string, registry: PluginRegistry): Promise<ExternalPlugins> {
  const plugins: NamedPlugin[] = []
  const left: { use: string; reason: string }[] = []
  for (const [use, policyFile] of await outsideUses(join(dirname(configFile), 'policies'))) {
    try {
      const { plugin, foreign } = await registry.load(use, { policyFile, configFile })
      if (!foreign) plugins.push({ use, plugin })
    } catch (error) {
      left.push({ use, reason: (error as Error).message })
    }
  }
  return { plugins, left }
}

/** Each `use` that is a path or a package, with a policy that contains it. */
async function outsideUses(folder: string): Promise<Map<string, string>> {
  const uses = new Map<string, string>()
  const names = await readdir(folder).catch(() => [])
  for (const name of names.filter(each => /(?<!\.test)\.yaml$/.test(each)).sort()) {
    const file = join(folder, name)
    const text = await readFile(file, 'utf8').catch(() => '')
    // `check` reports problems of the file.
    const { value } = await readSource(file, text, { env: {}, readFile: async () => '' })
    const { steps } = (value ?? {}) as { steps?: unknown }
    for (const step of Array.isArray(steps) ? steps : []) {
      const use: unknown = (step as { use?: unknown } | null)?.use
      if (typeof use === 'string' && /^(\.{1,2}\/|npm:)/.test(use) && !uses.has(use)) uses.set(use, file)
    }
  }
  return uses
}
