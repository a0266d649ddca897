/** Loads configurations for commands, and formats their problems. */
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { parseEnv } from 'node:util'
import type { LoadResult } from '../config/load.ts'
import type { WarnOptions } from '../config/warnings.ts'
import type { Problem } from '../config/yaml/problem.ts'
import { pathOf } from './commands.ts'
import { CommandError, type Terminal } from './terminal.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/**
 * The environment, extended by `.env` beside a configuration. As with `process.loadEnvFile`, the environment has precedence.
 */
export function environmentOf(terminal: Terminal, config: string): Environment {
  const file = join(dirname(pathOf(terminal, config)), '.env')
  try {
    return { ...parseEnv(readFileSync(file, 'utf8')), ...terminal.env }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return terminal.env
    throw new CommandError(`${file} cannot be read: ${message}`)
  }
}

/** Loads and checks a configuration with the built-in plugins; looks for warnings only with `warn`. */
export async function readConfiguration(terminal: Terminal, config: string, warn?: WarnOptions): Promise<LoadResult> {
  const [{ loadConfiguration }, { builtinRegistry }] = await Promise.all([
    import('../config/load.ts'),
    import('../loader/builtin.ts'),
  ])
  const env = environmentOf(terminal, config)
  return loadConfiguration(pathOf(terminal, config), { env, registry: builtinRegistry(), ...(warn ? { warn } : {}) })
}

/** Problems, and the texts of their files. */
export interface Problems {
  readonly problems: readonly Problem[]
  readonly sources: ReadonlyMap<string, string>
}

/** Formats problems as `file:line:column: sentence`, each with its line and a caret. */
export async function problemText(terminal: Terminal, { problems, sources }: Problems): Promise<string> {
  const { formatProblem } = await import('../config/yaml/problem.ts')
  return problems
    .map(problem => {
      const shown = { ...problem, file: shownPath(terminal, problem.file) }
      return `${formatProblem(shown, sources.get(problem.file))}\n`
    })
    .join('')
}

/** A path for display: relative if it is below the terminal's folder, else absolute. Web addresses stay unchanged. */
export function shownPath(terminal: Terminal, file: string): string {
  if (file.includes('://')) return file
  const path = relative(terminal.folder, pathOf(terminal, file))
  return path === '' || path.startsWith('..') ? file : path
}
