/** `tollgate test`: runs policy tests in this process, without a network. */
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Command, Option } from 'commander'
import type { Problem } from '../config/yaml/problem.ts'
import type { Guard } from '../testing/policy/isolation.ts'
import type { PolicyTests, ReadProblems } from '../testing/policy/read.ts'
import type { StepFailure, TestResult } from '../testing/policy/run.ts'
import { type AddCommand, configOf, example, pathOf } from './commands.ts'
import { environmentOf, problemText, shownPath } from './configuration.ts'
import { count, json } from './format.ts'
import { CommandError, type ExitCode, progressLine, type Terminal } from './terminal.ts'
import { remarksOf } from './trail-words.ts'

type Format = 'text' | 'json' | 'junit'

interface Options {
  readonly format: Format
  readonly config: string
  /** Whether `config` was given; else the gateway.yaml beside each test is used. */
  readonly isChosen: boolean
  readonly name?: string
}

interface FileResult {
  readonly file: string
  readonly problems: ReadProblems | null
  readonly results: readonly TestResult[]
}

export const addTest: AddCommand = (program, { terminal, finish }) => {
  program
    .command('test')
    .description('run policy tests; exit code 1 if one fails')
    .argument('[files...]', 'files of policy tests (default: policies/*.test.yaml beside the configuration)')
    .addOption(new Option('-n, --name <text>', 'run only tests whose name contains this text'))
    .addOption(
      new Option('--format <format>', 'format of the report').choices(['text', 'json', 'junit']).default('text'),
    )
    .addHelpText(
      'after',
      example('test', 'test policies/standard.test.yaml --name credit', 'test --format junit > report.xml'),
    )
    .action((files: string[], options: Pick<Options, 'format' | 'name'>, command: Command) =>
      finish(() =>
        test(terminal, files, { ...options, config: configOf(command), isChosen: isChosen(terminal, command) }),
      ),
    )
}

/** Whether a configuration was given. */
function isChosen({ env }: Terminal, command: Command): boolean {
  return Boolean(env['TOLLGATE_CONFIG']) || command.parent?.getOptionValueSource('config') === 'cli'
}

async function test(terminal: Terminal, named: readonly string[], options: Options): Promise<ExitCode> {
  const { config } = options
  const files = named.length > 0 ? named.map(file => pathOf(terminal, file)) : filesBeside(pathOf(terminal, config))
  const { isolateTests } = await import('../testing/policy/isolation.ts')
  const guard = isolateTests()
  const results: FileResult[] = []
  try {
    for (const file of files) results.push(await runFile(terminal, file, options, guard))
  } finally {
    guard.end()
  }
  const ran = results.flatMap(each => each.results)
  if (ran.length === 0 && results.every(({ problems }) => problems === null)) {
    throw new CommandError(`no test has a name with "${options.name}"`)
  }
  const fine = results.every(({ problems }) => problems === null) && ran.every(({ failures }) => failures.length === 0)
  if (options.format === 'json') terminal.out(json({ ok: fine, files: results.map(each => asJson(terminal, each)) }))
  else if (options.format === 'junit') terminal.out(asJunit(terminal, results))
  else await printText(terminal, results)
  return fine ? 0 : 1
}

function filesBeside(config: string): string[] {
  const folder = join(dirname(config), 'policies')
  let names: string[]
  try {
    names = readdirSync(folder).filter(name => name.endsWith('.test.yaml'))
  } catch {
    names = []
  }
  if (names.length === 0) throw new CommandError(`no policies/*.test.yaml in ${dirname(config)}`)
  return names.sort().map(name => join(folder, name))
}

async function runFile(
  terminal: Terminal,
  file: string,
  { config, isChosen, name }: Options,
  guard: Guard,
): Promise<FileResult> {
  const [{ readPolicyTests }, { runTest, laterFailures }, { builtinRegistry }] = await Promise.all([
    import('../testing/policy/read.ts'),
    import('../testing/policy/run.ts'),
    import('../loader/builtin.ts'),
  ])
  const env = environmentOf(terminal, config)
  const read: PolicyTests | ReadProblems = await readPolicyTests(file, {
    env,
    registry: builtinRegistry(),
    ...(isChosen ? { config: pathOf(terminal, config) } : {}),
  })
  if ('problems' in read) return { file, problems: read, results: [] }
  const chosen = read.tests.filter(each => name === undefined || each.name.includes(name))
  const progress = progressLine(terminal, shownPath(terminal, file))
  const results: TestResult[] = []
  for (const each of chosen) {
    progress.show(results.length, chosen.length)
    results.push(await runTest(read, each, guard))
  }
  progress.end()
  const last = results.pop()
  if (last) {
    results.push({ ...last, failures: [...last.failures, ...(await laterFailures(guard))] })
  }
  return { file, problems: null, results }
}

