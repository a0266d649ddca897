/** The report of `tollgate check` as workflow commands of GitHub Actions: each problem becomes an annotation at its line. */
import { shownPath } from './configuration.ts'
import { type CheckedFile, problemsOf, type ReportContext, summary } from './report.ts'

/** One `::error …::…`, `::warning …::…` or `::notice …::…` per problem, and a summary line. */
export async function githubReport(checked: readonly CheckedFile[], { terminal }: ReportContext): Promise<string> {
  const { sentence } = await import('../config/yaml/problem.ts')
  const commands = problemsOf(checked).map(problem => {
    const file = property(shownPath(terminal, problem.file))
    const place = `file=${file},line=${problem.line},col=${problem.column}`
    const command = problem.level === 'note' ? 'notice' : (problem.level ?? 'error')
    return `::${command} ${place},title=${property(`tollgate: ${problem.rule}`)}::${text(sentence(problem))}\n`
  })
  return `${commands.join('')}${summary(checked)}\n`
}

/** Escapes the text of a command, which ends with its line. */
function text(value: string): string {
  return value.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A')
}

/** Escapes a property: commas separate properties, and colons end them. */
function property(value: string): string {
  return text(value).replaceAll(':', '%3A').replaceAll(',', '%2C')
}
