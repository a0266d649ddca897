/** The report of `tollgate check` as text and as JSON. Other formats have their own files. */
import { resolve } from 'node:path'
import type { LoadResult } from '../config/load.ts'
import type { Problem } from '../config/yaml/problem.ts'
import { shownPath } from './configuration.ts'
import { count, json } from './format.ts'
import type { Terminal } from './terminal.ts'

/** A configuration of the command line, and its load result. */
export interface CheckedFile {
  readonly file: string
  readonly loaded: LoadResult
}

export interface ReportContext {
  readonly terminal: Terminal
  /** ANSI colours, if the format has any. */
  readonly colours: boolean
  /** Whether warnings fail. */
  readonly strict: boolean
  /** The version of this program. */
  readonly version: string
}

/** Formats the results. Formats that need more code load it when they are used. */
export type Report = (checked: readonly CheckedFile[], context: ReportContext) => string | Promise<string>

/** Problems as `file:line:column: sentence` with the line and a caret, counts of the configuration's contents, and a summary. */
export async function textReport(
  checked: readonly CheckedFile[],
  { terminal, colours }: ReportContext,
): Promise<string> {
  const [{ formatProblem }, { priceSummary }] = await Promise.all([
    import('../config/yaml/problem.ts'),
    import('./prices/price-summary.ts'),
  ])
  const paint = (code: string, text: string) => (colours ? `\x1b[${code}m${text}\x1b[0m` : text)
  const parts = checked.map(({ file, loaded }) => {
    const problems = foundIn(loaded).map(problem => {
      const shown = { ...problem, file: shownPath(terminal, problem.file) }
      return `${formatProblem(shown, sourceOf(loaded, problem.file), { colours })}\n`
    })
    if ('configuration' in loaded) {
      const warnings = warningsIn(loaded)
      const warned = warnings === 0 ? '' : `, ${paint('33', count(warnings, 'warning'))}`
      const sum = `${checked.length > 1 ? `${file}: ` : ''}${paint('32', 'OK')}: ${contentsOf(loaded)}${warned}\n${priceSummary(loaded.configuration)}`
      return problems.length === 0 ? sum : `${problems.join('')}\n${sum}`
    }
    return `${problems.join('')}\n${paint('31', `${count(loaded.problems.length, 'problem')} in ${file}`)}\n`
  })
  return parts.join('') + (checked.length > 1 ? `\n${summary(checked)}\n` : '')
}

/** The summary line: `2 of 3 configurations with problems, 5 in all`. */
export function summary(checked: readonly CheckedFile[]): string {
  const broken = checked.filter(each => !isFine(each)).length
  const total = count(checked.length, 'configuration')
  const levels = problemsOf(checked).map(({ level = 'error' }) => level)
  const [warnings, errors] = (['warning', 'error'] as const).map(
    each => levels.filter(level => level === each).length,
  ) as [number, number]
  const warned = warnings === 0 ? '' : `, ${count(warnings, 'warning')}`
  if (broken === 0) return `${total}: no problems${warned}`
  return `${broken} of ${total} with problems, ${errors} in all${warned}`
}

/** The results as one JSON value. */
export async function jsonReport(
  checked: readonly CheckedFile[],
  { terminal, strict }: ReportContext,
): Promise<string> {
  const { pricesJson } = await import('./prices/price-summary.ts')
  const files = checked.map(({ file, loaded }) => {
    const problems = foundIn(loaded).map(problem => problemJson(terminal, problem))
    if ('problems' in loaded) return { file, ok: false, problems }
    const { providers, models, routes } = loaded.configuration
    const ok = !strict || warningsIn(loaded) === 0
    const derived = derivedIn(routes)
    const prices = pricesJson(loaded.configuration)
    return {
      file,
      ok,
      providers: providers.size,
      models: models.size,
      routes: routes.length,
      derived,
      ...(prices === null ? {} : { prices }),
      problems,
    }
  })
  return json({ ok: isPassed(checked, strict), files })
}

function problemJson(terminal: Terminal, problem: Problem): object {
  const { file, line, column, rule, level = 'error', message, suggestion = null } = problem
  return { file: shownPath(terminal, file), line, column, level, rule, message, suggestion }
}

/** Whether a configuration can be served: it may have warnings. */
export function isFine({ loaded }: CheckedFile): boolean {
  return 'configuration' in loaded
}

/** Whether `check` succeeds; with `--strict`, warnings fail too. */
export function isPassed(checked: readonly CheckedFile[], strict: boolean): boolean {
  return checked.every(each => isFine(each) && !(strict && warningsIn(each.loaded) > 0))
}

/** The number of warnings, without notes. */
function warningsIn(loaded: LoadResult): number {
  return foundIn(loaded).filter(({ level }) => level === 'warning').length
}

/** Errors, or the warnings and notes of a configuration without errors. */
function foundIn(loaded: LoadResult): readonly Problem[] {
  return 'problems' in loaded ? loaded.problems : loaded.warnings
}

/** The sources of a valid configuration are keyed by absolute paths. */
function sourceOf({ sources }: LoadResult, file: string): string | undefined {
  return sources.get(file) ?? sources.get(resolve(file))
}

/** The problems of all configurations, each once: two of them may use one policy. */
export function problemsOf(checked: readonly CheckedFile[]): Problem[] {
  const seen = new Map<string, Problem>()
  for (const { loaded } of checked) {
    for (const problem of foundIn(loaded)) {
      const { file, line, column, message } = problem
      seen.set(JSON.stringify([file, line, column, message]), problem)
    }
  }
  return [...seen.values()]
}

function contentsOf({ configuration: { providers, models, routes } }: Extract<LoadResult, { configuration: object }>) {
  const all = [count(providers.size, 'provider'), count(models.size, 'model'), count(routes.length, 'route')]
  return `${all.join(', ')} (${derivedIn(routes)} derived)`
}

const derivedIn = (routes: readonly { readonly derived: boolean }[]) => routes.filter(({ derived }) => derived).length

/**
 * Whether to write colours. The command line can forbid them. Then FORCE_COLOR counts, which has precedence over NO_COLOR as in
 * Node.js, and then whether the output is a terminal.
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
