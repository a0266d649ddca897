/** Finds the intended path of an external plugin that was written as a name, or as a path without `./`. */
import { stat } from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'

const ENDINGS = ['', '.ts', '.js', '.mjs', '/index.ts', '/index.js', '/index.mjs']

/** The correct `use` if it is the name of a plugin in `plugins/` beside the configuration, or a path from there; else undefined. */
export async function suggestedPluginPath(
  use: string,
  { policyFile, configFile }: { readonly policyFile: string; readonly configFile: string },
): Promise<string | undefined> {
  const top = dirname(resolve(configFile))
  for (const start of [join(top, 'plugins', use), resolve(top, use)]) {
    for (const file of ENDINGS.map(ending => start + ending)) {
      if (!/\.m?[jt]s$/.test(file) || !(await isFile(file))) continue
      const path = relative(dirname(resolve(policyFile)), file)
        .split(sep)
        .join('/')
      return path.startsWith('.') ? path : `./${path}`
    }
  }
  return undefined
}

async function isFile(file: string): Promise<boolean> {
  try {
    return (await stat(file)).isFile()
  } catch {
    return false
  }
}