async function printText(terminal: Terminal, files: readonly FileResult[]): Promise<void> {
  for (const { file, problems, results } of files) {
    if (problems) terminal.out(await problemText(terminal, problems))
    for (const result of results) {
      const place = `${shownPath(terminal, file)}:${result.line}`
      if (result.failures.length > 0) terminal.out(`FAILED ${place} ${result.name}\n${failureText(result.failures)}\n`)
    }
  }
  const ran = files.flatMap(({ results }) => results)
  const failed = ran.filter(({ failures }) => failures.length > 0).length
  const broken = files.reduce((sum, { problems }) => sum + (problems?.problems.length ?? 0), 0)
  const exchanges = ran.reduce((sum, each) => sum + each.exchanges, 0)
  const totals = [`${count(ran.length - failed, 'test')} passed`, ...(failed > 0 ? [`${failed} failed`] : [])]
  if (broken > 0) totals.push(count(broken, 'problem'))
  terminal.out(`${totals.join(', ')} (${count(files.length, 'file')}, ${count(exchanges, 'request')})\n`)
}

/** Each difference with both sides, and the trail. */
function failureText(failures: readonly StepFailure[]): string {
  return failures
    .map(({ step, mismatches, trail, mistakes }) => {
      const lines = mismatches.flatMap(({ what, expected, got }) => [
        `  ${what}${step > 1 ? ` (step ${step})` : ''}`,
        `    - expected ${expected}`,
        `    + got      ${got}`,
      ])
      const way = (trail ?? []).map(entry => {
        const remarks = remarksOf(entry).join('; ')
        const parts = [`    ${entry.step}: ${entry.verdict}`, entry.code ?? '', remarks && `(${remarks})`]
        return parts.filter(each => each !== '').join(' ')
      })
      const errors = mistakes.map(mistake => `    ${mistake}`)
      const shown = trail === null ? [] : ['  trail', ...(way.length > 0 ? way : ['    no step was reached'])]
      return [...lines, ...shown, ...errors].join('\n')
    })
    .join('\n')
}

function asJson(terminal: Terminal, { file, problems, results }: FileResult): object {
  const problemJson = ({ line, column, message, suggestion }: Problem) => ({
    line,
    column,
    message,
    suggestion: suggestion ?? null,
  })
  return {
    file: shownPath(terminal, file),
    problems: problems?.problems.map(problemJson) ?? [],
    tests: results.map(({ name, line, failures }) => ({ name, line, ok: failures.length === 0, failures })),
  }
}

function asJunit(terminal: Terminal, files: readonly FileResult[]): string {
  const suites = files.map(({ file, problems, results }) => {
    const name = xml(shownPath(terminal, file))
    const cases = results.map(({ name: title, failures }) => {
      const open = `    <testcase classname="${name}" name="${xml(title)}"`
      if (failures.length === 0) return `${open}/>`
      return `${open}>\n      <failure>${xml(failureText(failures))}</failure>\n    </testcase>`
    })
    const broken = (problems?.problems ?? []).map(({ line, column, message }) => {
      const place = `${line}:${column}`
      return `    <testcase classname="${name}" name="${place}">\n      <error>${xml(message)}</error>\n    </testcase>`
    })
    const failed = results.filter(({ failures }) => failures.length > 0).length
    const head = `  <testsuite name="${name}" tests="${results.length + broken.length}" failures="${failed}" errors="${broken.length}">`
    return [head, ...cases, ...broken, '  </testsuite>'].join('\n')
  })
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n${suites.join('\n')}\n</testsuites>\n`
}

/** Escapes a text, and removes characters that XML 1.0 cannot represent. */
function xml(text: string): string {
  return text
    .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, '')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
