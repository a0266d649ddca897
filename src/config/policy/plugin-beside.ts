/** A plugin of one's own is named by its path. Its name alone, or a path without `./`, is a likely mistake. */
import { stat } from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'

const ENDINGS = ['', '.ts', '.js', '.mjs', '/index.ts', '/index.js', '/index.mjs']

/** The path that `use` should have said, if it is the name of a plugin in `plugins/` or the path of one; both beside the configuration. */
export async function pathOfPlugin(
  use: string,
  { saidIn, configFile }: { readonly saidIn: string; readonly configFile: string },
): Promise<string | undefined> {
  const top = dirname(resolve(configFile))
  for (const start of [join(top, 'plugins', use), resolve(top, use)]) {
    for (const file of ENDINGS.map(ending => start + ending)) {
      if (!/\.m?[jt]s$/.test(file) || !(await isFile(file))) continue
      const path = relative(dirname(resolve(saidIn)), file)
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
