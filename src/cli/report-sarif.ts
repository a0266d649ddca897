/** The report of `tollgate check` as SARIF 2.1.0, for code scanning of GitHub, GitLab and Azure DevOps. */
import { isAbsolute } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Problem } from '../config/yaml/problem.ts'
import { shownPath } from './configuration.ts'
import { json } from './format.ts'
import { type CheckedFile, isPassed, problemsOf, type ReportContext } from './report.ts'

const SCHEMA = 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json'
/** SARIF's name for the base folder of relative paths. */
const BASE = 'SRCROOT'

/** One log with one run: every kind of problem as a rule, every problem as a result. */
export async function sarifReport(
  checked: readonly CheckedFile[],
  { terminal, version, strict }: ReportContext,
): Promise<string> {
  const [{ sentence }, { RULES }] = await Promise.all([
    import('../config/yaml/problem.ts'),
    import('../config/yaml/rules.ts'),
  ])
  const rules = Object.keys(RULES)
  const results = problemsOf(checked).map(problem => ({
    ruleId: problem.rule,
    ruleIndex: rules.indexOf(problem.rule),
    level: problem.level ?? 'error',
    message: { text: sentence(problem) },
    locations: [{ physicalLocation: placeOf(problem, shownPath(terminal, problem.file)) }],
  }))
  return json({
    $schema: SCHEMA,
    version: '2.1.0',
    runs: [
      {
        tool: {
          driver: {
            name: 'tollgate',
            version,
            rules: Object.entries(RULES).map(([id, words]) => ({
              id,
              shortDescription: { text: words },
              defaultConfiguration: { level: /^A (warning|note):/.exec(words)?.[1] ?? 'error' },
            })),
          },
        },
        invocations: [{ executionSuccessful: true, exitCode: isPassed(checked, strict) ? 0 : 1 }],
        originalUriBaseIds: { [BASE]: { uri: `${pathToFileURL(terminal.folder).href}/` } },
        columnKind: 'utf16CodeUnits',
        results,
      },
    ],
  })
}

function placeOf({ line, column }: Problem, file: string): object {
  const region = { startLine: line, startColumn: column }
  if (isAbsolute(file)) return { artifactLocation: { uri: pathToFileURL(file).href }, region }
  const uri = file.split(/[\\/]/).map(encodeURIComponent).join('/')
  return { artifactLocation: { uri, uriBaseId: BASE }, region }
}
