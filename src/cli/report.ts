/** What `tollgate check` found, for people and as JSON; the formats of other tools have files of their own. */
import type { LoadResult } from '../config/load.ts'
import type { Problem } from '../config/problem.ts'
import { shownPath } from './configuration.ts'
import { count, json } from './format.ts'
import type { Terminal } from './terminal.ts'

/** A configuration as the command line names it, and what became of it. */
export interface Checked {
  readonly file: string
  readonly loaded: LoadResult
}

export interface ReportContext {
  readonly terminal: Terminal
  /** ANSI colours, where the format has any. */
  readonly colours: boolean
  /** The version of this program. */
  readonly version: string
}

/** Writes what was found. Formats that need more than this file load it when they are asked for. */
export type Report = (checked: readonly Checked[], context: ReportContext) => string | Promise<string>

/** `file:line:column: sentence` with the line and a caret; what is fine is counted; one line sums it up. */
export async function textReport(checked: readonly Checked[], { terminal, colours }: ReportContext): Promise<string> {
  const { formatProblem } = await import('../config/problem.ts')
  const paint = (code: string, text: string) => (colours ? `\x1b[${code}m${text}\x1b[0m` : text)
  const parts = checked.map(({ file, loaded }) => {
    if ('configuration' in loaded) {
      return `${checked.length > 1 ? `${file}: ` : ''}${paint('32', 'OK')}: ${contentsOf(loaded)}\n`
    }
    const problems = loaded.problems.map(problem => {
      const shown = { ...problem, file: shownPath(terminal, problem.file) }
      return `${formatProblem(shown, loaded.sources.get(problem.file), { colours })}\n`
    })
    return `${problems.join('')}\n${paint('31', `${count(loaded.problems.length, 'problem')} in ${file}`)}\n`
  })
  return parts.join('') + (checked.length > 1 ? `\n${summary(checked)}\n` : '')
}

/** `2 of 3 configurations have problems, 5 in all`: what somebody reads who reads one line. */
export function summary(checked: readonly Checked[]): string {
  const broken = checked.filter(each => !isFine(each)).length
  const total = count(checked.length, 'configuration')
  if (broken === 0) return `${total}: no problems`
  return `${broken} of ${total} with problems, ${problemsOf(checked).length} in all`
}

/** Everything as one JSON value. */
export function jsonReport(checked: readonly Checked[], { terminal }: ReportContext): string {
  const files = checked.map(({ file, loaded }) => {
    if ('problems' in loaded) {
      return { file, ok: false, problems: loaded.problems.map(problem => problemJson(terminal, problem)) }
    }
    const { providers, models, routes } = loaded.configuration
    return { file, ok: true, providers: providers.size, models: models.size, routes: routes.length, problems: [] }
  })
  return json({ ok: checked.every(isFine), files })
}

function problemJson(terminal: Terminal, { file, line, column, rule, message, suggestion }: Problem): object {
  return { file: shownPath(terminal, file), line, column, rule, message, suggestion: suggestion ?? null }
}

/** Whether nothing is wrong with a configuration. */
export function isFine({ loaded }: Checked): boolean {
  return 'configuration' in loaded
}

/** The problems of all configurations, each once: two of them may use one policy. */
export function problemsOf(checked: readonly Checked[]): Problem[] {
  const seen = new Map<string, Problem>()
  for (const { loaded } of checked) {
    if (!('problems' in loaded)) continue
    for (const problem of loaded.problems) {
      const { file, line, column, message } = problem
      seen.set(JSON.stringify([file, line, column, message]), problem)
    }
  }
  return [...seen.values()]
}

function contentsOf({ configuration: { providers, models, routes } }: Extract<LoadResult, { configuration: object }>) {
  return [count(providers.size, 'provider'), count(models.size, 'model'), count(routes.length, 'route')].join(', ')
}

/**
 * Whether to write colours: a flag of the command line says no; then FORCE_COLOR, which Node.js too lets win over
 * NO_COLOR; then whether somebody looks at it.
 */
export function wantsColours(
  env: Terminal['env'],
  { allowed, onTerminal }: { readonly allowed: boolean; readonly onTerminal: boolean },
): boolean {
  const { FORCE_COLOR: force, NO_COLOR: none, TERM: term } = env
  if (!allowed) return false
  if (force !== undefined && force !== '') return force !== '0' && force !== 'false'
  return onTerminal && !none && term !== 'dumb'
}
